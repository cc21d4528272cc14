"""What a co-training run is told, what stays the same through it, and what it has come to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveInt, ValidationError

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


class CotrainParams(BaseModel):
    """How the pair learns by doing."""

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
    system1: CloningParams  # steps: a tick of its clock (batch 256, rate 3e-4)
    system2: CloningParams  # steps: a tick of its clock (batch 64, rate 1e-5)
    ppo: PpoParams
    irl: IrlParams
    dense_scale: NonNegativeFloat  # of the reward by inverse RL beside success; 0: success alone
    demonstrated_games: PositiveInt  # from which that reward is told
    evaluation_games: Annotated[int, Field(ge=1)]  # of valid_train, at the end


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
