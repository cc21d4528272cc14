"""Two months of traffic with a shift in the second one, calibrated by name against a real local Prefect server.

    python -m flows.demo [PORT]

It works in a project of its own, ``.profiles/demo``; this one is left alone. All that it starts is stopped again. The
page of what happened is ``.profiles/demo/history.html``.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from dualmind.agent.gate import confidence_gate
from dualmind.calibration import synthetic
from dualmind.calibration.page import Month, render_history
from dualmind.calibration.sample import Sample, proof_rows
from dualmind.calibration.threshold import calibrate
from dualmind.errors import DualmindError, PipelineError
from dualmind.lineage.keys import open_key
from dualmind.serving.files import ReleaseFiles, Weights
from dualmind.serving.production import Production as ServedProduction
from dualmind.storage import md5_file, write_text
from dualmind.traffic.read import read_month
from dualmind.traffic.schema import month_of
from flows.ui import end, is_free, wait_for_server
from stages.params import load_params
from stages.recalibrate import OUT, RecalibrateParams
from stages.release import LEDGER, ReleaseParams
from tasks.calibration import CalibrationParams, month_before, open_store

RELEASE = "demo"
_WEIGHTS = "0" * 32  # there are none
_HELD_OUT, _DECISIONS = 4000, 6000
_RUN_LIMIT_S = 600.0

Replay = Callable[[Path, str, float, bool], None]  # project, month, threshold that serves, shifted


def replay(project: Path, month: str, threshold: float, shifted: bool) -> None:
    """Write a month of synthetic traffic into the project's log."""
    params = load_params(CalibrationParams, "calibration", project / "params.yaml")
    rng = np.random.default_rng(int(shifted))
    synthetic.replay(
        project / params.traffic,
        month,
        _DECISIONS,
        threshold=threshold,
        label=open_store(project).read(project / params.production).state.label,
        shifted=shifted,
        rng=rng,
    )


def make_project(root: Path, project: Path) -> None:
    """A project with the pipeline of calibrations, in which a threshold serves that held-out problems proved.

    Raises:
        DualmindError: a section of params.yaml is missing, or no threshold can be proven.
    """
    shutil.rmtree(project, ignore_errors=True)
    for package in ("dualmind", "stages"):
        shutil.copytree(root / package, project / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("params.yaml", ".dvcignore", "calibration/dvc.yaml"):
        (project / name).parent.mkdir(exist_ok=True)
        shutil.copy2(root / name, project / name)
    write_text(project / "calibration/months.yaml", "periods: []\n")
    write_text(project / ".dvc/config", "[core]\n    analytics = false\n    no_scm = true\n")
    params = load_params(CalibrationParams, "calibration", project / "params.yaml")
    promise = load_params(RecalibrateParams, "recalibrate", project / "params.yaml")
    folder = project / params.production
    gate, proof = project / "gate.json", project / "threshold.json"
    confidence_gate(_WEIGHTS, ["reasoning"]).save(gate)
    scores, right, _ = synthetic.decide(_HELD_OUT, np.random.default_rng(2), shifted=False)
    first = calibrate(
        Sample.of(scores, right, np.round(np.linspace(0, 1, params.grid_points), 9)),
        alpha=promise.alpha, delta=promise.delta, weights_digest=_WEIGHTS,
        gate_digest=md5_file(gate), calibration_digest="0" * 32, previous_value=None,
    )  # fmt: skip
    why = f"{first.errors} of {first.n} answers to held-out problems wrong"
    first.write(proof)
    files = ReleaseFiles(
        RELEASE, "0" * 64, Weights(project, _WEIGHTS), Weights(project, _WEIGHTS), gate=gate, threshold=proof
    )
    releases = load_params(ReleaseParams, "release", project / "params.yaml")
    key = open_key(project / releases.keys, releases.signer, datetime.now(UTC))
    production = ServedProduction(folder, project / releases.folder / LEDGER, key)
    production.promote(files, gate, proof, who="demo", why=why)


def demo(root: Path, project: Path, port: int, replay_month: Replay = replay) -> Path:
    """Run the whole; returns the page.

    Args:
        root: the folder with prefect.yaml.
        project: where it happens; made anew.
        port: for the Prefect server, on 127.0.0.1.
        replay_month: brings a month of traffic into the project's log.

    Raises:
        DualmindError: the server does not start, or a run fails.
    """
    make_project(root, project)
    environment = {
        **os.environ,
        "PREFECT_HOME": str(project / ".prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PWD": str(root),
    }
    prefect = [sys.executable, "-m", "prefect", "--no-prompt"]
    started: list[subprocess.Popen[bytes]] = []
    try:
        serve = [*prefect, "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        started.append(_start(serve, root, environment, project / "server.log"))
        if (problem := wait_for_server(environment["PREFECT_API_URL"], started[0])) is not None:
            raise PipelineError(f"{problem} (see {project / 'server.log'})")
        _run([*prefect, "work-pool", "create", "--type", "process", "local"], root, environment)
        _run([*prefect, "deploy", "--name", "calibration"], root, environment)
        work = [*prefect, "worker", "start", "--pool", "local"]
        started.append(_start(work, root, environment, project / "worker.log"))
        months, runs = _calibrate(root, project, prefect, environment, replay_month)
    finally:
        for process in reversed(started):
            end(process)
    params = load_params(CalibrationParams, "calibration", project / "params.yaml")
    page, store = project / "history.html", open_store(project)
    write_text(page, render_history(months, store.history(project / params.production), runs, params.monitor.level))
    return page


def _calibrate(
    root: Path, project: Path, prefect: Sequence[str], environment: Mapping[str, str], replay_month: Replay
) -> tuple[list[Month], list[tuple[str, str]]]:
    params = load_params(CalibrationParams, "calibration", project / "params.yaml")
    folder = project / params.production
    last = month_before(month_of(datetime.now(UTC)))
    months, runs = [], []
    store = open_store(project)
    for month, shifted in ((month_before(last), False), (last, True)):
        served = store.read(folder).threshold.value
        print(f"{month}: replaying traffic{', shifted' if shifted else ''}; {served:.3f} serves", flush=True)
        replay_month(project, month, served, shifted)
        given = ["--param", f'root="{project}"', "--param", f'month="{month}"']
        _run([*prefect, "deployment", "run", "calibration/calibration", "--watch", *given], root, environment)
        runs.append((f"calibration/calibration, month {month}", "Completed"))
        rows = proof_rows(read_month(project / params.traffic, month)).sort_by("time").to_pylist()
        verdicts = [bool(row["correct"]) for row in rows if row["score"] >= served]
        curve = json.loads((project / OUT / month / "risk_curve.json").read_bytes())
        months.append(Month(month, served, curve, verdicts))
        print(f"  {store.history(folder)[-1].why}", flush=True)
    back = [sys.executable, "-m", "flows.calibration", "--rollback", "to show that it can be undone"]
    _run(back, project, {**environment, "PYTHONPATH": str(root)})
    runs.append(("python -m flows.calibration --rollback", "done"))
    print(f"rolled back: {store.read(folder).threshold.value:.3f} serves again", flush=True)
    return months, runs


def _start(
    command: Sequence[str], root: Path, environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:  # fmt: skip
    with log.open("wb") as file:
        return subprocess.Popen(
            command, cwd=root, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )


def _run(command: Sequence[str], root: Path, environment: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=_RUN_LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise PipelineError(f"`{' '.join(command[2:])}` did not end within {_RUN_LIMIT_S:g} s") from error
    if done.returncode:
        raise PipelineError(f"`{' '.join(command[2:])}` failed:\n{(done.stdout + done.stderr)[-3000:]}")


def main(arguments: Sequence[str]) -> int:
    """Command line; 0 if all went well, 2 for a port that cannot be used, 130 if it was interrupted, else 1."""
    port = int(arguments[0]) if arguments and arguments[0].isdecimal() else 4200
    if not 0 < port < 65536 or not is_free(port):
        print(f"port {port} of 127.0.0.1 cannot be used; take another one: make demo PORT=4300", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    root = Path.cwd()
    try:
        page = demo(root, root / ".profiles/demo", port)
    except DualmindError as error:
        print(f"demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print(f"what happened: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
