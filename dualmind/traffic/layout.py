"""Where traffic lies on disk, who may change it when, and lines that are there in full or not at all.

traffic/
    .lock                       held while lines are appended or segments change
    sealed                      the latest month that takes no more decisions; all earlier ones take none either
    2026-11/
        decisions-000001.jsonl  segments, in the order of arrival; the last one is being written to
        labels.jsonl            audit labels and feedback; kept for good
        decisions.parquet       all decisions up to the segment that its metadata names
        .compacting/            work in progress; whoever compacts next removes it
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dualmind.errors import StorageError, TrafficError
from dualmind.storage import write_text
from dualmind.traffic.schema import check_month, month_after

LABELS = "labels.jsonl"
PARQUET = "decisions.parquet"
_BLOCK_BYTES = 1 << 16


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock between processes. The system lets it go if its holder dies.

    Raises:
        BlockingIOError: another process holds it and ``wait`` is false.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(handle)


def month_folder(root: Path, month: str) -> Path:
    """The folder of a month that has traffic.

    Raises:
        TrafficError: there is none, or ``month`` is not of the form ``2026-11``.
    """
    folder = root / check_month(month)
    if not folder.is_dir():
        there = sorted(path.name for path in root.glob("????-??") if path.is_dir())
        raise TrafficError(f"no traffic of {month} in {root}; there is some of: {', '.join(there) or 'no month'}")
    return folder


def sealed_through(root: Path) -> str | None:
    """The latest sealed month, or None.

    Raises:
        TrafficError: the file that says so is damaged.
    """
    try:
        return check_month((root / "sealed").read_text(encoding="utf-8").strip())
    except FileNotFoundError:
        return None


def seal(root: Path, month: str) -> None:
    """Close a month and all before it; the caller holds the lock."""
    write_text(root / "sealed", f"{max(month, sealed_through(root) or month)}\n")


def month_for(root: Path, month: str) -> str:
    """Where a record of this month goes: there, or to the first month that is not sealed."""
    sealed = sealed_through(root)
    return month if sealed is None else max(month, month_after(sealed))


def segment(folder: Path, number: int) -> Path:
    """The path of a segment, numbered from 1."""
    return folder / f"decisions-{number:06}.jsonl"


def segment_numbers(folder: Path) -> list[int]:
    """Numbers of the segments that are there, ascending."""
    found = (re.fullmatch(r"decisions-(\d{6,})\.jsonl", path.name) for path in folder.iterdir())
    return sorted(int(match[1]) for match in found if match)


def append_lines(path: Path, lines: bytes) -> int:
    """Append whole lines and wait until the disk has them; the caller holds the lock.

    Returns:
        Bytes of a torn last line, of a writer that crashed, that were removed before.

    Raises:
        StorageError: the disk is full or the file cannot be written; no part of ``lines`` is there.
    """
    is_new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise StorageError(f"{path} cannot be opened ({error}); check the folder and its permissions") from error
    try:
        torn = _heal(handle)
        whole = os.fstat(handle).st_size
        try:
            rest = memoryview(lines)
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fsync(handle)
        except OSError as error:
            os.ftruncate(handle, whole)
            raise StorageError(
                f"{path} could not be appended to ({error}); nothing was added: free some disk space and log again"
            ) from error
    finally:
        os.close(handle)
    if is_new:
        for folder in (path.parent, path.parent.parent):  # the names of a new file and of a new month
            _fsync_folder(folder)
    return torn


def heal(path: Path) -> int:
    """Remove a torn last line; returns its bytes. The caller holds the lock."""
    return append_lines(path, b"")


def whole_bytes(handle: int) -> int:
    """Bytes of an open file up to the end of its last whole line."""
    end = os.fstat(handle).st_size
    while end:
        start = max(0, end - _BLOCK_BYTES)
        newline = os.pread(handle, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _heal(handle: int) -> int:
    size, end = os.fstat(handle).st_size, whole_bytes(handle)
    if end < size:
        os.ftruncate(handle, end)
        os.fsync(handle)
    return size - end


def _fsync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
