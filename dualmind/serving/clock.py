"""The time by which decisions and labels are dated."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]  # the time in UTC


def utc_now() -> datetime:
    """The machine's time."""
    return datetime.now(UTC)


class SteppingClock:
    """A clock that goes on by the same step whenever it is read: a month of traffic can be replayed in minutes."""

    def __init__(self, begin: datetime, step: timedelta) -> None:
        """Args are the first time that it tells, and how far it goes on."""
        self._now, self._step = begin, step
        self._lock = threading.Lock()

    def __call__(self) -> datetime:
        """The time; it never goes back, whichever threads ask."""
        with self._lock:
            now = self._now
            self._now += self._step
            return now
