"""Checks proposed steps of a chain of thought against the text of the question, and nothing else."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from dualmind.domains.reasoning.domain import as_prompt
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.question import Reading, is_next

_MARKER = as_prompt("")


class Checker(Protocol):
    """Judges steps by the prompt that a model reads."""

    def valid(self, prompt: str, steps: Sequence[str]) -> bool | None:
        """Is the last of ``steps`` valid after those before it? None: cannot say."""
        ...

    def finished(self, prompt: str, steps: Sequence[str]) -> bool | None:
        """Does the answer follow after ``steps``, no further step being left? None: cannot say."""
        ...


class ReasoningChecker:
    """Knows the questions of the reasoning families by their text; of all others it cannot say.

    A text that several families claim is as unknown as one that none does.
    """

    def valid(self, prompt: str, steps: Sequence[str]) -> bool | None:
        """See :class:`Checker`."""
        reading = _read(prompt)
        return None if reading is None else is_next(reading.hops, reading.follow, steps)

    def finished(self, prompt: str, steps: Sequence[str]) -> bool | None:
        """See :class:`Checker`."""
        reading = _read(prompt)
        return None if reading is None else len(steps) >= reading.hops


@lru_cache(maxsize=4096)  # a prompt comes back with every candidate of every step
def _read(prompt: str) -> Reading | None:
    if not prompt.startswith(_MARKER):
        return None
    text = prompt.removeprefix(_MARKER)
    readings = [reading for family in FAMILIES if (reading := family.read(text)) is not None]
    return readings[0] if len(readings) == 1 else None
