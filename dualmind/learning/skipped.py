"""What is said where there was nothing to learn from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """An update that did not take place: nothing was changed, and why."""

    reason: str
