"""What a co-training run is told, what stays the same through it, and what it has come to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from dualmind.data.decisions import DecisionRow
from dualmind.domains.household.game import Game
from dualmind.errors import LearningError
from dualmind.learning.acting import ActingParams
from dualmind.learning.channels import Channel, ChannelParams
from dualmind.learning.cloning import CloningParams, Lessons
from dualmind.learning.irl import IrlParams
from dualmind.learning.ppo import PpoParams
from dualmind.learning.steps import ClockParams, Purpose
from dualmind.models.text_model import TextModel

MakeLessons = Callable[[Sequence[DecisionRow], TextModel], Lessons]


class TickParams(BaseModel):
    """What a system learns at each tick of its clock; all else is as it was cloned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: PositiveInt  # optimiser steps a tick
    batch_size: PositiveInt  # decisions a step (System 1: 256, System 2: 64)
    rate: PositiveFloat  # times the peak rates of cloning, for both optimisers (3e-4 and 1e-5 for AdamW)

    def of(self, cloning: CloningParams, ticks: int) -> CloningParams:
        """How a system is cloned further, at so many ticks at once."""
        steps = ticks * self.steps
        return cloning.model_copy(
            update={
                "steps": steps,
                "batch_size": self.batch_size,
                "muon_lr": cloning.muon_lr * self.rate,
                "adamw_lr": cloning.adamw_lr * self.rate,
                "warmup_steps": min(cloning.warmup_steps, steps // 5),
            }
        )


class CotrainParams(BaseModel):
    """How the pair learns by doing. In brackets here and in what it holds: the articles' values."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rounds: PositiveInt  # of play, learning and a checkpoint
    imitation_rounds: NonNegativeInt  # of them, with a teacher; the others learn by reward alone
    games: PositiveInt  # a round
    teacher: Literal["searcher", "system2"]
    won_only: bool  # believe the teacher in games alone that were won
    acting: ActingParams
    channels: ChannelParams
    clocks: ClockParams
    rehearsal: NonNegativeInt  # demonstrations of each domain that are learnt again beside a channel
    system1: TickParams
    system2: TickParams
    ppo: PpoParams
    irl: IrlParams
    dense_scale: NonNegativeFloat  # of the reward by inverse RL beside success; 0: success alone
    demonstrated_games: PositiveInt  # from which that reward is told again
    judged_games: PositiveInt  # of valid_train, on which it is decided who is handed on
    judged_questions: PositiveInt  # likewise
    may_lose: Annotated[float, Field(ge=0, le=1)]  # share of right answers that more games won may cost


class State(BaseModel):
    """What a run has come to, beside weights and channels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fingerprint: str  # of params, data and parents: another run does not go on from here
    round: int  # rounds that are done
    spent: dict[Purpose, int]  # environment steps
    ticks: dict[str, int]  # of each clock
    trained: dict[str, int]  # optimiser steps of each system
    reward: list[float] | None  # weights of FEATURES, in units of reward_scale
    reward_scale: list[float] | None
    curve: list[dict[str, float]]  # a point a round
    notes: list[str]  # updates that did not take place, alarms


@dataclass(frozen=True, slots=True)
class Setting:
    """What stays the same through a run."""

    params: CotrainParams
    games: Sequence[Game]  # to be played
    demonstrations: Mapping[str, Sequence[DecisionRow]]  # by domain, for rehearsal
    make_lessons: Mapping[Channel, MakeLessons]
    cloning: Mapping[Channel, CloningParams]  # how each system was cloned
    fingerprint: str
    seed: int
    threads: int


def read_state(folder: Path) -> State:
    """What :func:`begin` or :func:`advance` left.

    Raises:
        LearningError: it is damaged.
    """
    try:
        return State.model_validate_json((folder / "state.json").read_bytes())
    except (OSError, ValidationError) as error:
        raise LearningError(f"{folder} does not hold a broken-off run ({error}); remove it to start anew") from error
