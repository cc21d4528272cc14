import copy

import pytest

from dualmind.domains.household.domain import HouseholdEpisode
from dualmind.domains.household.expert import LocationPrior, Searcher
from dualmind.domains.household.game import Game
from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.subgoals import Subgoal, next_subgoal, reached, role

GAMES = generate_games({"train": 12}, seed=4)
TREATED: dict[str, Subgoal] = {"pick_clean_then_place_in_recep": "clean", "pick_heat_then_place_in_recep": "heat"}


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.id)
def test_the_searcher_reaches_the_subgoals_of_its_task_in_order(game: Game) -> None:
    episode = HouseholdEpisode(game)
    _, info = episode.reset()
    searcher = Searcher(game.goal, LocationPrior.learn(GAMES))
    done = False
    met: list[Subgoal] = []
    while not done:
        before = copy.deepcopy(episode.belief)
        _, _, done, truncated, info = episode.step(searcher.choose(before, info["admissible_commands"]).command)
        assert not truncated
        subgoal = next_subgoal(game.goal, before)
        if reached(subgoal, game.goal, before, episode.belief):
            met.append(subgoal)
    assert "take" in met
    assert met[-1] == ("light" if game.goal.light else "place")
    if game.task_type in TREATED:
        assert met.index("take") < met.index(TREATED[game.task_type]) < met.index("place")


def test_every_admissible_command_has_a_role() -> None:
    episode = HouseholdEpisode(GAMES[0])
    _, info = episode.reset()
    roles = {command: role(command) for command in info["admissible_commands"]}
    assert set(roles.values()) <= {"look", "examine", "act"}
    assert roles["look"] == "look"
