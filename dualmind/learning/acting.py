"""System 1 plays hundreds of games in one batch, and every decision is kept: to be labelled, weighed or rewarded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from dualmind.domains.household.belief import Belief
from dualmind.domains.household.expert import LocationPrior, Searcher
from dualmind.domains.household.game import Game, Goal
from dualmind.domains.household.rollout import Outcome, Turn, roll
from dualmind.evaluation.playing import CommandModel, Mode, chooser
from dualmind.learning.steps import Purpose, StepCounter
from dualmind.models.system2 import System2

Features = Callable[[Goal, Belief], NDArray[np.float64]]


class ActingParams(BaseModel):
    """How games are played to learn from them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode  # sampled play sees more; greedy play repeats itself
    teacher_share: Annotated[float, Field(ge=0, le=1)]  # of commands that the teacher gives in System 1's place
    break_loops: bool  # the teacher, where one is asked, steps in as soon as a command is about to be given again
    batch_size: PositiveInt  # games open at a time
    max_steps: PositiveInt  # commands after which a game is lost


@dataclass(frozen=True, slots=True)
class Advice:
    """What a teacher would do."""

    target: str  # one of the candidates
    rationale: str


Teacher = Callable[[Sequence[Game], Sequence[Turn]], list[Advice]]


@dataclass(frozen=True, slots=True)
class Moment:
    """One decision of a game.

    Attributes:
        prompt: as System 1 read it.
        candidates: what it could do.
        chosen: index of what was done.
        best: index of what System 1 likes best.
        confidence: one minus the normalised entropy of its choice, 0..1.
        advice: what the teacher would have done, if one was asked.
        features: of what had been seen before the decision (F,), if they were asked for.
    """

    prompt: str
    candidates: tuple[str, ...]
    chosen: int
    best: int
    confidence: float
    advice: Advice | None
    features: NDArray[np.float64] | None


@dataclass(frozen=True, slots=True)
class Played:
    """One game with all its decisions."""

    game: Game
    outcome: Outcome
    moments: tuple[Moment, ...]
    final_features: NDArray[np.float64] | None  # of what had been seen at the end (F,)


def act(
    model: CommandModel,
    games: Sequence[Game],
    params: ActingParams,
    counter: StepCounter,
    rng: np.random.Generator,
    *,
    purpose: Purpose = "rollout",
    teacher: Teacher | None = None,
    features: Features | None = None,
) -> list[Played]:
    """Play every game once.

    Args:
        model: System 1, or whatever scores commands.
        games: played in this order, in batches.
        params: how.
        counter: of environment steps.
        rng: source of the draws.
        purpose: what the steps are spent on.
        teacher: is asked at every decision; needed where it takes a share of them.
        features: of goal and belief, noted at every decision.
    """
    assert teacher is not None or params.teacher_share == 0
    played: list[Played] = []
    for start in range(0, len(games), params.batch_size):
        batch = games[start : start + params.batch_size]
        record = _Record(model, batch, params, rng, teacher, features)
        outcomes = roll(batch, params.max_steps, counter.counting(record.choose, purpose))
        played += [
            Played(game, outcome, tuple(moments), features(game.goal, belief) if features is not None else None)
            for game, outcome, moments, belief in zip(batch, outcomes, record.moments, record.beliefs, strict=True)
        ]
    return played


class _Record:
    """Chooses for one batch of games and notes what it saw."""

    def __init__(
        self,
        model: CommandModel,
        games: Sequence[Game],
        params: ActingParams,
        rng: np.random.Generator,
        teacher: Teacher | None,
        features: Features | None,
    ) -> None:
        self._model, self._games, self._teacher, self._features = model, games, teacher, features
        self._share, self._pick = params.teacher_share, chooser(params.mode)
        self._break_loops = params.break_loops
        # a game's luck does not depend on how long its neighbours last
        self._luck = rng.random((len(games), params.max_steps, 2))  # (games, steps, 2)
        self.moments: list[list[Moment]] = [[] for _ in games]
        self.beliefs: list[Belief] = []  # live ones: after the last turn they show the end

    def choose(self, turns: list[Turn]) -> list[str]:
        if not self.beliefs:  # the first turn is that of all games
            self.beliefs = [turn.belief for turn in turns]
        scores = self._model.score([turn.prompt for turn in turns], [turn.candidates for turn in turns])
        advices: Sequence[Advice | None] = [None] * len(turns)
        if self._teacher is not None:
            advices = self._teacher(self._games, turns)
        return [self._decide(*own) for own in zip(turns, scores, advices, strict=True)]

    def _decide(self, turn: Turn, score: torch.Tensor, advice: Advice | None) -> str:
        own, teachers = self._luck[turn.index, len(turn.tried)]
        chosen = self._pick(score, own)
        looping = self._break_loops and turn.candidates[chosen] in turn.tried
        if advice is not None and (looping or teachers < self._share):
            chosen = turn.candidates.index(advice.target)
        features = None
        if self._features is not None:
            features = self._features(self._games[turn.index].goal, turn.belief)
        self.moments[turn.index].append(
            Moment(turn.prompt, turn.candidates, chosen, int(score.argmax()), confidence(score), advice, features)
        )
        return turn.candidates[chosen]


def confidence(log_probabilities: torch.Tensor) -> float:
    """One minus the normalised entropy of a choice among (C,), 0..1; 1 where there is no choice."""
    if len(log_probabilities) < 2:
        return 1.0
    entropy = -(log_probabilities.exp() * log_probabilities.clamp_min(-1e9)).sum()
    return 1 - float(entropy) / float(np.log(len(log_probabilities)))


def searcher(prior: LocationPrior) -> Teacher:
    """The searcher as a teacher: it judges by what the pupil has seen."""

    def advise(games: Sequence[Game], turns: Sequence[Turn]) -> list[Advice]:
        advices = []
        for turn in turns:
            choice = Searcher(games[turn.index].goal, prior).choose(turn.belief, turn.commands)
            advices.append(Advice(turn.candidates[turn.commands.index(choice.command)], choice.rationale))
        return advices

    return advise


def reasoner(system2: System2) -> Teacher:
    """System 2 as a teacher: it reads what System 1 reads; its plan is the rationale."""

    def advise(_: Sequence[Game], turns: Sequence[Turn]) -> list[Advice]:
        thoughts = system2.choose([turn.prompt for turn in turns], [turn.candidates for turn in turns])
        return [Advice(thought.answer, thought.steps[0]) for thought in thoughts]

    return advise
