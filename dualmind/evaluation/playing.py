"""Plays many games at once with one model: all open games of a batch are scored in one pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch

from dualmind.domains.household.domain import HouseholdEpisode
from dualmind.domains.household.game import Game
from dualmind.progress import Progress

Mode = Literal["greedy", "sampled"]


class CommandModel(Protocol):
    """What scores candidate commands."""

    def score(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[torch.Tensor]:
        """Log-probabilities over each prompt's candidates: one tensor (num_candidates,) a prompt."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """One game as it was played."""

    game_id: str
    task_type: str
    success: bool
    steps: int  # commands given, 1..max_steps
    commands: tuple[str, ...]


def play(
    model: CommandModel,
    games: Sequence[Game],
    mode: Mode,
    rng: np.random.Generator,
    *,
    batch_size: int,
    max_steps: int,
    label: str = "play",
) -> list[Outcome]:
    """Play every game once, in batches.

    A sampled choice takes one uniform number a game and step, drawn for all games of the batch beforehand, so that
    a game's luck does not depend on how long its neighbours last.

    Args:
        model: scores the admissible commands.
        games: the games, played in this order.
        mode: ``greedy`` takes the best command, ``sampled`` draws from the distribution.
        rng: source of the uniform numbers.
        batch_size: games open at a time, >= 1.
        max_steps: commands after which a game is lost, >= 1.
        label: heads the progress lines.

    Returns:
        One outcome a game, in the order of ``games``.
    """
    outcomes: list[Outcome] = []
    progress = Progress(label, len(games))
    for start in range(0, len(games), batch_size):
        batch = games[start : start + batch_size]
        luck = rng.random((len(batch), max_steps))  # (games, steps)
        outcomes += _play_batch(model, batch, _chooser(mode), luck, max_steps)
        progress.update(len(outcomes), f"{np.mean([o.success for o in outcomes]):.1%} won")
    return outcomes


def _play_batch(
    model: CommandModel,
    games: Sequence[Game],
    choose: Callable[[torch.Tensor, float], int],
    luck: "np.ndarray[tuple[int, int], np.dtype[np.float64]]",
    max_steps: int,
) -> list[Outcome]:
    episodes = [HouseholdEpisode(game, max_steps) for game in games]
    infos = {index: episode.reset()[1] for index, episode in enumerate(episodes)}
    commands: list[list[str]] = [[] for _ in games]
    won = [False] * len(games)
    while infos:
        scores = model.score([i["prompt"] for i in infos.values()], [i["candidates"] for i in infos.values()])
        for (index, info), score in zip(list(infos.items()), scores, strict=True):
            command = info["admissible_commands"][choose(score, luck[index, len(commands[index])])]
            commands[index].append(command)
            _, _, won[index], truncated, infos[index] = episodes[index].step(command)
            if won[index] or truncated:
                del infos[index]
    return [
        Outcome(game.id, game.task_type, success, len(given), tuple(given))
        for game, success, given in zip(games, won, commands, strict=True)
    ]


def _chooser(mode: Mode) -> Callable[[torch.Tensor, float], int]:
    match mode:
        case "greedy":
            return lambda score, _: int(score.argmax())
        case "sampled":
            return _sample


def _sample(log_probabilities: torch.Tensor, uniform: float) -> int:
    """Inverse-transform sampling from log-probabilities (num_candidates,) with one number in [0, 1)."""
    cumulative = log_probabilities.double().exp().cumsum(0)
    return int(torch.searchsorted(cumulative / cumulative[-1], uniform, right=True).clamp_max(len(cumulative) - 1))
