"""Runs stages through DVC and reads what it recorded. The only code that calls DVC."""

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from dualmind.errors import PipelineError
from dualmind.lineage.lockfile import FileRef, file_refs
from dualmind.storage import write_text
from tasks.graph import Stage
from tasks.programs import Ended, Limit, ProcessGroups

_REMEDY = "wait until it ends, or stop it, and run again"
_AGAIN = {False: (), True: ("--force", "--no-commit")}


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
    name: str,
    root: Path,
    groups: ProcessGroups,
    *,
    timeout_s: float,
    lock_wait_s: float,
    log: Callable[[str], None],
    again: bool = False,
) -> StageRef:
    """Bring one stage up to date, its parents being so already.

    Args:
        name: the stage, such as ``pretrain@system1``.
        root: the project's folder.
        groups: runs the stage, and can kill it.
        timeout_s: seconds after which the stage and all it started are killed.
        lock_wait_s: seconds after which it gives up waiting for another DVC at work in the folder.
        log: takes each line of output as it comes.
        again: run it even if nothing changed, and leave the cache as it is.

    Returns:
        The stage as recorded in dvc.lock.

    Raises:
        PipelineError: the stage failed, was killed or took too long, or another DVC holds the lock.
    """
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", "--single-item", *_AGAIN[again], name]
    said = threading.Event()

    def log_and_note(line: str) -> None:
        said.set()
        log(line)

    def waits(pid: int) -> str | None:
        """DVC says nothing until it has its lock."""
        holder = _lock_holder(root)
        if said.is_set() or holder is None or holder.pid == pid:
            return None
        return f"it waited {lock_wait_s:g} s for DVC's lock, which {_describe(holder)} holds; {_REMEDY}"

    limits = [
        Limit(lock_wait_s, waits),
        Limit(timeout_s, lambda _: f"it ran longer than the limit of a stage, {timeout_s:g} s"),
    ]
    ended = groups.run(command, root, environment=_environment(), limits=limits, log=log_and_note)
    if ended.code:
        raise PipelineError(f"stage {name} failed ({_reason(ended)}):\n" + "\n".join(ended.tail))
    return read_lock(name, root)


def unchanged(graph: Mapping[str, Stage], root: Path, groups: ProcessGroups, *, timeout_s: float) -> frozenset[str]:
    """Stages that DVC finds as they were recorded, and all that they read from as well; asked once for all.

    To ask stage by stage takes DVC's start of one to two seconds each. Where DVC cannot say, such as while another one
    is at work, none is, and :func:`reproduce` asks again.

    Raises:
        PipelineError: the run was interrupted.
    """
    ended = run_program(
        [sys.executable, "-m", "dvc", "status", "--json"], root, groups, timeout_s=timeout_s, log=lambda _: None
    )
    try:
        changed = json.loads(ended.tail[-1]) if ended.code == 0 and ended.tail else None
    except json.JSONDecodeError:
        changed = None
    if not isinstance(changed, dict):
        return frozenset()
    found: set[str] = set()
    for name, stage in graph.items():  # parents come first
        if name not in changed and found.issuperset(stage.parents):
            found.add(name)
    return frozenset(found)


def add(
    paths: Sequence[Path], root: Path, groups: ProcessGroups, *, timeout_s: float, log: Callable[[str], None]
) -> None:
    """Keep files in DVC's cache, and their hashes in ``.dvc`` files beside them; again does no harm.

    Raises:
        PipelineError: DVC failed, or took longer than ``timeout_s`` seconds.
    """
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", "add", *map(str, paths)]
    ended = run_program(command, root, groups, timeout_s=timeout_s, log=log)
    if ended.code:
        names = ", ".join(path.name for path in paths)
        raise PipelineError(f"{names} could not be put under DVC ({_reason(ended)}):\n" + "\n".join(ended.tail))


def run_program(
    command: Sequence[str], root: Path, groups: ProcessGroups, *, timeout_s: float, log: Callable[[str], None]
) -> Ended:
    """Run git or DVC in ``root``, for so many seconds at most.

    Raises:
        PipelineError: the run was interrupted.
    """
    limit = Limit(timeout_s, lambda _: f"it ran longer than {timeout_s:g} s")
    return groups.run(command, root, environment=_environment(), limits=[limit], log=log)


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


def order_lock(names: Sequence[str], root: Path) -> bool:
    """Put the stages of dvc.lock in the order of ``names``; DVC appends new ones as they end.

    Side by side they end now in one order, now in another, and the file is committed.

    Returns:
        Whether it is in order; not so if another DVC holds the lock.

    Raises:
        StorageError: the file could not be written.
    """
    path = root / "dvc.lock"
    if _in_order(yaml.safe_load(path.read_text(encoding="utf-8")), names):
        return True
    from dvc.lock import LockError, make_lock
    from dvc.utils.serialize import dumps_yaml, parse_yaml_for_update

    try:
        with make_lock(str(root / ".dvc" / "tmp" / "lock")):
            content = parse_yaml_for_update(path.read_text(encoding="utf-8"), str(path))
            stages = content["stages"]
            wanted = [name for name in names if name in stages] + [name for name in stages if name not in names]
            content["stages"] = {name: stages[name] for name in wanted}
            write_text(path, dumps_yaml(content))
    except LockError:
        return False
    return True


def _in_order(lock: Any, names: Sequence[str]) -> bool:
    there = [name for name in lock["stages"] if name in names]
    return there == [name for name in names if name in there]


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


def _reason(ended: Ended) -> str:
    text = "\n".join(ended.tail)
    if ended.reason is not None:
        return ended.reason
    if ended.code == -signal.SIGKILL or "exited with -9" in text:
        return "its process was killed by SIGKILL; the machine may have run out of memory"
    if "is busy" in text or "Unable to acquire lock" in text:
        blocker = re.search(r"\(PID (\d+)\): (.+)", text)  # DVC's own words
        who = f", process {blocker[1]} ({blocker[2]})" if blocker else ""
        return f"another dvc is at work in this folder{who}; {_REMEDY}"
    return f"exit code {ended.code}"


def _lock_holder(root: Path) -> psutil.Process | None:
    """The process that wrote its pid into DVC's lock last, if it lives; none where DVC is set to use hard links."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".dvc").is_dir()), root)
    try:
        return psutil.Process(int((top / ".dvc" / "tmp" / "lock").read_text(encoding="utf-8")))
    except (OSError, ValueError, psutil.NoSuchProcess):
        return None


def _describe(process: psutil.Process) -> str:
    try:
        return f"process {process.pid} ({' '.join(process.cmdline())})"
    except psutil.Error:
        return f"process {process.pid}"
