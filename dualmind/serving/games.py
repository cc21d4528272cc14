"""Household games that visitors play, kept by the server for a while."""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dualmind.agent.agent import Request
from dualmind.domains.household.domain import Household, HouseholdEpisode
from dualmind.domains.household.game import Game
from dualmind.errors import Overloaded, RequestError

_RETRY_S = 60  # a game may have been forgotten by then


@dataclass(slots=True)
class _Open:
    episode: HouseholdEpisode
    touched: float  # seconds of the clock
    observation: str
    commands: list[str]
    candidates: tuple[str, ...]
    prompt: str
    tried: list[str] = field(default_factory=list)  # as a model reads them
    won: bool = False
    over: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """What a visitor sees of a game."""

    episode: str
    goal: str
    observation: str
    commands: list[str]
    steps: int
    won: bool
    over: bool


class Games:
    """Open games by id. Used by one thread only."""

    def __init__(
        self, games: Sequence[Game], *, most: int, expiry_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Args are what can be played, open games at most, seconds after which one is forgotten, and a clock."""
        self._games, self._most, self._expiry_s, self._clock = games, most, expiry_s, clock
        self._open: dict[str, _Open] = {}

    def start(self, number: int) -> View:
        """Open a game; ``number`` picks one of those that can be played, counted round.

        Raises:
            Overloaded: too many games are open.
        """
        self._forget()
        if len(self._open) >= self._most:
            raise Overloaded(f"{self._most} games are open already; come again later", _RETRY_S)
        game = self._games[number % len(self._games)]
        episode = HouseholdEpisode(game)
        observation, info = episode.reset()
        name = secrets.token_hex(12)
        self._open[name] = _Open(
            episode, self._clock(), observation, info["admissible_commands"], info["candidates"], info["prompt"]
        )
        return self._view(name)

    def step(self, name: str, command: str) -> View:
        """Give a command.

        Raises:
            RequestError: the game is unknown or over, or the command is not among those that it offers.
        """
        own = self._find(name)
        if own.over:
            raise RequestError(f"game {name} is over; start another one")
        if command not in own.commands:
            raise RequestError(f"{command[:80]!r} is no command here; give one of those that the game offers")
        own.tried.append(own.candidates[own.commands.index(command)])
        own.observation, _, own.won, truncated, info = own.episode.step(command)
        own.over = own.won or truncated
        own.commands, own.candidates, own.prompt = info["admissible_commands"], info["candidates"], info["prompt"]
        return self._view(name)

    def request(self, name: str) -> Request:
        """What the agent is asked in a game.

        Raises:
            RequestError: the game is unknown or over.
        """
        own = self._find(name)
        if own.over:
            raise RequestError(f"game {name} is over; start another one")
        return Request(Household.name, own.prompt, own.candidates, tuple(own.tried))

    def command(self, name: str, request: Request, answer: str) -> str:
        """The game's own words for an answer to ``request``; "" where the game has gone on meanwhile."""
        own = self._open.get(name)
        if own is None or own.candidates != request.candidates or answer not in own.candidates:
            return ""
        return own.commands[own.candidates.index(answer)]

    def _find(self, name: str) -> _Open:
        self._forget()
        own = self._open.get(name)
        if own is None:
            raise RequestError(f"there is no game {name[:40]!r}, or it was forgotten; start another one")
        own.touched = self._clock()
        return own

    def _forget(self) -> None:
        oldest = self._clock() - self._expiry_s
        for name in [name for name, own in self._open.items() if own.touched < oldest]:
            del self._open[name]

    def _view(self, name: str) -> View:
        own = self._open[name]
        return View(
            name, own.episode.game.goal_text, own.observation, own.commands, own.episode.steps, own.won, own.over
        )
