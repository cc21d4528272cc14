"""DAgger: System 1 plays, a teacher labels the states that it gets into, and all labels so far are cloned.

(Ross, Gordon and Bagnell 2011, Algorithm 3.1.) Cloning alone sees only the states of an expert, not those after one's
own mistakes. Unlike there, training goes on from the last weights in place of starting anew.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from dualmind.data.decisions import DecisionRow
from dualmind.domains.household.game import Game
from dualmind.learning.acting import ActingParams, Teacher, act
from dualmind.learning.channels import visits_of
from dualmind.learning.cloning import CloningParams, Lessons, clone
from dualmind.learning.steps import StepCounter
from dualmind.models.text_model import TextModel

MakeLessons = Callable[[Sequence[DecisionRow]], Lessons]


class DaggerParams(BaseModel):
    """How often System 1 plays and is corrected."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rounds: NonNegativeInt
    games: PositiveInt  # a round
    acting: ActingParams
    cloning: CloningParams  # after each round, on everything so far


@dataclass(frozen=True, slots=True)
class DaggerRound:
    """What one round did."""

    index: int  # from 0
    environment_steps: int  # all that were spent so far, demonstrations among them
    success: float  # of System 1 in this round's games, before it learnt from them
    agreement: float  # share of its best commands that are the teacher's
    decisions: int  # that were cloned
    loss: float  # of the last training steps, nats


def dagger(
    system1: TextModel,
    games: Sequence[Game],
    teacher: Teacher,
    demonstrations: Sequence[DecisionRow],
    params: DaggerParams,
    make_lessons: MakeLessons,
    counter: StepCounter,
    *,
    seed: int,
) -> Iterator[DaggerRound]:
    """Improve ``system1`` in place, round by round; the caller may stop between rounds.

    Args:
        system1: cloned before, else it plays at random at first.
        games: each round takes other ones, until all were taken; then they begin again.
        teacher: labels what System 1 gets into.
        demonstrations: cloned together with the labels; may be empty.
        params: how.
        make_lessons: what is learnt from rows.
        counter: of environment steps.
        seed: of games, play and training.
    """
    assert games
    order = np.random.default_rng([seed, 0]).permutation(len(games))
    rows = list(demonstrations)
    for index in range(params.rounds):
        first = index * params.games
        chosen = [games[order[i % len(games)]] for i in range(first, first + params.games)]
        rng = np.random.default_rng([seed, 1, index])
        played = act(system1, chosen, params.acting, counter, rng, teacher=teacher)
        rows += distinct(visit.row for visit in visits_of(played, "teacher", f"round{index}"))
        report = clone(system1, make_lessons(rows), params.cloning, seed=seed + index)
        moments = [moment for own in played for moment in own.moments]
        yield DaggerRound(
            index=index,
            environment_steps=counter.total,
            success=float(np.mean([own.outcome.success for own in played])),
            agreement=float(
                np.mean([m.advice is not None and m.candidates[m.best] == m.advice.target for m in moments])
            ),
            decisions=len(rows),
            loss=report.curve[-1]["loss"],
        )


def distinct(rows: Iterator[DecisionRow]) -> list[DecisionRow]:
    """Rows without those that ask what an earlier one asks: going in circles adds nothing."""
    found: dict[tuple[str, tuple[str, ...]], DecisionRow] = {}
    for row in rows:
        found.setdefault((row.prompt, row.candidates), row)
    return list(found.values())
