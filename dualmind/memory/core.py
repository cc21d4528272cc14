"""System 2's lasting memory: one SQLite file in WAL mode. Only checked entries get in.

Several processes may have it open; each write is one transaction that waits for the disk, so a process that is killed
leaves all of a write or nothing. Every row carries a checksum, for SQLite itself notices a damaged page but not a
changed letter in one. Vectors are searched exactly (see :mod:`dualmind.memory.index`).

Up to some 100,000 entries; beyond that, dropping the least useful and the vector index both get slow.
"""

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from filelock import FileLock, Timeout

from dualmind.errors import GatewayError, StorageError
from dualmind.memory.entry import PRIOR_GAIN, PRIOR_TRIALS, Entry, Key, Reading
from dualmind.memory.index import VectorIndex

_APPLICATION, _FORMAT = 0x64756D65, 1  # "dume" in the file's header, and the form of the table
_WAIT_S = 10.0  # for another process's write, which takes milliseconds
_COLUMNS = (
    "domain", "digest", "reading", "reader", "answer", "steps", "depth", "author", "writer", "checked_by", "trials",
    "gain", "seal",
)  # fmt: skip
_TABLE = """CREATE TABLE entries (
    domain TEXT NOT NULL, digest TEXT NOT NULL, reading BLOB NOT NULL, reader TEXT NOT NULL, answer TEXT NOT NULL,
    steps TEXT NOT NULL, depth TEXT NOT NULL, author TEXT NOT NULL, writer TEXT NOT NULL, checked_by TEXT NOT NULL,
    trials INTEGER NOT NULL, gain REAL NOT NULL, seal TEXT NOT NULL, used INTEGER NOT NULL,
    PRIMARY KEY (domain, digest)
)"""
_READ = f"SELECT {', '.join(_COLUMNS)} FROM entries WHERE domain = ? AND digest = ?"  # noqa: S608 - our own constants, as below
_WRITE = (
    f"INSERT OR REPLACE INTO entries ({', '.join(_COLUMNS)}, used) "  # noqa: S608
    f"VALUES ({', '.join('?' * len(_COLUMNS))}, ?)"
)
_USEFULNESS = f"(gain + {PRIOR_GAIN}) / (trials + {PRIOR_TRIALS})"  # Entry.usefulness
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class Core:
    """The lasting level. Close it, or use it in a ``with`` block."""

    def __init__(self, path: Path, capacity: int) -> None:
        """Open a memory, or make a new one.

        Args:
            path: of the database; SQLite puts its -wal and -shm files beside it.
            capacity: entries at most, >= 1; the least useful go first, of those the longest unused.

        Raises:
            GatewayError: the file is damaged, is no such memory, or another process holds it for long; or the capacity
                is below 1.
            StorageError: the file cannot be opened or written.
        """
        if capacity < 1:
            raise GatewayError(f"{path}: the core has the capacity {capacity}; give at least 1")
        self.path, self.capacity = path, capacity
        self._lock = threading.RLock()
        self._changes = 0  # of this process
        self._indices: dict[tuple[str, str], tuple[tuple[int, int], VectorIndex]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        # a file is turned to WAL by one process at a time: that step does not wait for others
        with self._reported(), FileLock(f"{path}.lock", timeout=_WAIT_S):
            self._connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def __len__(self) -> int:
        with self._lock, self._reported():
            return int(self._connection.execute("SELECT count(*) FROM entries").fetchone()[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, key: Key) -> Entry | None:
        """The entry of exactly this question.

        Raises:
            GatewayError: the entry or the file is damaged.
        """
        with self._lock, self._reported():
            row = self._connection.execute(_READ, (key.domain, key.digest)).fetchone()
        return None if row is None else self._entry(row)

    def write(self, entries: Sequence[Entry]) -> int:
        """Keep entries, all in one transaction; returns how many took a place, the others being no better than it is.

        Raises:
            GatewayError: an entry has nobody's verdict; none of them is kept.
            StorageError: the disk is full; none of them is kept.
        """
        for entry in entries:
            if entry.checked_by is None:
                raise GatewayError(
                    f"the entry {entry.key.digest[:12]} of {entry.key.domain!r} by {entry.author} was checked by "
                    f"nobody; {self.path} keeps only what System 2, a checker or a person found right"
                )
        with self._lock, self._transaction():
            now = self._connection.execute("SELECT coalesce(max(used), 0) + 1 FROM entries").fetchone()[0]
            kept = 0
            for entry in entries:
                row = self._connection.execute(_READ, (entry.key.domain, entry.key.digest)).fetchone()
                if row is None or entry.supersedes(self._entry(row)):
                    self._connection.execute(_WRITE, (*_row(entry), now))
                    kept += 1
            self._make_room(now)
        return kept

    def remove(self, keys: Iterable[Key]) -> None:
        """Forget entries; those that are not there are passed over."""
        with self._lock, self._transaction():
            self._connection.executemany(
                "DELETE FROM entries WHERE domain = ? AND digest = ?", [(key.domain, key.digest) for key in keys]
            )

    def prune(self, below: float, min_trials: int) -> list[Key]:
        """Forget entries of less usefulness that were tried often enough to know; returns their keys."""
        with self._lock, self._transaction():
            rows = self._connection.execute(
                f"DELETE FROM entries WHERE trials >= ? AND {_USEFULNESS} < ? RETURNING domain, digest",  # noqa: S608
                (min_trials, below),
            ).fetchall()
        return [Key(*row) for row in rows]

    def near(self, domain: str, reader: str, reading: Reading, number: int) -> list[tuple[Entry, float]]:
        """Entries of the most similar prompts that the same System 1 read, with their cosines, the most similar first.

        Raises:
            GatewayError: the reading has another size than theirs, or an entry is damaged.
        """
        with self._lock:
            found = self._index(domain, reader).near(reading, number)
            entries = [(self.read(key), cosine) for key, cosine in found]
        return [(entry, cosine) for entry, cosine in entries if entry is not None]

    def close(self) -> None:
        """Close the file; closing twice does no harm."""
        with self._lock:
            self._connection.close()

    def _prepare(self) -> None:
        """Check what is there, or make the table."""
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if (application, version, tables) == (0, 0, 0):
            self._connection.execute("PRAGMA journal_mode = WAL")
            with self._transaction():
                self._connection.execute(_TABLE)
                self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._connection.execute(f"PRAGMA user_version = {_FORMAT}")
        elif (application, version) != (_APPLICATION, _FORMAT):
            raise GatewayError(
                f"{self.path} is a database of another kind (application {application:#x}, version {version}), not a "
                f"memory of version {_FORMAT}; give another path, or move the file away"
            )
        self._connection.execute("PRAGMA synchronous = FULL")
        found = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise self._damaged(found)

    def _make_room(self, now: int) -> None:
        """Drop the least useful entries beyond the capacity, a twentieth more so that it is seldom; new ones last."""
        (number,) = self._connection.execute("SELECT count(*) FROM entries").fetchone()
        if number > self.capacity:
            self._connection.execute(
                "DELETE FROM entries WHERE rowid IN "  # noqa: S608
                f"(SELECT rowid FROM entries ORDER BY used = ?, {_USEFULNESS}, used LIMIT ?)",
                (now, number - self.capacity + self.capacity // 20),
            )

    def _index(self, domain: str, reader: str) -> VectorIndex:
        with self._reported():
            (others,) = self._connection.execute("PRAGMA data_version").fetchone()  # changes of other processes
            state = (others, self._changes)
            former = self._indices.get((domain, reader))
            if former is not None and former[0] == state:
                return former[1]
            rows = self._connection.execute(
                "SELECT digest, reading FROM entries WHERE domain = ? AND reader = ? ORDER BY digest", (domain, reader)
            ).fetchall()
        keys = [Key(domain, digest) for digest, _ in rows]
        index = VectorIndex.of(keys, [np.frombuffer(reading, np.float32) for _, reading in rows])
        self._indices[domain, reader] = (state, index)
        return index

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        """The entry of a row, if that is as it was written."""
        domain, digest, reading, reader, answer, steps, depth, author, writer, checked_by, trials, gain, seal = row
        if seal != _seal(row[:-1]):
            raise self._damaged(f"the entry {str(digest)[:12]} of {domain!r} is not as it was written")
        return Entry(
            Key(domain, digest), np.frombuffer(reading, np.float32), reader, answer, tuple(json.loads(steps)), depth,
            author, writer, checked_by, trials, gain,
        )  # fmt: skip

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._reported():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._changes += 1

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Say in our words what SQLite says in its own."""
        try:
            yield
        except Timeout as error:
            raise self._held_up() from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
            if code in _DAMAGED:
                raise self._damaged(str(error)) from error
            if code == sqlite3.SQLITE_BUSY:
                raise self._held_up() from error
            raise StorageError(
                f"{self.path} could not be read or written ({error}); check the disk and the rights, and run again"
            ) from error

    def _damaged(self, why: str) -> GatewayError:
        return GatewayError(
            f"{self.path} is damaged ({' '.join(why.split())}); move it away with its -wal and -shm files, or put back "
            "a copy: an empty memory fills again from System 2's answers"
        )

    def _held_up(self) -> GatewayError:
        return GatewayError(
            f"{self.path} has been held by another process for {_WAIT_S:.0f} s; stop that one, or give each its own"
        )


def _row(entry: Entry) -> tuple[Any, ...]:
    """Values of _COLUMNS."""
    values = (
        entry.key.domain, entry.key.digest, entry.reading.astype(np.float32).tobytes(), entry.reader, entry.answer,
        json.dumps(entry.steps, ensure_ascii=False), entry.depth, entry.author, entry.writer, entry.checked_by,
        entry.trials, float(entry.gain),
    )  # fmt: skip
    return (*values, _seal(values))


def _seal(values: Sequence[Any]) -> str:
    """Checksum of a row against damage, not against a forger."""
    return hashlib.blake2b(repr(tuple(values)).encode(), digest_size=16).hexdigest()
