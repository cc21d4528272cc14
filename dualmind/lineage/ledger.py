"""An append-only record of what was released, promoted, rolled back or kept: JSON lines, each bound to the one before.

An entry's hash covers its canonical JSON (RFC 8785), the hash of the entry before it included, so that an entry that is
edited, removed or moved breaks the chain at that place. A chain alone cannot show that its end was cut off, or that all
of it was computed anew. Two anchors do:

1. ``ledger.head`` beside the ledger holds the number of entries and the last one in full, signed with the release key.
   It is written *before* the line is appended. A crash between the two, or a torn line, therefore loses nothing: the
   next writer completes the line from the head, and a reader takes it from there.
2. Every release bundle holds the number of entries and the last hash as they were when it was made, under the bundle's
   signature. Whoever puts back an old ledger *and* its old head is found by any newer bundle, even a copy elsewhere.

What remains: someone with the release key who rewrites the ledger, the head and every copy of every bundle.
"""

import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Self

from filelock import FileLock, Timeout
from pydantic import ValidationError
from pydantic_core import from_json

from dualmind.errors import LedgerError
from dualmind.lineage.entries import GENESIS, Anchor, Entry, Head, What
from dualmind.lineage.keys import PublicKey, SigningKey
from dualmind.lineage.times import stamp
from dualmind.storage import write_json

_LOCK_LIMIT_S = 60.0  # appending takes milliseconds, so whoever holds the lock for longer is stuck
Problem = Literal["edited", "removed", "reordered", "added", "head"]


@dataclass(frozen=True, slots=True)
class LedgerVerdict:
    """Whether the ledger is as it was written."""

    ok: bool
    entry: int | None  # the first bad one, counted from 1
    problem: Problem | None
    message: str
    flags: tuple[str, ...]  # what is allowed but worth knowing: a clock that was set back, a line that a crash tore


@dataclass(frozen=True, slots=True)
class Serving:
    """What served at a time, and whether the clocks leave a doubt."""

    entry: Entry | None
    doubt: str  # "" where there is none


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger as it was read; :func:`append` makes a longer one."""

    path: Path
    lines: tuple[bytes, ...]  # complete ones, and the last from the head where a crash tore it
    head: Head | None
    restored: bool  # whether the last line was taken from the head

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read without changing anything; a ledger that is not there is empty.

        Raises:
            LedgerError: the head cannot be read.
        """
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = b""
        head = _read_head(path.with_suffix(".head"))
        lines = data.split(b"\n")[:-1]  # what stands behind the last line end is torn
        restored = head is not None and head.entry.sequence == len(lines) + 1
        if head is not None and restored:
            lines.append(head.entry.line())
        return cls(path, tuple(lines), head, restored)

    @property
    def anchor(self) -> Anchor:
        """How far it has come."""
        return Anchor(count=len(self.lines), hash=self.entries[-1].hash if self.lines else GENESIS)

    @property
    def entries(self) -> list[Entry]:
        """All entries in order.

        Raises:
            LedgerError: a line is no entry.
        """
        return [_parse(self.path, number, line) for number, line in enumerate(self.lines, start=1)]

    def check_alone(self) -> None:
        """Refuse a folder with two ledgers, of which each could be the true one.

        Raises:
            LedgerError: another file beside this one is a ledger as well; the message says where they part.
        """
        for path in sorted(self.path.parent.glob("*.jsonl")):
            lines = path.read_bytes().split(b"\n")[:-1] if path != self.path else []
            if lines and _sequence(lines[0]) is not None:
                pairs = zip(self.lines, lines, strict=False)
                same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(self.lines), len(lines)))
                raise LedgerError(
                    f"there are two ledgers: {self.path} with {len(self.lines)} entries and {path} with {len(lines)}, "
                    f"which agree up to entry {same}; keep the one that the releases remember, and move the other away"
                )

    def serving_at(self, time: datetime, subject: str = "release") -> Serving:
        """What was last promoted or rolled back to at or before ``time``.

        An entry counts from the latest time that it or an entry before it states: the order is the order of writing,
        whatever a clock says.

        Raises:
            LedgerError: a line is no entry.
        """
        moment = stamp(time)
        entries = self.entries
        effective = list(accumulate((entry.time for entry in entries), max))
        known = entries[: bisect_right(effective, moment)]
        served = [e for e in known if e.what.subject == subject and e.kind in {"promote", "rollback"}]
        doubtful = [e.sequence for e, since in zip(entries, effective, strict=True) if e.time <= moment < since]
        doubt = f"a clock was set back: entry {doubtful[0]} states an earlier time" if doubtful else ""
        return Serving(served[-1] if served else None, doubt)

    def verify(self, expected: Sequence[PublicKey] = (), anchors: Sequence[Anchor] = ()) -> LedgerVerdict:
        """Find the first entry that is not as it was written.

        Args:
            expected: keys of which one must have signed the head; any where none is given.
            anchors: what bundles remember of the ledger.
        """
        flags: list[str] = []
        if self.restored:
            flags.append(f"the line of entry {len(self.lines)} was torn or removed; it is taken from the signed head")
        found = self._broken_link() or self._broken_head(expected) or self._broken_anchor(anchors)
        if found is not None:
            return LedgerVerdict(False, *found, tuple(flags))
        latest = ""
        for entry in self.entries:
            if entry.time < latest:
                flags.append(f"entry {entry.sequence} states {entry.time}, before {latest}: a clock was set back")
            latest = max(latest, entry.time)
        return LedgerVerdict(True, None, None, f"{len(self.lines)} entries, each as it was written", tuple(flags))

    def _broken_link(self) -> tuple[int, Problem, str] | None:
        previous, before = GENESIS, 0
        sequences = [_sequence(line) for line in self.lines]
        for number, line in enumerate(self.lines, start=1):
            sequence = sequences[number - 1]
            if sequence is not None and sequence != number and number not in sequences:
                return number, "removed", f"entry {number} was removed: in its place stands entry {sequence}"
            if sequence is not None and sequence != number:
                return number, "reordered", f"entry {sequence} stands in the place of entry {number}"
            try:
                entry = _parse(self.path, number, line)
            except LedgerError as error:
                return number, "edited", str(error)
            if entry.hash != entry.true_hash() or line != entry.line():
                return number, "edited", f"entry {number} was edited: its hash is not that of its content"
            if entry.previous_hash != previous:
                return before, "edited", f"entry {before} was edited and hashed anew: entry {number} follows another"
            previous, before = entry.hash, number
        return None

    def _broken_head(self, expected: Sequence[PublicKey]) -> tuple[int | None, Problem, str] | None:
        count = len(self.lines)
        if self.head is None:
            text = f"{self.path.with_suffix('.head')} is missing, so entries may be missing at the end; restore it"
            return (None, "head", text) if count else None
        if reason := self.head.check(expected):
            return None, "head", f"{self.path.with_suffix('.head')}: {reason}; restore it from a copy"
        last = self.head.entry
        if count < last.sequence:
            text = f"entries {count + 1} to {last.sequence} were removed at the end; restore them from a copy"
            return count + 1, "removed", text
        if count > last.sequence:
            return last.sequence + 1, "added", f"entry {last.sequence + 1} was added by other means than appending"
        if self.entries[-1].hash != last.hash:
            return count, "edited", f"entry {count} is not the one that the head was signed for; restore from a copy"
        return None

    def _broken_anchor(self, anchors: Sequence[Anchor]) -> tuple[int, Problem, str] | None:
        hashes = [GENESIS, *(entry.hash for entry in self.entries)]
        sound = 0
        for anchor in sorted(anchors, key=lambda own: own.count):
            if anchor.count >= len(hashes):
                text = f"a bundle remembers {anchor.count} entries, here are {len(self.lines)}; restore from a copy"
                return len(hashes), "removed", text
            if hashes[anchor.count] != anchor.hash:
                text = f"an entry from {sound + 1} to {anchor.count} was edited and all after it hashed anew"
                return sound + 1, "edited", f"{text}: a bundle remembers another hash; restore from a copy"
            sound = anchor.count
        return None


def append(
    path: Path, key: SigningKey, *, time: datetime, kind: str, what: What, who: str, why: str
) -> Entry:  # fmt: skip
    """Add an entry; it is there in full or not at all, also where power is cut or two processes write.

    Args:
        path: the ledger, such as ``releases/ledger.jsonl``; made if it is not there.
        key: signs the new head.
        time: by the writer's clock; one that was set back is taken as it is.
        kind: ``release``, ``promote``, ``rollback``, ``keep``, ``label``.
        what: the thing that it happened to.
        who: who did it.
        why: in words.

    Raises:
        LedgerError: another process holds the lock, or the end of the ledger is not what the head says.
        StorageError: the disk is full; the ledger is as before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{path}.lock", timeout=_LOCK_LIMIT_S):
            anchor = _heal(path)
            draft = Entry(
                sequence=anchor.count + 1, time=stamp(time), kind=kind, what=what, who=who, why=why,
                previous_hash=anchor.hash, hash="",
            )  # fmt: skip
            entry = draft.model_copy(update={"hash": draft.true_hash()})
            write_json(path.with_suffix(".head"), Head.sealed(entry, key).model_dump())
            _write_line(path, entry)
            return entry
    except Timeout as error:
        raise LedgerError(f"{path}.lock is held by another process for over {_LOCK_LIMIT_S:.0f} s; stop it") from error


def _heal(path: Path) -> Anchor:
    """Cut off a torn line, complete what the head holds, and say where to go on."""
    ledger = Ledger.read(path)
    if (found := ledger._broken_head(())) is not None:
        raise LedgerError(f"nothing is appended to {path}: {found[2]}")
    if ledger.head is None:
        return Anchor(count=0, hash=GENESIS)
    if path.exists():
        complete = path.read_bytes().rpartition(b"\n")
        with path.open("r+b") as file:
            file.truncate(len(complete[0]) + len(complete[1]))
            os.fsync(file.fileno())
    if ledger.restored:
        _write_line(path, ledger.head.entry)
    return ledger.anchor


def _write_line(path: Path, entry: Entry) -> None:
    with path.open("ab") as file:
        file.write(entry.line() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _read_head(path: Path) -> Head | None:
    try:
        return Head.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise LedgerError(f"{path} is no head of a ledger ({error.errors()[0]['msg']}); restore it") from error


def _parse(path: Path, number: int, line: bytes) -> Entry:
    try:
        return Entry.model_validate_json(line)
    except ValidationError as error:
        raise LedgerError(f"{path}: line {number} was edited: it is no entry ({error.errors()[0]['msg']})") from error


def _sequence(line: bytes) -> int | None:
    try:
        value: Any = from_json(line)
    except ValueError:
        return None
    number = value.get("sequence") if isinstance(value, dict) else None
    return number if isinstance(number, int) else None
