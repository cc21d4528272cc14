"""Our engine against ALFWorld's own, step by step."""

import itertools
import random

import pytest

from dualmind.domains.household.engine import HouseholdEngine
from dualmind.domains.household.game import Game
from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.pddl import to_pddl
from tests.domains.household.stock import StockEngine, needs_real_games, odd_games, play, real_games, solution

pytest.importorskip("alfworld", reason='the real engine is not installed: pip install -e ".[alfworld]"')
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the stock engine's own warnings


def compare(game: Game, problem: str, scripts: list[list[str] | int]) -> int:
    """Steps of a game that were the same in both engines; a script is a list of commands or a seed for random play."""
    stock, ours, steps = StockEngine(problem, game.goal_text), HouseholdEngine(game), 0
    for script in scripts:
        theirs, own = (play(e, random.Random(script) if isinstance(script, int) else script) for e in (stock, ours))
        for expected, found in itertools.zip_longest(theirs, own):
            assert found == expected, f"{game.id} after {expected.command!r}"
            steps += 1
    return steps


@needs_real_games
def test_two_hundred_real_games_play_the_same_in_both_engines() -> None:
    games = steps = 0
    for number, (game, problem, walkthrough) in enumerate(real_games(every=19, offset=3)):
        steps += compare(game, problem, [walkthrough, number])
        games += 1
        print(f"{games} games, {steps} steps, 0 mismatches", flush=True)
    assert games >= 200, games


@needs_real_games
def test_games_with_odd_contents_play_the_same_in_both_engines() -> None:
    games = steps = 0
    for game, problem, tour in odd_games():
        steps += compare(game, problem, [tour])
        games += 1
        print(f"{games} odd games, {steps} steps, 0 mismatches", flush=True)
    assert games >= 30, games


def test_generated_games_play_the_same_in_both_engines() -> None:
    for number, game in enumerate(generate_games({"train": 6, "valid_unseen": 6}, seed=3)):
        compare(game, to_pddl(game), [solution(game), number])
