"""Many games at once: all open ones take their turn together, so that a model can decide for them in one batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dualmind.domains.household.belief import Belief
from dualmind.domains.household.domain import HouseholdEpisode
from dualmind.domains.household.game import Game


@dataclass(frozen=True, slots=True)
class Outcome:
    """One game as it was played."""

    game_id: str
    task_type: str
    success: bool
    steps: int  # commands given, 1..max_steps
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """A game that waits for a command."""

    index: int  # of the game in its batch
    prompt: str
    candidates: tuple[str, ...]  # as a model reads them
    commands: tuple[str, ...]  # the same as the game reads them
    tried: tuple[str, ...]  # commands given so far, as a model reads them
    belief: Belief  # what has been seen; not to be changed


def roll(games: Sequence[Game], max_steps: int, choose: Callable[[list[Turn]], Sequence[str]]) -> list[Outcome]:
    """Play games to their ends.

    Args:
        games: all of them are open at a time.
        max_steps: commands after which a game is lost, >= 1.
        choose: one of the ``candidates`` for each turn.

    Returns:
        One outcome a game, in the order of ``games``.
    """
    episodes = [HouseholdEpisode(game, max_steps) for game in games]
    infos = {index: episode.reset()[1] for index, episode in enumerate(episodes)}
    given: list[list[str]] = [[] for _ in games]
    tried: list[list[str]] = [[] for _ in games]
    won = [False] * len(games)
    while infos:
        turns = [
            Turn(i, own["prompt"], own["candidates"], own["admissible_commands"], tuple(tried[i]), episodes[i].belief)
            for i, own in infos.items()
        ]
        for turn, candidate in zip(turns, choose(turns), strict=True):
            i, command = turn.index, turn.commands[turn.candidates.index(candidate)]
            given[i].append(command)
            tried[i].append(candidate)
            _, _, won[i], truncated, infos[i] = episodes[i].step(command)
            if won[i] or truncated:
                del infos[i]
    return [
        Outcome(game.id, game.task_type, success, len(own), tuple(own))
        for game, success, own in zip(games, won, given, strict=True)
    ]
