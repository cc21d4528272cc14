"""Two months of questions, asked of a running server, with a shift in the second one: each month is calibrated by name
against a real local Prefect server, the running server follows, and the last change is rolled back.

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
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx

from dualmind.calibration.page import Month, render_history
from dualmind.calibration.sample import proof_rows
from dualmind.calibration.threshold import Threshold
from dualmind.errors import DualmindError, PipelineError
from dualmind.lineage.keys import open_key
from dualmind.serving.production import Production
from dualmind.storage import write_text
from dualmind.traffic.read import read_month
from dualmind.traffic.schema import month_of
from flows.replay import files_of, free_port, replay, server, wait_for_threshold
from flows.ui import end, is_free, wait_for_server
from stages.params import load_params
from stages.recalibrate import OUT
from stages.release import LEDGER, ReleaseParams
from tasks.calibration import CalibrationParams, month_before, open_store
from tasks.profile import make_copy

MADE = ("artifacts/pretrain", "artifacts/calibrate")  # by `make repro`
_RUN_LIMIT_S = 1800.0


def made_in(root: Path) -> Path:
    """The project whose pair is shown: this one if ``make repro`` ran here, else the quick profile's, which is run.

    Raises:
        PipelineError: the quick profile's run fails.
    """
    if all((root / name).exists() for name in MADE):
        return root
    print("nothing was made here yet: the quick profile makes a small pair first", flush=True)
    copy = make_copy(root, "quick")
    _run([sys.executable, "-m", "dvc", "repro", "calibrate"], copy, os.environ)
    return copy


def make_project(root: Path, project: Path) -> None:
    """A project with the pipeline of calibrations, which serves a pair with the threshold that its release proved.

    Raises:
        DualmindError: a section of params.yaml is missing, or the pair does not belong together.
    """
    source = made_in(root)
    shutil.rmtree(project, ignore_errors=True)
    for package in ("dualmind", "stages"):
        shutil.copytree(root / package, project / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".dvcignore", "calibration/dvc.yaml"):
        (project / name).parent.mkdir(exist_ok=True)
        shutil.copy2(root / name, project / name)
    shutil.copy2(source / "params.yaml", project / "params.yaml")
    for name in MADE:
        shutil.copytree(source / name, project / name)
    write_text(project / "calibration/months.yaml", "periods: []\n")
    write_text(project / ".dvc/config", "[core]\n    analytics = false\n    no_scm = true\n")
    params = load_params(CalibrationParams, "calibration", project / "params.yaml")
    releases = load_params(ReleaseParams, "release", project / "params.yaml")
    key = open_key(project / releases.keys, releases.signer, datetime.now(UTC))
    production = Production(project / params.production, project / releases.folder / LEDGER, key)
    files = files_of(project)
    first = Threshold.read(files.threshold)
    why = f"{first.errors} of {first.n} answers to held-out problems wrong"
    production.promote(files, files.gate, files.threshold, who="demo", why=why)


def demo(root: Path, project: Path, port: int) -> Path:
    """Run the whole; returns the page.

    Args:
        root: the folder with prefect.yaml.
        project: where it happens; made anew.
        port: for the Prefect server, on 127.0.0.1.

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
        months, runs = _calibrate(root, project, prefect, environment)
    finally:
        for process in reversed(started):
            end(process)
    params = load_params(CalibrationParams, "calibration", project / "params.yaml")
    page, store = project / "history.html", open_store(project)
    write_text(page, render_history(months, store.history(project / params.production), runs, params.monitor.level))
    return page


def _calibrate(
    root: Path, project: Path, prefect: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[Month], list[tuple[str, str]]]:
    """Replay and calibrate both months; the server of each runs on meanwhile."""
    last = month_before(month_of(datetime.now(UTC)))
    months: list[Month] = []
    runs: list[tuple[str, str]] = []
    for month, shifted in ((month_before(last), False), (last, True)):
        with server(project, root, month, shifted=shifted, port=free_port()) as client:
            served = _serves(project)
            print(f"{month}: replaying{', shifted' if shifted else ''}; {served:.3f} serves", flush=True)
            replayed = replay(client, month, shifted=shifted)
            runs.append((f"visitors of {month}{', shifted' if shifted else ''}", str(replayed)))
            print(f"  {replayed}", flush=True)
            given = ["--param", f'root="{project}"', "--param", f'month="{month}"']
            _run([*prefect, "deployment", "run", "calibration/calibration", "--watch", *given], root, environment)
            runs.append((f"calibration/calibration, month {month}", "Completed"))
            runs.append(_followed(client, project))
            months.append(_month(project, month, served))
            if shifted and _was_changed(project):
                back = [sys.executable, "-m", "flows.calibration", "--rollback", "to show that it can be undone"]
                _run(back, project, {**environment, "PYTHONPATH": str(root)})
                runs.append(("python -m flows.calibration --rollback", "done"))
                runs.append(_followed(client, project))
    return months, runs


def _was_changed(project: Path) -> bool:
    """Whether a calibration promoted a threshold, so that there is something to roll back to."""
    params = load_params(CalibrationParams, "calibration", project / "params.yaml")
    history = open_store(project).history(project / params.production)
    return sum(change.kind == "promote" for change in history) > 1


def _serves(project: Path) -> float:
    params = load_params(CalibrationParams, "calibration", project / "params.yaml")
    return open_store(project).read(project / params.production).threshold.value


def _followed(client: httpx.Client, project: Path) -> tuple[str, str]:
    """What the running server serves now."""
    value = _serves(project)
    state = wait_for_threshold(client, value)
    print(f"  the running server serves {value:.3f}, state {state}", flush=True)
    return "the running server, not restarted", f"serves {value:.3f}, state {state}"


def _month(project: Path, month: str, served: float) -> Month:
    """What was found in a month in which a threshold served."""
    params = load_params(CalibrationParams, "calibration", project / "params.yaml")
    rows = proof_rows(read_month(project / params.traffic, month)).sort_by("time").to_pylist()
    verdicts = [bool(row["correct"]) for row in rows if row["score"] >= served]
    curve = json.loads((project / OUT / month / "risk_curve.json").read_bytes())
    print(f"  {open_store(project).history(project / params.production)[-1].why}", flush=True)
    return Month(month, served, curve, verdicts)


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
