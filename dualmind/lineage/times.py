"""Times as text: UTC to the microsecond, so that text order is time order."""

from datetime import UTC, datetime

from dualmind.errors import LineageError


def stamp(time: datetime) -> str:
    """A time as ``2026-03-03T12:00:00.000000Z``.

    Raises:
        LineageError: ``time`` has no time zone, so that it means another moment on another machine.
    """
    if time.tzinfo is None:
        raise LineageError(f"the time {time.isoformat()} has no zone; add one, such as {time.isoformat()}Z for UTC")
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """The time that ``text`` names in ISO 8601; a date alone means its first moment in UTC.

    Raises:
        LineageError: it is no such time, or has a clock time without a zone.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise LineageError(f"{text!r} is no time; write it as 2026-03-03 or 2026-03-03T12:00:00Z") from error
    if len(text) <= len("2026-03-03"):
        time = time.replace(tzinfo=UTC)
    stamp(time)  # refuses a missing zone
    return time
