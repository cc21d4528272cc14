"""The training flow: the graph of dvc.yaml, each stage a Prefect task.

    python -m flows.training                          # all stages
    python -m flows.training --until pretrain@system1  # a stage and all it needs
    python -m flows.training --only evaluate           # one stage, its parents as they are

The graph is read from dvc.yaml, so there is no second one. DVC decides what must run; Prefect orders, watches and
records, and every run holds the content hashes of what each stage read and made.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from dualmind.errors import PipelineError
from tasks.dvc import StageRef
from tasks.graph import read_graph, select

# before Prefect is imported: it reads its settings then. What the user has set stays.
for _key, _value in {
    "PREFECT_HOME": str(Path.cwd() / ".prefect"),
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # the default of 20 s is too short on a busy laptop
    "DO_NOT_TRACK": "1",
}.items():
    os.environ.setdefault(_key, _value)

from prefect import flow, get_run_logger  # noqa: E402
from prefect.artifacts import create_table_artifact  # noqa: E402
from prefect.futures import PrefectFuture  # noqa: E402
from prefect.task_runners import ThreadPoolTaskRunner  # noqa: E402

from tasks.stage import run_stage  # noqa: E402

STAGE_LIMIT_S = 6 * 3600.0  # a stage that takes longer than this on any profile is stuck


_RUNNER: ThreadPoolTaskRunner[Any] = ThreadPoolTaskRunner(max_workers=2)


@flow(name="training", task_runner=_RUNNER, validate_parameters=False)  # type: ignore[arg-type]  # Prefect's own
def training(root: Path, until: str | None = None, only: str | None = None) -> dict[str, StageRef]:
    """Run stages in the order of the graph; independent ones side by side.

    Args:
        root: the project's folder.
        until: run this stage and all it needs.
        only: run this stage alone.

    Returns:
        A reference by content of each stage.

    Raises:
        PipelineError: a stage failed; what depends on it does not run.
    """
    stages = select(read_graph(root), until=until, only=only)
    get_run_logger().info("stages: %s", ", ".join(stage.name for stage in stages))
    futures: dict[str, PrefectFuture[StageRef]] = {}
    for stage in stages:
        parents = [futures[name] for name in stage.parents if name in futures]
        task = run_stage.with_options(name=stage.name)
        # Prefect hands the task what the futures hold, which its types do not say
        futures[stage.name] = task.submit(stage.name, root, parents, timeout_s=STAGE_LIMIT_S)  # type: ignore[arg-type]  # see above
    refs = {name: future.result() for name, future in futures.items()}
    _record(refs, root)
    return refs


def _record(refs: dict[str, StageRef], root: Path) -> None:
    """Tables of what was made, and of the metrics, as artifacts of the run."""
    outs = [
        {"stage": ref.name, "output": out.path, "md5": out.md5, "bytes": out.size}
        for ref in refs.values()
        for out in ref.outs
    ]
    create_table_artifact(table=outs, key="stage-outputs", description="What each stage made, by content")
    create_table_artifact(table=_metrics(refs, root), key="metrics", description="Metrics of all stages")


def _metrics(refs: dict[str, StageRef], root: Path) -> list[dict[str, Any]]:
    """Single numbers of the metrics files among the outputs."""
    rows = []
    for ref in refs.values():
        for out in ref.outs:
            if out.path.endswith(".json") and not out.path.startswith("artifacts/validate"):
                content = json.loads((root / out.path).read_text(encoding="utf-8"))
                rows += [{"stage": ref.name, "metric": k, "value": v} for k, v in _numbers(content)]
    return rows


def _numbers(value: Any, prefix: str = "") -> list[tuple[str, float]]:
    if isinstance(value, dict) and len(prefix) < 80:
        return [pair for key, own in value.items() for pair in _numbers(own, f"{prefix}.{key}" if prefix else key)]
    return [(prefix, value)] if isinstance(value, int | float) else []


def main() -> int:
    """Command line; 0 if all stages are up to date, 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.training", description="Run the stages of dvc.yaml with Prefect."
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--until", metavar="STAGE", help="this stage and all it needs")
    group.add_argument("--only", metavar="STAGE", help="this stage alone")
    arguments = parser.parse_args()
    try:
        refs = training(Path.cwd(), until=arguments.until, only=arguments.only)
    except PipelineError as error:
        print(f"training failed: {error}", file=sys.stderr)
        return 1
    for ref in refs.values():
        print(f"{ref.name}: {', '.join(f'{out.path} {out.md5[:8]}' for out in ref.outs)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
