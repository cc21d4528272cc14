"""Runs stages through DVC and reads what it recorded. The only code that calls DVC."""

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from dualmind.errors import PipelineError
from dualmind.lineage.lockfile import FileRef, file_refs

_AGAIN = {False: (), True: ("--force", "--no-commit")}
_TAIL = 30  # lines of output that an error repeats


@dataclass(frozen=True, slots=True)
class StageRef:
    """A stage as it last ran: what flows pass on."""

    name: str
    command: str
    deps: tuple[FileRef, ...]
    outs: tuple[FileRef, ...]

    def out(self, path: str) -> FileRef:
        """The output at ``path``.

        Raises:
            PipelineError: the stage has no such output.
        """
        for ref in self.outs:
            if ref.path == path:
                return ref
        raise PipelineError(f"stage {self.name} has no output {path}; it has {', '.join(r.path for r in self.outs)}")


def reproduce(
    name: str, root: Path, *, timeout_s: float, log: Callable[[str], None], again: bool = False
) -> StageRef:  # fmt: skip
    """Bring one stage up to date, its parents being so already.

    Args:
        name: the stage, such as ``pretrain@system1``.
        root: the project's folder.
        timeout_s: seconds after which the stage and all it started are killed.
        log: takes each line of output as it comes.
        again: run it even if nothing changed, and leave the cache as it is.

    Returns:
        The stage as recorded in dvc.lock.

    Raises:
        PipelineError: the stage failed, was killed or took too long, or another DVC holds the lock.
    """
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", "--single-item", *_AGAIN[again], name]
    code, tail = run_streamed(command, root, timeout_s=timeout_s, log=log)
    if code:
        raise PipelineError(f"stage {name} failed ({_reason(code, tail, timeout_s)}):\n" + "\n".join(tail))
    return read_lock(name, root)


def read_lock(name: str, root: Path) -> StageRef:
    """What dvc.lock records of a stage.

    Raises:
        PipelineError: dvc.lock is missing, damaged, or does not have the stage.
    """
    path = root / "dvc.lock"
    try:
        entry = yaml.safe_load(path.read_text(encoding="utf-8"))["stages"][name]
        return StageRef(name, entry["cmd"], file_refs(entry.get("deps", [])), file_refs(entry.get("outs", [])))
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise PipelineError(f"{path} does not record stage {name} ({error!r}); run `dvc repro {name}`") from error


def run_streamed(
    command: list[str], root: Path, *, timeout_s: float, log: Callable[[str], None]
) -> tuple[int, list[str]]:
    """Run a program in a process group of its own, passing its output on line by line.

    Returns:
        Its exit code (negative: the signal that ended it) and the last lines of its output.
    """
    process = subprocess.Popen(
        command, cwd=root, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    timer = threading.Timer(timeout_s, _kill_group, [process.pid])
    timer.start()
    tail: deque[str] = deque(maxlen=_TAIL)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            tail.append(line.rstrip())
            log(tail[-1])
        return process.wait(), list(tail)
    finally:
        timer.cancel()
        process.stdout.close()
        if process.poll() is None:  # we are being interrupted: leave nothing running
            _kill_group(process.pid)
            process.wait()


def _environment() -> dict[str, str]:
    """The caller's, with this interpreter first on PATH, so that ``python`` in dvc.yaml is the same one."""
    here = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{here}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONUNBUFFERED": "1",
        "DVC_NO_ANALYTICS": "1",
        "DO_NOT_TRACK": "1",
    }


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself meanwhile


def _reason(code: int, tail: list[str], timeout_s: float) -> str:
    text = "\n".join(tail)
    if code == -signal.SIGKILL:
        return f"killed; the limit is {timeout_s:.0f} s, and the machine may have run out of memory"
    if "exited with -9" in text:
        return "its process was killed by SIGKILL; the machine may have run out of memory"
    if "is busy" in text or "Unable to acquire lock" in text:
        return "another dvc process is at work in this folder; wait until it ends, or stop it, and run again"
    return f"exit code {code}"
