"""The training flow: the graph of dvc.yaml, each stage a Prefect task.

    python -m flows.training                          # all stages
    python -m flows.training --until pretrain@system1  # a stage and all it needs
    python -m flows.training --only evaluate           # one stage, its parents as they are

The graph is read from dvc.yaml, so there is no second one. DVC decides what must run; Prefect orders, watches and
records, and every run holds the content hashes of what each stage read and made.
"""

import argparse
import json
import signal
import sys
import threading
from collections.abc import Collection
from pathlib import Path
from types import FrameType
from typing import Any, cast

import httpx
import yaml

import flows.settings  # noqa: F401  # before Prefect
from dualmind.errors import ParamsError, PipelineError
from stages.params import load_params
from tasks.dvc import StageRef, order_lock, unchanged
from tasks.graph import Stage, read_graph, select
from tasks.programs import ProcessGroups

# isort: split
from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.client.orchestration import get_client
from prefect.exceptions import CancelledRun, TerminationSignal
from prefect.futures import PrefectFuture
from prefect.runtime import deployment, flow_run
from prefect.server.api.server import SubprocessASGIServer
from prefect.settings import get_current_settings
from prefect.states import Cancelled

from tasks.stage import FlowParams, run_stage

_POLL_S = 5.0


@flow(name="training", validate_parameters=False)
def training(root: Path | str, until: str | None = None, only: str | None = None) -> dict[str, StageRef]:
    """Run stages in the order of the graph; independent ones side by side.

    Args:
        root: the project's folder; a deployment gives it as text.
        until: run this stage and all it needs.
        only: run this stage alone.

    Returns:
        A reference by content of each stage.

    Raises:
        PipelineError: a stage failed; what depends on it does not run.
        ParamsError: section ``flow`` of params.yaml does not fit.
    """
    root = Path(root).resolve()
    params = load_params(FlowParams, "flow", root / "params.yaml")
    graph = read_graph(root)
    stages = select(graph, until=until, only=only)
    get_run_logger().info("stages: %s", ", ".join(stage.name for stage in stages))
    groups = ProcessGroups(params.workers)
    try:
        fresh = unchanged(graph, root, groups, timeout_s=60 * params.lock_wait_minutes)
        futures = _submit(stages, root, groups, params, fresh)
        refs = {name: _result(future) for name, future in futures.items()}
    except Exception:
        raise  # a stage failed; those beside it go on to their end
    except BaseException as stop:  # Ctrl-C, SIGTERM, or Prefect cancels the run: no stage may outlive it
        groups.stop()
        if not isinstance(stop, KeyboardInterrupt | TerminationSignal | _CancelledInPrefect) or deployment.id:
            raise  # a deployment's worker has sent the signal and records the outcome
        return cast("dict[str, StageRef]", Cancelled(message=_describe(stop)))  # Prefect takes it as the run's state
    if not order_lock(list(graph), root):
        get_run_logger().warning(
            "dvc.lock keeps the order in which stages ended, as another dvc is at work in %s", root
        )
    _record(stages, refs, root)
    return refs


class _CancelledInPrefect(BaseException):
    """Somebody cancelled the run, on Prefect's pages say."""


def _submit(
    stages: list[Stage], root: Path, groups: ProcessGroups, params: FlowParams, fresh: Collection[str]
) -> dict[str, PrefectFuture[StageRef]]:
    futures: dict[str, PrefectFuture[StageRef]] = {}
    for stage in stages:
        parents = [futures[name] for name in stage.parents if name in futures]
        task = run_stage.with_options(name=stage.name)
        # Prefect hands the task what the futures hold, which its types do not say
        futures[stage.name] = task.submit(
            stage.name, root, parents, groups=groups, params=params, unchanged=stage.name in fresh  # type: ignore[arg-type]  # see above
        )  # fmt: skip
    return futures


def _result(future: PrefectFuture[StageRef]) -> StageRef:
    """What the task returned; looks every few seconds whether the run was cancelled, as nothing else tells us."""
    while True:
        try:
            return future.result(timeout=_POLL_S)
        except TimeoutError:
            if _is_cancelled():
                raise _CancelledInPrefect from None


def _is_cancelled() -> bool:
    try:
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(flow_run.id).state
    except httpx.HTTPError:
        return False  # a server that does not answer now must not end hours of training
    return state is not None and (state.is_cancelling() or state.is_cancelled())


def _describe(stop: BaseException) -> str:
    match stop:
        case TerminationSignal():
            return "stopped by SIGTERM"
        case KeyboardInterrupt():
            return "stopped by SIGINT"
        case _:
            return "cancelled in Prefect"


def _record(stages: list[Stage], refs: dict[str, StageRef], root: Path) -> None:
    """Tables of what was made, and of the metrics, as artifacts of the run."""
    outs = [
        {"stage": ref.name, "output": out.path, "md5": out.md5, "bytes": out.size}
        for ref in refs.values()
        for out in ref.outs
    ]
    create_table_artifact(table=outs, key="stage-outputs", description="What each stage made, by content")
    create_table_artifact(table=_metrics(stages, root), key="metrics", description="Metrics of all stages")


def _metrics(stages: list[Stage], root: Path) -> list[dict[str, Any]]:
    """Single numbers of the metrics files that dvc.yaml declares."""
    rows = []
    for stage in stages:
        for path in stage.metrics:
            text = (root / path).read_text(encoding="utf-8")
            content = json.loads(text) if path.endswith(".json") else yaml.safe_load(text)
            rows += [{"stage": stage.name, "metric": k, "value": v} for k, v in _numbers(content)]
    return rows


def _numbers(value: Any, prefix: str = "") -> list[tuple[str, float]]:
    if isinstance(value, dict) and len(prefix) < 80:
        return [pair for key, own in value.items() for pair in _numbers(own, f"{prefix}.{key}" if prefix else key)]
    return [(prefix, value)] if isinstance(value, int | float) else []


def main() -> int:
    """Command line; 0 if all stages are up to date, 1 if one failed, 128 + the signal's number if it was stopped."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.training", description="Run the stages of dvc.yaml with Prefect."
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--until", metavar="STAGE", help="this stage and all it needs")
    group.add_argument("--only", metavar="STAGE", help="this stage alone")
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit)
    try:
        start_server()
        refs = training(Path.cwd(), until=arguments.until, only=arguments.only)
    except (ParamsError, PipelineError) as error:
        print(f"training failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except CancelledRun as error:
        print(f"training was {error}; what is done is kept, run again to go on", file=sys.stderr)
        return next((128 + number for number in (signal.SIGINT, signal.SIGTERM) if number.name in str(error)), 1)
    for ref in refs.values():
        print(f"{ref.name}: {', '.join(f'{out.path} {out.md5[:8]}' for out in ref.outs)}")
    return 0


def _exit(number: int, _: FrameType | None) -> None:
    """An orderly end, so that Prefect's temporary server, which an exit handler stops, is not left behind."""
    raise SystemExit(128 + number)


def start_server() -> None:
    """Start Prefect's temporary server, where no other is set, deaf to Ctrl-C.

    A terminal sends Ctrl-C to it as well; it would be gone when the run's end is to be recorded. Programs inherit the
    signals that the thread which starts them blocks.
    """
    if get_current_settings().api.url is not None:
        return

    def start() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        SubprocessASGIServer().start()

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join()


if __name__ == "__main__":
    sys.exit(main())
