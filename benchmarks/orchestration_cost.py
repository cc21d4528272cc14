"""Seconds of a flow over ten unchanged stages, against bare ``dvc repro`` and against Kedro doing the same.

python -m benchmarks.orchestration_cost [--kedro-python PATH] [--repeats N]

Ten stages in a chain, each a program that copies a file of one line. All is up to date, so nothing needs to run. Three
commands are timed in turn, from start to exit: ``dvc repro``; ``python -m flows.training`` against a Prefect server
that runs already, as it does for a deployment; ``kedro run`` over ten nodes of the same chain, each a file of text that
is loaded and saved. Kedro keeps no record of what is unchanged: it runs its nodes, which do nothing but copy. It wants
an environment of its own: ``python3 -m venv DIR && DIR/bin/pip install kedro "kedro-datasets[text-textdataset]"``.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import flows.settings  # noqa: F401  # before Prefect

# isort: split
from prefect.server.api.server import SubprocessASGIServer

from benchmarks.results_file import Row, write_rows
from dualmind.evaluation.intervals import Interval, bootstrap_mean

ROOT = Path(__file__).resolve().parents[1]
STAGES, TARGET = 10, 2.0
_LIMIT_S = 600.0


def make_pipeline(root: Path) -> None:
    """Ten stages in a chain, which have run."""
    stages = "".join(
        f"  s{i}:\n    cmd: cp f{i}.txt f{i + 1}.txt\n    deps: [f{i}.txt]\n    outs: [f{i + 1}.txt]\n"
        for i in range(STAGES)
    )
    root.mkdir(parents=True)
    (root / "dvc.yaml").write_text(f"stages:\n{stages}")
    (root / "params.yaml").write_text("flow: {workers: 2, stage_limit_minutes: 10, lock_wait_minutes: 10}\n")
    (root / "f0.txt").write_text("one line\n")
    for command in (["git", "init", "-q"], [*_DVC, "init", "-q"], [*_DVC, "repro", "-q"]):
        subprocess.run(command, cwd=root, check=True)


_DVC = [sys.executable, "-m", "dvc"]


def make_kedro(root: Path) -> None:
    """The same chain as a Kedro project in its smallest form."""
    package = root / "src" / "chain"
    package.mkdir(parents=True)
    (root / "conf/base").mkdir(parents=True)
    (root / "conf/local").mkdir()
    (root / "data").mkdir()
    (root / "data/f0.txt").write_text("one line\n")
    (root / "pyproject.toml").write_text(
        '[tool.kedro]\npackage_name = "chain"\nproject_name = "chain"\nkedro_init_version = "1.0.0"\n'
        'source_dir = "src"\n[project]\nname = "chain"\nversion = "0.1"\n'
    )
    entry = "f{0}:\n  type: text.TextDataset\n  filepath: data/f{0}.txt\n"
    (root / "conf/base/catalog.yml").write_text("".join(entry.format(i) for i in range(STAGES + 1)))
    (package / "__init__.py").write_text("")
    (package / "settings.py").write_text("")
    (package / "pipeline_registry.py").write_text(
        "from kedro.pipeline import node, pipeline\n\n\ndef same(text):\n    return text\n\n\n"
        "def register_pipelines():\n"
        f"    nodes = [node(same, f'f{{i}}', f'f{{i + 1}}', name=f's{{i}}') for i in range({STAGES})]\n"
        "    return {'__default__': pipeline(nodes)}\n"
    )


def seconds(command: Sequence[str], root: Path, environment: Mapping[str, str]) -> tuple[float, str]:
    """Wall time of a command, and its output.

    Raises:
        SystemExit: it failed.
    """
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=root, env={**os.environ, **environment}, capture_output=True, text=True, timeout=_LIMIT_S,
        check=False,
    )  # fmt: skip
    took = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed in {root}: {done.stderr[-2000:]}")
    return took, done.stdout + done.stderr


def measure(scratch: Path, kedro: Path | None, repeats: int, server: str) -> dict[str, list[float]]:
    """Seconds of each command, in turn, so that what else the machine does strikes all alike."""
    make_pipeline(scratch / "dvc")
    commands = {
        "dvc": ([*_DVC, "repro"], scratch / "dvc", {}),
        "flow": (
            [sys.executable, "-m", "flows.training"], scratch / "dvc",
            {"PREFECT_API_URL": server, "PYTHONPATH": str(ROOT)},
        ),
    }  # fmt: skip
    if kedro is not None:
        make_kedro(scratch / "kedro")
        program = [str(kedro), "-m", "kedro", "run"]
        commands["kedro"] = (program, scratch / "kedro", {"DO_NOT_TRACK": "1", "KEDRO_DISABLE_TELEMETRY": "1"})
    for command in commands.values():
        seconds(*command)  # the first run fills caches of bytecode
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            took, output = seconds(*command)
            if "Running stage" in output:
                raise SystemExit(f"{name} ran a stage of {scratch / 'dvc'}, which was up to date")
            found[name].append(took)
    return found


def ratio(over: Sequence[float], under: Sequence[float]) -> Interval:
    """Of means, by the paired bootstrap over repeats."""
    rng, left, right = np.random.default_rng(0), np.array(over), np.array(under)
    chosen = rng.integers(len(left), size=(10_000, len(left)))
    low, high = np.percentile(left[chosen].mean(axis=1) / right[chosen].mean(axis=1), [2.5, 97.5])
    return Interval(float(left.mean() / right.mean()), float(low), float(high))


def rows(found: Mapping[str, Sequence[float]], begun: float) -> list[Row]:
    """Against bare DVC, and against Kedro where it was there."""
    command = "python -m benchmarks.orchestration_cost --kedro-python PATH"
    means = {name: bootstrap_mean(values, np.random.default_rng(0)).value for name, values in found.items()}
    same: dict[str, Any] = {"unit": "times", "seeds": len(found["dvc"]), "command": command}
    against = f"flow {means['flow']:.2f} s, dvc repro {means['dvc']:.2f} s"
    claim = f"flow over {STAGES} unchanged stages against"
    result = [
        Row.of(
            ratio(found["flow"], found["dvc"]),
            target=TARGET,
            at_most=True,
            begun=begun,
            claim=f"{claim} bare dvc repro",
            baseline=against,
            **same,
        )
    ]
    kedro = ratio(found["flow"], found["kedro"]) if "kedro" in found else None
    words = (
        f"kedro run {means['kedro']:.2f} s, which runs its ten nodes" if "kedro" in found else "no --kedro-python given"
    )
    claim = f"{claim} Kedro over the same chain"
    return [*result, Row.of(kedro, target=1.0, at_most=True, begun=begun, claim=claim, baseline=words, **same)]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.orchestration_cost")
    parser.add_argument("--kedro-python", type=Path, help="an interpreter that has Kedro")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    kedro = given.kedro_python.absolute() if given.kedro_python else None
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, SubprocessASGIServer() as server:
        found = measure(Path(scratch), kedro, given.repeats, server.api_url)
    for row in (result := rows(found, begun)):
        print(f"{row.claim}: {row.value} ({row.baseline})")
    write_rows("orchestration_cost", result)


if __name__ == "__main__":
    main()
