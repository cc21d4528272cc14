"""Draws reasoning questions: splits share no text, and the same arguments give the same questions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from dualmind.domains.base import SPLITS, Split
from dualmind.domains.drawing import check_numbers
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.question import MAX_HOPS, Family, Question
from dualmind.errors import QuestionError

_MAX_DRAWS = 200  # tries for a text that is new; then the family has too few of that many hops


class Mix(BaseModel):
    """How many hops the questions have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    easy_share: float | None = Field(ge=0, le=1)  # share with 1 or 2 hops; None draws all numbers of hops alike
    max_hops: int = Field(ge=3, le=MAX_HOPS)


def generate_questions(
    num: Mapping[Split, int], mix: Mix | Mapping[Split, Mix], seed: int, families: Sequence[Family] = FAMILIES
) -> list[Question]:
    """Draw questions; families take turns, so that every split has all of them.

    Held-out splits are drawn first: they stay the same when more training questions are drawn.

    Args:
        num: questions of each split, >= 0.
        mix: how many hops they have, of all splits or of each.
        seed: of everything, >= 0.
        families: which to draw from; their order counts.

    Returns:
        Questions in the order of SPLITS, each text once.

    Raises:
        QuestionError: a number or the seed is negative, a split is unknown, there is nothing to draw, or a family has
            too few different questions.
    """
    check_numbers(num, seed, "reasoning", "num", QuestionError)
    if not families:
        raise QuestionError("reasoning.families is empty: give at least one family")
    seen: set[str] = set()
    drawn: dict[Split, list[Question]] = {}
    for split in reversed(SPLITS):  # train, the first, comes last
        rng = np.random.default_rng([seed, SPLITS.index(split)])
        drawn[split] = []
        for index in range(num.get(split, 0)):
            own = mix if isinstance(mix, Mix) else mix[split]
            family, hops = families[index % len(families)], _draw_hops(own, rng)
            question = _draw_new(family, hops, rng, seen)
            seen.add(question.text)
            drawn[split].append(replace(question, split=split))
    return [question for split in SPLITS for question in drawn[split]]


def choose_families(names: Sequence[str]) -> list[Family]:
    """Families by name, in that order.

    Raises:
        QuestionError: there is no such family.
    """
    known = {family.name: family for family in FAMILIES}
    if unknown := [name for name in names if name not in known]:
        raise QuestionError(f"reasoning.families has {unknown[0]!r}; known: {', '.join(known)}")
    return [known[name] for name in names]


def _draw_hops(mix: Mix, rng: np.random.Generator) -> int:
    if mix.easy_share is None:
        return int(rng.integers(1, mix.max_hops + 1))
    low, high = (1, 2) if rng.random() < mix.easy_share else (3, mix.max_hops)
    return int(rng.integers(low, high + 1))


def _draw_new(family: Family, hops: int, rng: np.random.Generator, seen: set[str]) -> Question:
    for _ in range(_MAX_DRAWS):
        question = family.draw(hops, rng)
        if question.text not in seen:
            return question
    raise QuestionError(
        f"family {family.name} gave no new question of {hops} hops in {_MAX_DRAWS} tries; ask for fewer questions"
    )
