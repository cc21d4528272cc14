import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmind.domains.household.belief import Belief
from dualmind.domains.household.domain import HouseholdEpisode
from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.game import Game, Goal
from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.sources import load_games
from dualmind.errors import SymbolicError
from dualmind.symbolic.planner import Planner, parse_goal
from tests.domains.household.stock import REAL_GAMES, needs_real_games

GAMES = generate_games({"train": 60, "valid_train": 12}, seed=1)


def wins(game: Game, planner: Planner) -> bool:
    """Play from text alone: the planner gets the belief, which is made of observations, and the commands."""
    episode = HouseholdEpisode(game)
    _, info = episode.reset()
    while True:
        choice = planner.choose(episode.belief, info["admissible_commands"])
        assert choice.command in info["admissible_commands"]
        assert choice.rationale
        _, _, done, truncated, info = episode.step(choice.command)
        if done or truncated:
            return bool(done)


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("put some mug on shelf.", Goal("pick_and_place_simple", "mug", "shelf", None, 1, None)),
        ("put a mug in / on shelf .", Goal("pick_and_place_simple", "mug", "shelf", None, 1, None)),
        ("examine the cd with the desklamp.", Goal("look_at_obj_in_light", "cd", None, None, 1, "desklamp")),
        ("cool some egg and put it in sink", Goal("pick_cool_then_place_in_recep", "egg", "sink", "cool", 1, None)),
        ("put a hot egg in fridge.", Goal("pick_heat_then_place_in_recep", "egg", "fridge", "hot", 1, None)),
        ("find two pen and put them in drawer.", Goal("pick_two_obj_and_place", "pen", "drawer", None, 2, None)),
    ],
)  # fmt: skip
def test_goals_are_read_from_their_words(text: str, goal: Goal) -> None:
    assert parse_goal(text) == goal


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.id)
def test_the_goal_of_every_generated_game_is_that_of_its_words(game: Game) -> None:
    assert parse_goal(game.goal_text) == game.goal


@pytest.mark.parametrize("text", ["", "put", "put three mug in drawer", "put a clean mug", "put a mug in drawer 1"])
def test_other_words_are_an_error_that_shows_them(text: str) -> None:
    with pytest.raises(SymbolicError, match="none of the wordings"):
        parse_goal(text)


@given(st.text())
def test_any_text_is_a_goal_or_an_error(text: str) -> None:
    try:
        parse_goal(text)
    except SymbolicError as error:
        assert "word it such as" in str(error)


def test_the_planner_wins_generated_games_from_text_alone() -> None:
    planner = Planner(LocationPrior.learn(game for game in GAMES if game.split == "train"))
    assert all(wins(game, planner) for game in GAMES if game.split == "valid_train")


def test_a_belief_of_another_goal_is_an_error() -> None:
    belief = Belief("you see a drawer 1.\nYour task is to: water the plant.")
    with pytest.raises(SymbolicError, match="water the plant"):
        Planner(LocationPrior({}, frozenset())).choose(belief, ["look"])


@needs_real_games
def test_the_planner_wins_99_of_100_real_games_from_text_alone() -> None:
    games = load_games(REAL_GAMES, {"train": 200, "valid_train": 200})
    assert all(parse_goal(game.goal_text) == game.goal for game in games)
    planner = Planner(LocationPrior.learn(game for game in games if game.split == "train"))
    own = [game for game in games if game.split == "valid_train"]
    assert len(own) == 200
    assert sum(wins(game, planner) for game in own) >= 0.99 * len(own)
