"""Bracket completion."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dualmind.domains.reasoning.question import (
    Follow,
    Question,
    between,
    check_hops,
    exact,
    is_next,
    pick,
    rollout,
)

CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_OPENING = tuple(CLOSING)
_LEAD = {
    "bbh": "complete the rest of the sequence , making sure that the parentheses are closed properly . input :",
    "plain": "close all open brackets :",
}


def _follow(text: str) -> Follow:
    """Steps: the closing brackets, one by one."""
    open_now: list[str] = []
    for word in text.rpartition(" : ")[2].split():
        if word in CLOSING:
            open_now.append(CLOSING[word])
        else:
            open_now.pop()
    return lambda before: open_now[-1 - len(before)]


@dataclass(frozen=True, slots=True)
class Brackets:
    """Close what is open (BIG-Bench Hard: dyck_languages)."""

    name: str = "brackets"

    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """One hop is one closing bracket; closed pairs lie between the open ones."""
        check_hops(hops)
        parts = [[pick(rng, _OPENING)] for _ in range(hops)]
        for _ in range(between(rng, 1, 3 + hops // 2)):
            parts.insert(between(rng, 0, len(parts)), _closed(rng))
        phrasing = pick(rng, ("bbh", "plain"))
        text = f"{_LEAD[phrasing]} {' '.join(word for part in parts for word in part)}"
        steps = rollout(hops, _follow(text))
        return Question(text, " ".join(steps), steps, self.name, hops, phrasing)

    def check(self, question: Question, steps: Sequence[str]) -> bool:
        """See :class:`Family`."""
        return is_next(question.hops, _follow(question.text), steps)

    def score(self, question: Question, answer: str) -> float:
        """See :class:`Family`."""
        return exact(question, answer)


def _closed(rng: np.random.Generator) -> list[str]:
    """A pair, sometimes around another."""
    outer, inner = pick(rng, _OPENING), pick(rng, _OPENING)
    middle = [inner, CLOSING[inner]] if rng.random() < 0.4 else []
    return [outer, *middle, CLOSING[outer]]
