"""Our engine against ALFWorld's own, step by step."""

import itertools
import random

import pytest

from dualmind.domains.household.engine import HouseholdEngine
from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.pddl import to_pddl
from tests.domains.household.stock import REAL_GAMES, StockEngine, play, real_games, solution

pytest.importorskip("alfworld", reason='the real engine is not installed: pip install -e ".[alfworld]"')
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the stock engine's own warnings


@pytest.mark.skipif(not REAL_GAMES.is_file(), reason=f"the real games are not at {REAL_GAMES}")
def test_two_hundred_real_games_play_the_same_in_both_engines() -> None:
    games = steps = 0
    for number, (game, problem, walkthrough) in enumerate(real_games(every=19, offset=3)):
        stock, ours = StockEngine(problem, game.goal_text), HouseholdEngine(game)
        for script in (lambda w=walkthrough: w, lambda n=number: random.Random(n)):
            for theirs, own in itertools.zip_longest(play(stock, script()), play(ours, script())):
                assert own == theirs, f"{game.id} after {theirs.command!r}"
                steps += 1
        games += 1
    assert games >= 200, games
    print(f"{games} games, {steps} steps, 0 mismatches")


def test_generated_games_play_the_same_in_both_engines() -> None:
    for number, game in enumerate(generate_games({"train": 6, "valid_unseen": 6}, seed=3)):
        stock, ours = StockEngine(to_pddl(game), game.goal_text), HouseholdEngine(game)
        for script in (lambda g=game: solution(g), lambda n=number: random.Random(n)):
            for theirs, own in itertools.zip_longest(play(stock, script()), play(ours, script())):
                assert own == theirs, f"{game.id} after {theirs.command!r}"
