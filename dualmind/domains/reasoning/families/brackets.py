"""Bracket completion."""

import re

import numpy as np

from dualmind.domains.reasoning.question import (
    Question,
    Reading,
    TextFamily,
    between,
    check_hops,
    pick,
)

CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_OPENING = tuple(CLOSING)
_LEAD = {
    "bbh": "complete the rest of the sequence , making sure that the parentheses are closed properly . input :",
    "plain": "close all open brackets :",
}
_FORM = re.compile(rf"(?:{'|'.join(map(re.escape, _LEAD.values()))})(?: [()\[\]{{}}<>])+")


def _left_open(text: str) -> list[str]:
    """Closing brackets that are missing, the last one first.

    Raises:
        ValueError: a bracket closes another one.
    """
    open_now: list[str] = []
    for word in text.rpartition(" : ")[2].split():
        if word in CLOSING:
            open_now.append(CLOSING[word])
        elif not open_now or open_now.pop() != word:
            raise ValueError(f"{word!r} closes nothing")
    return open_now[::-1]


class Brackets(TextFamily):
    """Close what is open (BIG-Bench Hard: dyck_languages). Steps: the closing brackets, one by one."""

    name = "brackets"
    form = _FORM

    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """One hop is one closing bracket; closed pairs lie between the open ones."""
        check_hops(hops)
        parts = [[pick(rng, _OPENING)] for _ in range(hops)]
        for _ in range(between(rng, 1, 3 + hops // 2)):
            parts.insert(between(rng, 0, len(parts)), _closed(rng))
        phrasing = pick(rng, ("bbh", "plain"))
        text = f"{_LEAD[phrasing]} {' '.join(word for part in parts for word in part)}"
        return self.ask(text, hops, phrasing, " ".join)

    def reading(self, text: str) -> Reading:
        """See :class:`TextFamily`."""
        missing = _left_open(text)
        return Reading(len(missing), lambda before: missing[len(before)])


def _closed(rng: np.random.Generator) -> list[str]:
    """A pair, sometimes around another."""
    outer, inner = pick(rng, _OPENING), pick(rng, _OPENING)
    middle = [inner, CLOSING[inner]] if rng.random() < 0.4 else []
    return [outer, *middle, CLOSING[outer]]
