"""Plays many games at once with one model: all open games of a batch are scored in one pass."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import numpy as np
import torch

from dualmind.domains.household.game import Game
from dualmind.domains.household.rollout import Outcome, Turn, roll
from dualmind.progress import Progress

Mode = Literal["greedy", "sampled"]


class CommandModel(Protocol):
    """What scores candidate commands."""

    def score(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[torch.Tensor]:
        """Log-probabilities over each prompt's candidates: one tensor (num_candidates,) a prompt."""
        ...


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
        outcomes += roll(batch, max_steps, _chooser_of(model, mode, luck))
        progress.update(len(outcomes), f"{np.mean([o.success for o in outcomes]):.1%} won")
    return outcomes


def _chooser_of(
    model: CommandModel, mode: Mode, luck: "np.ndarray[tuple[int, int], np.dtype[np.float64]]"
) -> Callable[[list[Turn]], list[str]]:
    pick = chooser(mode)

    def choose(turns: list[Turn]) -> list[str]:
        scores = model.score([turn.prompt for turn in turns], [turn.candidates for turn in turns])
        return [
            turn.candidates[pick(score, luck[turn.index, len(turn.tried)])]
            for turn, score in zip(turns, scores, strict=True)
        ]

    return choose


def chooser(mode: Mode) -> Callable[[torch.Tensor, float], int]:
    """Index of the command to give, from log-probabilities (num_candidates,) and a uniform number in [0, 1)."""
    match mode:
        case "greedy":
            return lambda score, _: int(score.argmax())
        case "sampled":
            return _sample


def _sample(log_probabilities: torch.Tensor, uniform: float) -> int:
    """Inverse-transform sampling from log-probabilities (num_candidates,) with one number in [0, 1)."""
    cumulative = log_probabilities.double().exp().cumsum(0)
    return int(torch.searchsorted(cumulative / cumulative[-1], uniform, right=True).clamp_max(len(cumulative) - 1))
