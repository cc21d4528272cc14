"""Atomic files and content hashes: a reader sees the old bytes or the new ones, never half of them."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dualmind.errors import StorageError

_CHUNK_BYTES = 1 << 20


def md5_file(path: Path) -> str:
    """MD5 of a file's bytes in hex; the same figure that DVC records for a file.

    Raises:
        FileNotFoundError: nothing is at ``path``.
    """
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def md5_folder(path: Path) -> str:
    """MD5 over the sorted relative names and hashes of all files below ``path``, in hex."""
    digest = hashlib.md5(usedforsecurity=False)
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\0{md5_file(file)}\n".encode())
    return digest.hexdigest()


def dump_json(value: Any) -> str:
    """JSON with sorted keys, two spaces and a final newline; refuses NaN and infinity.

    Raises:
        ValueError: ``value`` holds NaN or an infinity, which are not JSON.
    """
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it is fsynced and renamed over ``path``.

    Raises:
        StorageError: the disk is full or the folder cannot be written; ``path`` is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _fsync(temporary)
        temporary.chmod(0o644)  # mkstemp makes 0600; other users of a shared cache must be able to read
        temporary.replace(path)
        _fsync(path.parent)
    except OSError as error:
        raise StorageError(f"{path} could not be written ({error}); free some disk space and run again") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a new temporary folder beside ``path``; on success it replaces ``path`` as a whole.

    Raises:
        StorageError: the disk is full or the folder cannot be written; ``path`` is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"))
    try:
        yield temporary
        for file in temporary.rglob("*"):
            _fsync(file)
        temporary.chmod(0o755)  # as mkdir would have made it
        if path.exists():
            doomed = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".old"))
            path.replace(doomed / "old")
            temporary.replace(path)
            shutil.rmtree(doomed)
        else:
            temporary.replace(path)
        _fsync(path.parent)
    except OSError as error:
        raise StorageError(f"{path} could not be written ({error}); free some disk space and run again") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically.

    Raises:
        StorageError: see :func:`atomic_path`.
    """
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON (see :func:`dump_json`), atomically."""
    write_text(path, dump_json(value))


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
