"""What serves, as the calibration sees it, and a store of it in one file.

``production/current.json`` holds all: what serves, and every change with who and why. One atomic write promotes and
records, so that a reader finds the old state or the new one, whenever a process is killed. Whatever offers the
functions of :class:`Store`, a module too, can take its place.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from dualmind.calibration.threshold import Threshold
from dualmind.errors import CalibrationError
from dualmind.storage import write_text

_LOCK_LIMIT_S = 60.0  # a change takes milliseconds


class Production(Protocol):
    """What serves."""

    @property
    def release(self) -> str:
        """Name of the release."""

    @property
    def labels(self) -> frozenset[str]:
        """What the log's column ``release`` holds for decisions of the same weights and the same gate."""

    @property
    def gate_path(self) -> Path:
        """The gate's file."""

    @property
    def threshold(self) -> Threshold:
        """The threshold."""


class Store(Protocol):
    """Where it is said what serves; each change is atomic and recorded."""

    def read(self, folder: Path) -> Production:
        """What serves; completes a change that was killed half-way."""

    def promote(self, folder: Path, threshold: Threshold, *, who: str, why: str, time: datetime) -> object:
        """Let a threshold of the same weights and gate serve from now on."""

    def keep(self, folder: Path, *, who: str, why: str, time: datetime) -> object:
        """Record that nothing changes, and why."""

    def rollback(self, folder: Path, *, who: str, why: str, time: datetime) -> object:
        """Let the threshold before this one serve again."""


class Change(BaseModel):
    """One line of the history."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: datetime  # UTC, by the writer's clock
    kind: Literal["start", "promote", "keep", "rollback"]
    who: str
    why: str
    threshold: Threshold  # that serves from then on


class Current(BaseModel):
    """The contents of ``current.json``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    release: str
    gate: str  # path, relative to the folder
    changes: tuple[Change, ...]  # in the order of writing; the last one serves
    served: tuple[int, ...]  # places in ``changes`` that a rollback can go back to, the one that serves last
    folder: Path

    @property
    def labels(self) -> frozenset[str]:
        """The release's name."""
        return frozenset({self.release})

    @property
    def gate_path(self) -> Path:
        """The gate's file."""
        return self.folder / self.gate

    @property
    def threshold(self) -> Threshold:
        """The one that serves."""
        return self.changes[-1].threshold


def start(folder: Path, release: str, gate: str, threshold: Threshold, *, who: str, why: str, time: datetime) -> None:
    """Begin to serve a release with the threshold that came with it."""
    with _alone(folder):
        first = Change(time=time.astimezone(UTC), kind="start", who=who, why=why, threshold=threshold)
        _write(Current(release=release, gate=gate, changes=(first,), served=(0,), folder=folder))


def read(folder: Path) -> Current:
    """What serves.

    Raises:
        CalibrationError: nothing does, or the file is damaged.
    """
    path = folder / "current.json"
    try:
        found = Current.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise CalibrationError(f"{path} does not exist: nothing serves; promote a release first") from error
    except ValidationError as error:
        raise CalibrationError(f"{path} does not say what serves ({error}); restore it from a backup") from error
    return found.model_copy(update={"folder": folder})


def promote(folder: Path, threshold: Threshold, *, who: str, why: str, time: datetime) -> None:
    """Let a threshold serve.

    Raises:
        ThresholdMismatch: it belongs to other weights or to another gate than what serves.
        CalibrationError: nothing serves.
        StorageError: the disk is full; the old one serves.
    """
    with _alone(folder):
        now = read(folder)
        threshold.for_weights(now.threshold.weights_digest, now.threshold.gate_digest)
        _change(now, "promote", threshold, who, why, time, (*now.served, len(now.changes)))


def keep(folder: Path, *, who: str, why: str, time: datetime) -> None:
    """Record that nothing changes; raises as :func:`promote`."""
    with _alone(folder):
        now = read(folder)
        _change(now, "keep", now.threshold, who, why, time, now.served)


def rollback(folder: Path, *, who: str, why: str, time: datetime) -> None:
    """Let the threshold before this one serve again.

    Raises:
        CalibrationError: there is none before it.
    """
    with _alone(folder):
        now = read(folder)
        if len(now.served) < 2:
            raise CalibrationError(f"{folder}: no threshold served before {now.threshold.value}; nothing to go back to")
        before = now.changes[now.served[-2]].threshold
        _change(now, "rollback", before, who, why, time, now.served[:-1])


def _change(
    now: Current,
    kind: Literal["promote", "keep", "rollback"],
    threshold: Threshold,
    who: str,
    why: str,
    time: datetime,
    served: tuple[int, ...],
) -> None:
    change = Change(time=time.astimezone(UTC), kind=kind, who=who, why=why, threshold=threshold)
    _write(now.model_copy(update={"changes": (*now.changes, change), "served": served}))


def _alone(folder: Path) -> FileLock:
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / ".lock", timeout=_LOCK_LIMIT_S)


def _write(current: Current) -> None:
    write_text(current.folder / "current.json", current.model_dump_json(indent=2) + "\n")
