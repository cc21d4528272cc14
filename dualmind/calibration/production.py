"""What serves, as the calibration sees it; ``dualmind/serving/store.py`` implements it."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from dualmind.calibration.threshold import Threshold


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


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to a threshold."""

    time: datetime  # UTC, by the writer's clock
    kind: str  # "promote", "keep" or "rollback"
    who: str
    why: str
    threshold: Threshold  # that serves from then on
