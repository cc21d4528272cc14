"""Decisions of System 1 with the truth beside them: what a gate is fitted on and a threshold is proven with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dualmind.agent.agent import Request
from dualmind.agent.signals import monitor
from dualmind.domains.base import Problem
from dualmind.domains.household.domain import Household
from dualmind.domains.household.expert import LocationPrior, Searcher
from dualmind.domains.household.regret import as_good
from dualmind.domains.household.rollout import Turn, roll
from dualmind.domains.reasoning.domain import Reasoning, as_prompt
from dualmind.models.system1 import FirstAnswer, System1
from dualmind.progress import Progress

_BATCH = 128


@dataclass(frozen=True, slots=True)
class Labelled:
    """One decision of System 1 and whether it was right."""

    problem_id: str
    hops: int
    request: Request
    first: FirstAnswer
    right: bool
    truth: str  # the right answer, or the expert's command as a model reads it

    @property
    def monitor(self) -> float:
        """How much System 1 repeats itself here."""
        return monitor(self.request.tried, self.first.answer) if self.request.candidates else 0.0


def label_questions(system1: System1, domain: Reasoning, problems: Sequence[Problem]) -> list[Labelled]:
    """System 1's answer to each question, judged by the domain's scorer."""
    labelled: list[Labelled] = []
    progress = Progress("questions", len(problems))
    for start in range(0, len(problems), _BATCH):
        batch = problems[start : start + _BATCH]
        requests = [Request(Reasoning.name, as_prompt(problem.text)) for problem in batch]
        firsts = system1.answer([r.prompt for r in requests], [()] * len(batch))
        labelled += [
            Labelled(
                problem.id,
                problem.hops,
                request,
                first,
                domain.score(problem, [first.answer]) == 1.0,
                problem.payload.answer,
            )
            for problem, request, first in zip(batch, requests, firsts, strict=True)
        ]
        progress.update(len(labelled))
    return labelled


def label_games(system1: System1, problems: Sequence[Problem], prior: LocationPrior, max_steps: int) -> list[Labelled]:
    """Each command that System 1 gives in its games; right is what the searcher would do, or what is as good.

    See :func:`~dualmind.domains.household.regret.as_good`.
    """
    labelled: list[Labelled] = []
    progress = Progress("games", len(problems))
    for start in range(0, len(problems), _BATCH):
        batch = problems[start : start + _BATCH]
        searchers = [Searcher(problem.payload.goal, prior) for problem in batch]

        def choose(
            turns: list[Turn], batch: Sequence[Problem] = batch, searchers: Sequence[Searcher] = searchers
        ) -> list[str]:
            firsts = system1.answer([turn.prompt for turn in turns], [turn.candidates for turn in turns])
            for turn, first in zip(turns, firsts, strict=True):
                wanted = searchers[turn.index].choose(turn.belief, turn.commands).command
                truth = turn.candidates[turn.commands.index(wanted)]
                problem = batch[turn.index]
                request = Request(Household.name, turn.prompt, turn.candidates, turn.tried)
                given = turn.commands[turn.candidates.index(first.answer)]
                right = as_good(problem.payload, prior, turn.belief, given, wanted)
                labelled.append(Labelled(problem.id, problem.hops, request, first, right, truth))
            return [first.answer for first in firsts]

        roll([problem.payload for problem in batch], max_steps, choose)
        progress.update(min(start + _BATCH, len(problems)))
    return labelled


def one_a_problem(labelled: Sequence[Labelled], rng: np.random.Generator) -> list[Labelled]:
    """One decision of each problem, drawn uniformly: decisions of one game depend on each other, and a proof needs
    independent ones.
    """
    by_problem: dict[str, list[Labelled]] = {}
    for own in labelled:
        by_problem.setdefault(own.problem_id, []).append(own)
    return [own[int(rng.integers(len(own)))] for own in by_problem.values()]


def split_problems(
    labelled: Sequence[Labelled], share: float, rng: np.random.Generator
) -> tuple[list[Labelled], list[Labelled]]:
    """Two parts that share no problem; the first has ``share`` of the problems."""
    names = sorted({own.problem_id for own in labelled})
    chosen = {names[i] for i in rng.permutation(len(names))[: round(share * len(names))]}
    return [own for own in labelled if own.problem_id in chosen], [
        own for own in labelled if own.problem_id not in chosen
    ]


def columns(
    labelled: Sequence[Labelled],
) -> tuple[
    NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], list[str], NDArray[np.bool_]
]:
    """Confidence, log-probability, readings (N, D), monitor, domains and truth of N decisions."""
    return (
        np.array([own.first.confidence for own in labelled]),
        np.array([own.first.log_probability for own in labelled]),
        np.stack([own.first.reading for own in labelled]),
        np.array([own.monitor for own in labelled]),
        [own.request.domain for own in labelled],
        np.array([own.right for own in labelled]),
    )
