from collections.abc import Sequence

import pytest

from dualmind.domains.household.domain import HouseholdEpisode
from dualmind.domains.household.expert import LocationPrior, Searcher
from dualmind.domains.household.game import Game
from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.regret import as_good, commands_to_win

GAMES = generate_games({"train": 12}, seed=7)
PRIOR = LocationPrior.learn(GAMES)


def searched(game: Game) -> list[str]:
    """The searcher's commands from start to success."""
    episode = HouseholdEpisode(game)
    _, info = episode.reset()
    done, commands = False, list[str]()
    while not done:
        commands.append(Searcher(game.goal, PRIOR).choose(episode.belief, info["admissible_commands"]).command)
        _, _, done, _, info = episode.step(commands[-1])
    return commands


def after(game: Game, commands: Sequence[str]) -> tuple[HouseholdEpisode, list[str]]:
    """The game after these commands, and what can be done then."""
    episode = HouseholdEpisode(game)
    _, info = episode.reset()
    for command in commands:
        _, _, _, _, info = episode.step(command)
    return episode, list(info["admissible_commands"])


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.id)
def test_each_command_of_the_searcher_brings_success_one_nearer(game: Game) -> None:
    commands = searched(game)
    left = [commands_to_win(game, PRIOR, commands[:given]) for given in range(len(commands) + 1)]
    assert left == list(range(len(commands), -1, -1))


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.id)
def test_the_wanted_command_is_as_good_as_itself_and_doing_nothing_is_not(game: Game) -> None:
    commands = searched(game)
    for given, wanted in enumerate(commands):
        episode, admissible = after(game, commands[:given])
        assert as_good(game, PRIOR, episode.belief, wanted, wanted)
        assert "look" in admissible
        assert not as_good(game, PRIOR, episode.belief, "look", wanted)


def test_another_unvisited_place_is_as_good_while_one_searches_but_not_when_the_thing_is_known() -> None:
    searching = known = 0
    for game in GAMES:
        commands = searched(game)
        for given, wanted in enumerate(commands):
            episode, admissible = after(game, commands[:given])
            new = [
                place
                for place, status in episode.belief.receptacles.items()
                if status == "new" and f"go to {place}" in admissible and f"go to {place}" != wanted
                and PRIOR.worth(game.goal.object_type, place.split()[0]) > 0
            ]  # fmt: skip
            visits = wanted.startswith("go to ") and episode.belief.receptacles[wanted.removeprefix("go to ")] == "new"
            for place in new:
                if visits:
                    assert as_good(game, PRIOR, episode.belief, f"go to {place}", wanted)
                    searching += 1
                elif wanted.startswith("take "):
                    assert not as_good(game, PRIOR, episode.belief, f"go to {place}", wanted)
                    known += 1
    assert searching and known


def test_leaving_what_was_done_costs_commands() -> None:
    game = next(own for own in GAMES if own.goal.receptacle_type)
    commands = searched(game)
    taken = next(i for i, command in enumerate(commands) if command.startswith("take "))
    _, thing, place = commands[taken].replace(" from ", "|").replace("take ", "|", 1).split("|")
    episode, admissible = after(game, commands[: taken + 1])
    back = f"move {thing} to {place}"
    assert back in admissible
    assert not as_good(game, PRIOR, episode.belief, back, commands[taken + 1])
