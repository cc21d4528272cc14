"""Kills a change of production at every write boundary: ``python -m tests.serving.kill ROOT promote|rollback``.

Each copy ``ROOT-copies/<n>`` is changed by a process of its own that dies before its n-th write: before a file is
opened for writing, before each fsync, rename and removal. The last copy is the one whose change came to its end.
"""

import os
import shutil
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dualmind.lineage.keys import SigningKey, open_key
from dualmind.serving.files import ReleaseFiles, Weights
from dualmind.serving.production import Production

DIGESTS = "1" * 32, "2" * 32
TIME = datetime(2026, 12, 1, 3, tzinfo=UTC)


def files(root: Path, name: str = "r1") -> ReleaseFiles:
    """A release of which promotion only asks digests."""
    one, two = (Weights(root / kind, digest) for kind, digest in zip(("a", "b"), DIGESTS, strict=True))
    return ReleaseFiles(name, f"{name:0>64}", one, two, root / "old/gate.json", root / "old/threshold.json")


def key_of(root: Path) -> SigningKey:
    return open_key(root / "keys", "development", TIME)


def change(root: Path, what: str) -> None:
    production = Production(root / "production", root / "releases/ledger.jsonl", key_of(root))
    if what == "promote":
        new = root / "new"
        production.promote(files(root, "r2"), new / "gate.json", new / "threshold.json", who="Bob", why="better")
    else:
        production.rollback(who="Bob", why="worse")


def die_at(number: int, folder: Path) -> None:
    """Let this process kill itself before its write of that number below a folder."""
    left = number
    sync = os.fsync

    def count() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (writes or event in {"os.rename", "os.remove"}) and str(folder) in str(arguments[0]):
            count()

    def fsync(handle: int) -> None:
        count()
        sync(handle)

    os.fsync = fsync  # type: ignore[assignment]  # the real one takes file objects too
    sys.addaudithook(watch)


def main(root: Path, what: str) -> None:
    copies = root.with_name(f"{root.name}-copies")
    key_of(root)
    for number in range(1000):
        copy = Path(shutil.copytree(root, copies / f"{number:03}"))
        process = os.fork()
        if process == 0:
            die_at(number, copy)
            change(copy, what)
            os._exit(0)
        _, status = os.waitpid(process, 0)
        if status == 0:
            return
        if not os.WIFSIGNALED(status):
            raise SystemExit(f"copy {number} ended with {status}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
