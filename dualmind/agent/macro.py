"""Macro and micro: a policy on a long clock picks a direction, another carries it out, the reward says when to switch.

A direction is a skill and the function that it is used on (options: Sutton, Precup and Singh 1999). It runs for CLOCK
steps; where the reward of these was above 0 it goes deeper, for as many again, else the macro policy is asked anew. A
flat policy, the control, picks each command among all from the same features.

Policies are generators: they ask for a choice among rows of features and are sent its index, so that many episodes can
be decided in one batch.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualmind.agent.skills import ROLES, Role, Skill, SkillLibrary
from dualmind.domains.debugging.domain import Debugging, DebuggingEpisode
from dualmind.domains.debugging.evidence import FUNCTION_FEATURES, WIDTH

Array = NDArray[np.float64]
Net = Literal["macro", "micro", "flat"]
CLOCK = 4  # steps of a direction before the reward is looked at
WIDTHS: dict[Net, int] = {"macro": 6 + FUNCTION_FEATURES + len(ROLES) + 3, "micro": WIDTH, "flat": WIDTH}

SKILLS = (
    Skill("reproduce", Debugging.name, ("look",)),
    Skill("localise", Debugging.name, ("examine",)),
    Skill("repair", Debugging.name, ("act",)),
    Skill("check and repair", Debugging.name, ("examine", "act")),
)
HOUSEHOLD_SKILLS = (
    Skill("find", "household", ("look", "examine")),
    Skill("take", "household", ("look", "act")),
    Skill("clean", "household", ("look", "act")),
    Skill("heat", "household", ("look", "act")),
    Skill("cool", "household", ("look", "act")),
    Skill("place", "household", ("look", "act")),
)


class Ask(NamedTuple):
    """Which row? ``features`` has one for each option."""

    net: Net
    features: Array  # (options, WIDTHS[net])


@dataclass(frozen=True, slots=True)
class Played:
    """An episode as it ended."""

    solved: bool
    runs: int
    reward: float  # of all progress, and 1 for a repair
    uses: tuple[tuple[str, bool], ...]  # skills, and whether each made progress


Play = Generator[Ask, int, Played]


@dataclass(frozen=True, slots=True)
class Direction:
    """A skill and what it is used on."""

    skill: Skill
    function: int  # -1 where the skill only looks around


def play_flat(episode: DebuggingEpisode) -> Play:
    """One policy that picks every command among all."""
    episode.reset()
    reward, ended = 0.0, False
    while not ended:
        options = np.flatnonzero(episode.admissible())
        chosen = yield Ask("flat", episode.evidence.features(episode.left)[options])
        ended, gain = _step(episode, int(options[chosen]))
        reward += gain
    return Played(episode.solved, episode.runs, reward, ())


def play_macro(episode: DebuggingEpisode, library: SkillLibrary) -> Play:
    """A macro policy that picks directions among the skills that are offered, and a micro policy within them."""
    episode.reset()
    roles = command_roles(episode)
    every = [
        Direction(skill, function)
        for skill in library.offered(Debugging.name)
        for function in ([-1] if skill.roles == ("look",) else range(len(episode.evidence.names)))
    ]
    reward, ended, uses = 0.0, False, list[tuple[str, bool]]()
    last: Direction | None = None
    while not ended:
        open_ones = [own for own in every if commands_of(own, episode, roles).any()]
        if not open_ones:
            break
        chosen = yield Ask("macro", _direction_features(open_ones, last, episode, library))
        last, gained, total = open_ones[chosen], 0.0, 0.0
        for step in range(1, episode.budget + 1):
            options = np.flatnonzero(commands_of(last, episode, roles))
            if not len(options):
                break
            choice = yield Ask("micro", episode.evidence.features(episode.left)[options])
            ended, gain = _step(episode, int(options[choice]))
            reward, gained, total = reward + gain, gained + gain, total + gain
            if ended or (step % CLOCK == 0 and gained <= 0):
                break
            if step % CLOCK == 0:
                gained = 0.0  # deeper: the next clock has to earn its own
        uses.append((last.skill.name, total > 0))
    return Played(episode.solved, episode.runs, reward, tuple(uses))


def command_roles(episode: DebuggingEpisode) -> NDArray[np.int64]:
    """For each command the index of its role in ROLES (commands,)."""
    kinds: dict[str, Role] = {"run": "look", "patch": "act"}
    return np.array([ROLES.index(kinds.get(command.split()[0], "examine")) for command in episode.commands])


def commands_of(direction: Direction, episode: DebuggingEpisode, roles: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Admissible commands that the skill takes: tests, and what is done to its function or leads on from it."""
    own = episode.evidence
    functions, tests = len(own.names), len(own.tests)
    of = np.full(len(roles), -1)
    of[tests : tests + functions] = np.arange(functions)
    of[tests + functions : tests + functions + 2] = own.focus  # deeper and move on start from the focus
    of[tests + functions + 2 :] = own.repair_function
    here = (of == direction.function) | (roles == ROLES.index("look"))
    taken = np.isin(roles, [ROLES.index(role) for role in direction.skill.roles])
    found: NDArray[np.bool_] = episode.admissible() & here & taken
    return found


def _step(episode: DebuggingEpisode, command: int) -> tuple[bool, float]:
    """Give a command; is the episode over, and what was it worth?"""
    _, solved, ended, truncated, info = episode.step(episode.commands[command])
    return ended or truncated, float(solved) + info["progress"]


def _direction_features(
    directions: list[Direction], last: Direction | None, episode: DebuggingEpisode, library: SkillLibrary
) -> Array:
    """What the macro policy sees of each direction (directions, WIDTHS["macro"])."""
    known = np.vstack([episode.evidence.function_features(), np.zeros(FUNCTION_FEATURES)])  # the last row for -1
    whole = episode.evidence.situation(episode.left)
    rows = [
        [
            *whole,
            *known[own.function],
            *(role in own.skill.roles for role in ROLES),
            own.skill.domain != Debugging.name,
            library.count(own.skill.name, Debugging.name).share,
            own == last,
        ]
        for own in directions
    ]
    return np.array(rows, dtype=np.float64)
