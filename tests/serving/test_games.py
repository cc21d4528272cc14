import pytest

from dualmind.domains.household.engine import HouseholdEngine
from dualmind.domains.household.generate import generate_games
from dualmind.errors import Overloaded, RequestError
from dualmind.serving.games import Games

STOCK = generate_games({"valid_unseen": 2}, seed=0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_game_goes_as_the_engine_says_and_the_agent_is_told_what_was_tried() -> None:
    games, engine = Games(STOCK, most=2, expiry_s=60), HouseholdEngine(STOCK[1])
    view = games.start(3)  # counted round
    assert (view.observation, view.goal) == (engine.reset(), STOCK[1].goal_text)
    for turn in range(5):
        command = view.commands[(7 * turn) % len(view.commands)]
        request = games.request(view.episode)
        (candidate,) = [own for own in request.candidates if games.command(view.episode, request, own) == command]
        view = games.step(view.episode, command)
        assert view.observation == engine.step(command)[0]
        assert games.request(view.episode).tried[-1] == candidate
        assert view.steps == turn + 1


def test_an_answer_for_a_game_that_went_on_meanwhile_is_no_command() -> None:
    games = Games(STOCK, most=2, expiry_s=60)
    view = games.start(0)
    request = games.request(view.episode)
    games.step(view.episode, next(own for own in view.commands if own.startswith("go to")))
    assert games.command(view.episode, request, request.candidates[0]) == ""


def test_games_are_limited_and_forgotten_when_nobody_plays_them() -> None:
    clock = Clock()
    games = Games(STOCK, most=2, expiry_s=60, clock=clock)
    first, second = games.start(0), games.start(1)
    with pytest.raises(Overloaded, match="2 games are open"):
        games.start(0)
    clock.now = 50
    games.step(second.episode, "look")
    clock.now = 100
    games.start(0)  # in place of the first
    with pytest.raises(RequestError, match="forgotten"):
        games.request(first.episode)
    games.request(second.episode)


def test_a_game_that_is_over_takes_no_command() -> None:
    games = Games(STOCK, most=1, expiry_s=60)
    view = games.start(0)
    while not view.over:
        view = games.step(view.episode, "look")
    assert (view.steps, view.won) == (50, False)
    for refused in (lambda: games.request(view.episode), lambda: games.step(view.episode, "look")):
        with pytest.raises(RequestError, match="over"):
            refused()
