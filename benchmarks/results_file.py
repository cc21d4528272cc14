"""The one form in which every benchmark writes what it measured: ``benchmarks/results/NAME.json``."""

import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dualmind.evaluation.intervals import Interval
from dualmind.storage import write_json

RESULTS = Path(__file__).resolve().parent / "results"


@cache
def commit() -> str:
    """Short hash of the commit that is checked out, or "uncommitted" outside a repository with commits."""
    command = ["git", "-C", str(RESULTS.parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (subprocess.CalledProcessError, FileNotFoundError):  # no repository; no git
        return "uncommitted"


@cache
def cpu() -> str:
    """Model name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured claim. What could not be measured has no value, no bounds and no verdict; its baseline says why."""

    claim: str  # what is claimed, in words
    unit: str
    value: float | None
    low: float | None  # bounds of the 95 % interval
    high: float | None
    target: float | None  # None where something is only reported
    reached: bool | None  # does the interval's nearer bound meet the target?
    baseline: str  # what it was compared with, and that one's own figure
    seeds: int  # number of independent repetitions
    command: str  # what to type to measure it again
    threads: int
    minutes: float  # wall time of the measurement
    commit: str = field(default_factory=commit)
    cpu: str = field(default_factory=cpu)

    @classmethod
    def of(
        cls,
        found: Interval | None,
        *,
        target: float | None,
        at_most: bool = False,
        begun: float,
        **words: Any,
    ) -> "Row":
        """A row measured on one thread: the claim is reached where the interval's worse bound meets the target.

        Args:
            found: what was measured, or None.
            target: what is claimed; None where something is only reported.
            at_most: is less better?
            begun: ``time.monotonic()`` when the measurement began.
            words: claim, unit, baseline, seeds and command.
        """
        value, low, high = (None, None, None) if found is None else (found.value, found.low, found.high)
        reached = None
        if found is not None and target is not None:
            reached = found.high <= target if at_most else found.low >= target
        minutes = round((time.monotonic() - begun) / 60, 1)
        return cls(value=value, low=low, high=high, target=target, reached=reached, threads=1, minutes=minutes, **words)


def write_rows(name: str, rows: Sequence[Row]) -> Path:
    """Write ``benchmarks/results/<name>.json``, atomically, and return its path.

    Raises:
        ValueError: there are no rows, or a figure is not finite.
        StorageError: the file cannot be written; what was there is unchanged.
    """
    if not rows:
        raise ValueError(f"{name}: no rows to write; a benchmark reports at least one claim, measured or not")
    path = RESULTS / f"{name}.json"
    write_json(path, [asdict(row) for row in rows])
    return path
