import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dualmind.domains.household.game import FLAGS, Game
from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.pddl import parse_problem, to_pddl
from dualmind.errors import GameError

GAMES = generate_games({"train": 6, "valid_unseen": 6}, seed=8)
GAME = GAMES[0]
PROBLEM = to_pddl(GAME)


def parse(text: str) -> Game:
    return parse_problem(text, name="trial_1", split="train", layout="1", goal_text=GAME.goal_text)


@pytest.mark.parametrize("game", GAMES, ids=lambda g: g.task_type)
def test_a_game_survives_the_way_through_pddl(game: Game) -> None:
    read = parse_problem(to_pddl(game), name=game.id, split=game.split, layout=game.layout, goal_text=game.goal_text)
    assert read == game


@st.composite
def rearranged(draw: st.DrawFn) -> Game:
    """A game whose things lie in any number of receptacles and objects, have any flags, and here and there no type."""
    game = draw(st.sampled_from(GAMES))
    places, objects = [r.id for r in game.receptacles], [t.id for t in game.things]
    needed, things = {game.goal.object_type, game.goal.light}, []
    for thing in game.things:
        flags = draw(st.sets(st.sampled_from(FLAGS), min_size=1)) | {"toggleable"}
        changed = replace(
            thing,
            type=thing.type if thing.type in needed else draw(st.sampled_from([thing.type, ""])),
            inside=tuple(sorted(draw(st.sets(st.sampled_from(places), max_size=3)))),
            within=tuple(sorted(draw(st.sets(st.sampled_from(objects), max_size=2)))) or None,
            flags=tuple(flag for flag in FLAGS if flag in flags),
        )
        things.append(changed)
    return replace(game, things=tuple(things))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(rearranged())
def test_any_game_survives_the_way_through_json_and_pddl(game: Game) -> None:
    assert Game.from_json(game.to_json()) == game
    read = parse_problem(to_pddl(game), name=game.id, split=game.split, layout=game.layout, goal_text=game.goal_text)
    assert read == game


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(PROBLEM) - 3))
def test_a_problem_that_is_cut_short_is_refused(length: int) -> None:
    with pytest.raises(GameError, match="trial_1"):
        parse(PROBLEM[:length])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text + ")", "bracket too many"),
        (lambda text: text.replace("(:goal", "(:gaol"), r"no \(:goal"),
        (lambda text: text.replace("(:init", "(:init nonsense"), "'nonsense'"),
        (lambda text: text.replace("(:init", "(:init (flies agent1)"), "flies agent1"),
        (lambda text: text.replace("(:init", "(:init (openable a b)"), "openable a b"),
        (lambda text: re.sub(r"\(atLocation agent1 \S+\)", "", text), "one atLocation"),
        (lambda text: re.sub(r"(?s)(\(:goal.*?)objectType \?o1 \w+", r"\1objectType ?o1 dragontype", text), "dragon"),
        (lambda text: re.sub(r"(?s)(\(:goal.*?)receptacleType \?r \w+", r"\1receptacleType ?r lairtype", text), "lair"),
    ],
)  # fmt: skip
def test_a_broken_problem_is_refused_with_its_name_and_what_is_wrong(change: object, message: str) -> None:
    assert callable(change)
    with pytest.raises(GameError, match=message) as caught:
        parse(change(PROBLEM))
    assert "trial_1" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "test"}, "'test'"),
        ({"receptacles": ()}, "no receptacle"),
        ({"things": (*GAME.things, GAME.things[0])}, "twice"),
        ({"agent_location": GAME.receptacles[0].location}, "starts at"),
        ({"things": (replace(GAME.things[0], inside=("moon",)), *GAME.things[1:])}, "'moon'"),
        ({"things": (replace(GAME.things[0], within=("bag",)), *GAME.things[1:])}, "'bag'"),
        ({"goal": replace(GAME.goal, receptacle_type=None)}, "either a receptacle or a lamp"),
    ],
)
def test_a_game_that_the_engine_could_not_play_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(GameError, match=message):
        replace(GAME, **change)  # type: ignore[arg-type]  # each entry changes one field


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"id": 1}', "null"])
def test_json_that_is_no_game_is_refused(text: str) -> None:
    with pytest.raises(GameError, match="not a game"):
        Game.from_json(text)
