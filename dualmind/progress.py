"""Progress of long work as plain lines, readable in a terminal and in a log file alike."""

import sys
import time
from typing import TextIO


class Progress:
    """Prints rate and time left at most every ``interval_s`` seconds.

    Wall time only decides when a line is printed; it never decides what is computed, so runs stay reproducible.
    """

    def __init__(self, label: str, total: int, *, interval_s: float = 5.0, stream: TextIO | None = None) -> None:
        self._label, self._total, self._interval_s = label, total, interval_s
        self._stream = stream
        self._start = self._last = time.monotonic()

    def update(self, done: int, note: str = "") -> None:
        """Report that ``done`` of the total is done; ``note`` is appended to the line."""
        now = time.monotonic()
        finished = done >= self._total
        if now - self._last < self._interval_s and not finished:
            return
        self._last = now
        elapsed = max(now - self._start, 1e-9)
        rate = done / elapsed
        left_s = (self._total - done) / rate if rate > 0 else float("inf")
        state = f"done in {elapsed:.0f} s" if finished else f"{left_s:.0f} s left"
        line = f"{self._label}: {done}/{self._total} ({100 * done / max(self._total, 1):.0f} %), {rate:.1f}/s, {state}"
        print(f"{line}{', ' + note if note else ''}", file=self._stream or sys.stderr, flush=True)
