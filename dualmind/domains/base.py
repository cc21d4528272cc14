"""What every domain offers: problems, episodes over text, an expert, a step checker and a scorer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import gymnasium

Split = Literal["train", "valid_train", "valid_seen", "valid_unseen"]
SPLITS: tuple[Split, ...] = ("train", "valid_train", "valid_seen", "valid_unseen")


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a domain."""

    id: str
    domain: str
    text: str  # what the agent is asked, in words
    hops: int  # >= 1; sub-goals of a household task, inference steps of a question
    split: Split
    payload: Any  # what the domain needs to play it; opaque to everyone else


@dataclass(frozen=True, slots=True)
class Decision:
    """One step of an expert: what it saw, what it could do, what it did and why."""

    prompt: str
    candidates: tuple[str, ...]  # admissible commands as the model reads them; empty where the answer is free text
    target: str  # one of the candidates, or the free text
    rationale: str


class Domain(Protocol):
    """A source of problems with its own rules."""

    name: str

    def problems(self, split: Split) -> Sequence[Problem]:
        """All problems of one split, in a fixed order."""
        ...

    def expert(self, problem: Problem) -> Iterator[Decision]:
        """Decisions of an expert that knows only what it has seen."""
        ...

    def episode(self, problem: Problem) -> gymnasium.Env[str, str]:
        """An episode over text; ``info["admissible_commands"]`` lists the commands where the domain has them."""
        ...

    def check_step(self, problem: Problem, steps: Sequence[str]) -> bool:
        """Is the last of ``steps`` valid after those before it?"""
        ...

    def score(self, problem: Problem, steps: Sequence[str]) -> float:
        """How well ``steps`` solve the problem, in 0..1."""
        ...
