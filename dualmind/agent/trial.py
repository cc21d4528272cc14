"""Every way to answer the same held-out problems: each system alone, the pair, the planner, each with its price."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dualmind.agent.agent import Agent, Reply, Request
from dualmind.domains.base import Problem
from dualmind.domains.household.domain import Household
from dualmind.domains.household.expert import LocationPrior, Searcher
from dualmind.domains.household.game import Game
from dualmind.domains.household.rollout import Outcome, Turn, roll
from dualmind.domains.reasoning.domain import Reasoning, as_prompt
from dualmind.progress import Progress

_BATCH = 128


@dataclass(frozen=True, slots=True)
class Answered:
    """One question as it was answered."""

    family: str
    hops: int
    right: bool
    reply: Reply


def answer_questions(agent: Agent, domain: Reasoning, problems: Sequence[Problem], label: str) -> list[Answered]:
    """Ask all questions, in batches."""
    found: list[Answered] = []
    progress = Progress(label, len(problems))
    for start in range(0, len(problems), _BATCH):
        batch = problems[start : start + _BATCH]
        replies = agent.act([Request(Reasoning.name, as_prompt(problem.text)) for problem in batch])
        found += [
            Answered(problem.payload.family, problem.hops, domain.score(problem, [reply.answer]) == 1.0, reply)
            for problem, reply in zip(batch, replies, strict=True)
        ]
        progress.update(len(found))
    return found


def play_games(agent: Agent, games: Sequence[Game], max_steps: int, label: str) -> tuple[list[Outcome], list[Reply]]:
    """Play all games, in batches; also every reply that was given."""
    outcomes: list[Outcome] = []
    replies: list[Reply] = []

    def choose(turns: list[Turn]) -> list[str]:
        own = agent.act([Request(Household.name, turn.prompt, turn.candidates, turn.tried) for turn in turns])
        replies.extend(own)
        return [reply.answer for reply in own]

    progress = Progress(label, len(games))
    for start in range(0, len(games), _BATCH):
        outcomes += roll(games[start : start + _BATCH], max_steps, choose)
        progress.update(len(outcomes))
    return outcomes, replies


def play_planner(games: Sequence[Game], prior: LocationPrior, max_steps: int) -> list[Outcome]:
    """The hand-written planner on what has been seen: the checker and teacher, shown beside the learnt systems."""
    searchers = [Searcher(game.goal, prior) for game in games]

    def choose(turns: list[Turn]) -> list[str]:
        wanted = [searchers[turn.index].choose(turn.belief, turn.commands).command for turn in turns]
        return [turn.candidates[turn.commands.index(own)] for turn, own in zip(turns, wanted, strict=True)]

    return roll(games, max_steps, choose)


def price(replies: Sequence[Reply]) -> dict[str, float]:
    """Who answered, and at what mean cost."""
    return {
        "system2_share": float(np.mean([reply.tier != "system1" for reply in replies])),
        "shallow_share": float(np.mean([reply.tier == "shallow" for reply in replies])),
        "mean_flops": float(np.mean([reply.flops for reply in replies])),
    }


def shares(answered: Sequence[Answered], key: Callable[[Answered], Any]) -> dict[str, dict[str, float]]:
    """Share of right answers in each group."""
    groups: dict[Any, list[bool]] = {}
    for own in answered:
        groups.setdefault(key(own), []).append(own.right)
    return {
        str(name): {"right": float(np.mean(own)), "number": float(len(own))} for name, own in sorted(groups.items())
    }
