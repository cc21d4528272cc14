"""The household domain: ALFWorld's games as problems, episodes over text and expert decisions."""

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium

from dualmind.domains.base import Decision, Problem, Split
from dualmind.domains.household.belief import Belief
from dualmind.domains.household.engine import HouseholdEngine
from dualmind.domains.household.expert import LocationPrior, Searcher
from dualmind.domains.household.game import Game
from dualmind.errors import GameError

MAX_STEPS = 50  # ALFWorld's own limit on an episode (Shridhar et al. 2021, section 4)

# sub-goals of each task type: take and place, with treating and the second object where there are
HOPS = {
    "pick_and_place_simple": 2,
    "look_at_obj_in_light": 2,
    "pick_clean_then_place_in_recep": 3,
    "pick_heat_then_place_in_recep": 3,
    "pick_cool_then_place_in_recep": 3,
    "pick_two_obj_and_place": 4,
}


class HouseholdEpisode(gymnasium.Env[str, str]):
    """One game as an environment over text.

    Observations are the game's own texts. ``info`` holds ``admissible_commands`` (sorted), and what a model reads:
    ``prompt`` and ``candidates``, aligned with the commands. The reward is 1 at success and 0 before.
    """

    def __init__(self, game: Game, max_steps: int = MAX_STEPS) -> None:
        self.game = game
        self.action_space = gymnasium.spaces.Text(max_length=200)
        self.observation_space = gymnasium.spaces.Text(max_length=10_000)
        self._max_steps = max_steps
        self._engine = HouseholdEngine(game)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the game again; games hold no chance, so ``seed`` changes nothing."""
        super().reset(seed=seed, options=options)
        observation = self._engine.reset()
        self.belief = Belief(observation)
        self.steps = 0
        return observation, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Give a command; one that is not admissible does nothing and costs a step, as in ALFWorld."""
        observation, reward, done = self._engine.step(action)
        self.belief.update(action, observation)
        self.steps += 1
        return observation, reward, done, not done and self.steps >= self._max_steps, self._info()

    def _info(self) -> dict[str, Any]:
        commands = self._engine.admissible_commands()
        return {
            "admissible_commands": commands,
            "prompt": self.belief.prompt(),
            "candidates": self.belief.candidates(commands),
        }


class Household:
    """ALFWorld games as a domain (see :class:`dualmind.domains.base.Domain`)."""

    name = "household"

    def __init__(self, games: Sequence[Game], prior: LocationPrior) -> None:
        self._games: dict[Split, list[Game]] = {}
        for game in games:
            self._games.setdefault(game.split, []).append(game)
        self._prior = prior

    def problems(self, split: Split) -> Sequence[Problem]:
        """All games of a split, in the order of their source."""
        return [as_problem(game) for game in self._games.get(split, [])]

    def expert(self, problem: Problem) -> Iterator[Decision]:
        """Decisions of the searcher until success.

        Raises:
            GameError: the searcher did not win within the limit of steps.
        """
        episode = HouseholdEpisode(problem.payload)
        searcher = Searcher(problem.payload.goal, self._prior)
        _, info = episode.reset()
        while True:
            commands = info["admissible_commands"]
            choice = searcher.choose(episode.belief, commands)
            candidates = info["candidates"]
            target = candidates[commands.index(choice.command)]
            yield Decision(info["prompt"], candidates, target, choice.rationale)
            _, _, done, truncated, info = episode.step(choice.command)
            if done:
                return
            if truncated:
                raise GameError(f"game {problem.id}: the searcher did not win in {MAX_STEPS} steps; leave the game out")

    def episode(self, problem: Problem) -> HouseholdEpisode:
        """The game as an environment over text."""
        return HouseholdEpisode(problem.payload)

    def check_step(self, problem: Problem, steps: Sequence[str]) -> bool:
        """Is the last command admissible after those before it?"""
        engine = HouseholdEngine(problem.payload)
        engine.reset()
        for command in steps[:-1]:
            engine.step(command)
        return not steps or steps[-1] in engine.admissible_commands()

    def score(self, problem: Problem, steps: Sequence[str]) -> float:
        """1 if the commands win the game, else 0."""
        engine = HouseholdEngine(problem.payload)
        engine.reset()
        return float(any(engine.step(command)[2] for command in steps))


def as_problem(game: Game) -> Problem:
    """A game as a problem of this domain."""
    return Problem(
        id=game.id,
        domain=Household.name,
        text=game.goal_text,
        hops=HOPS[game.task_type],
        split=game.split,
        payload=game,
    )
