import json
import lzma
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.domains.household.engine import HouseholdEngine
from dualmind.domains.household.game import TASK_TYPES, Game, Thing
from dualmind.domains.household.generate import generate_games
from tests.domains.household.stock import RECORDED, play

GAMES = generate_games({"train": 6, "valid_unseen": 6}, seed=5)


def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in lzma.decompress(RECORDED.read_bytes()).decode().splitlines()]


def test_recorded_play_of_the_stock_engine_is_repeated_to_the_letter() -> None:
    transcripts = recorded()
    for transcript in transcripts:
        game = Game.from_json(transcript["game"])
        steps = transcript["steps"]
        own = play(HouseholdEngine(game), [step[0] for step in steps[1:]])
        for step, theirs in zip(own, steps, strict=True):
            assert [step.command, step.observation, step.commands, step.reward, step.done] == theirs, game.id
    assert {Game.from_json(t["game"]).task_type for t in transcripts} == set(TASK_TYPES)
    assert sum(len(t["steps"]) for t in transcripts) > 500


def test_recorded_play_covers_wins_and_commands_that_do_nothing() -> None:
    steps = [step for transcript in recorded() for step in transcript["steps"]]
    assert any(step[4] for step in steps)
    assert any(step[1] == "Nothing happens." for step in steps)
    verbs = {step[0].split(" ")[0] for step in steps}
    assert {
        "look",
        "inventory",
        "go",
        "open",
        "close",
        "take",
        "move",
        "use",
        "heat",
        "clean",
        "cool",
        "examine",
    } <= verbs


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(GAMES), st.integers(0, 10**6))
def test_an_admissible_command_always_does_something(game: Game, seed: int) -> None:
    engine, rng = HouseholdEngine(game), random.Random(seed)
    engine.reset()
    for _ in range(40):
        commands = engine.admissible_commands()
        assert commands == sorted(set(commands))
        observation, reward, done = engine.step(rng.choice(commands))
        assert observation != "Nothing happens."
        assert reward == float(done)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(GAMES), st.integers(0, 10**6))
def test_a_copy_goes_its_own_way(game: Game, seed: int) -> None:
    engine, rng = HouseholdEngine(game), random.Random(seed)
    engine.reset()
    for _ in range(15):
        engine.step(rng.choice(engine.admissible_commands()))
    before, twin = engine.admissible_commands(), engine.copy()
    assert twin.admissible_commands() == before
    future = []
    for _ in range(15):
        future.append(rng.choice(twin.admissible_commands()))
        twin.step(future[-1])
    assert engine.admissible_commands() == before
    for command in future:
        engine.step(command)
    assert engine.admissible_commands() == twin.admissible_commands()


def test_an_object_shows_all_that_lies_in_it_but_not_itself() -> None:
    game = next(g for g in GAMES if g.task_type == "pick_and_place_simple")
    outer, other, inner = (t.id for t in game.things[:3])
    flags = {outer: ("pickupable", "isreceptacleobject")}
    within = {outer: (outer,), inner: (outer, other)}
    things = [replace(t, flags=flags.get(t.id, ()), within=within.get(t.id)) for t in game.things]  # type: ignore[arg-type]  # plain strings
    engine, name = HouseholdEngine(replace(game, things=tuple(things))), game.names()
    engine.reset()
    place = next(r for r in game.receptacles if r.id in game.things[0].inside)
    for command in (f"go to {name[place.id]}", f"open {name[place.id]}", f"take {name[outer]} from {name[place.id]}"):
        engine.step(command)
    expected = f"This is a normal {name[outer]}. In it, you see a {name[inner]}."
    assert engine.step(f"examine {name[outer]}")[0] == expected


def test_a_thing_without_a_type_counts_in_the_numbers_of_names() -> None:
    game = GAMES[0]
    kind = game.things[0].type
    before = max(int(name.split()[1]) for name in game.names().values() if name.split()[0] == kind)
    cracked = Thing(f"{kind}_bar_zzz_cracked", "", None, (), None, ("pickupable",))
    names = replace(game, things=tuple(sorted([*game.things, cracked], key=lambda t: t.id))).names()
    assert names[cracked.id] == f"{kind} 1"
    assert f"{kind} {before + 1}" in names.values()


def test_reset_puts_everything_back() -> None:
    engine = HouseholdEngine(GAMES[0])
    first = (engine.reset(), engine.admissible_commands())
    rng = random.Random(0)
    for _ in range(50):
        engine.step(rng.choice(engine.admissible_commands()))
    assert (engine.reset(), engine.admissible_commands()) == first


@pytest.mark.parametrize("command", ["", "go to nowhere 1", "take mug 1", "LOOK", "look around", "\n"])
def test_what_is_not_admissible_does_nothing(command: str) -> None:
    engine = HouseholdEngine(GAMES[0])
    engine.reset()
    before = engine.admissible_commands()
    assert engine.step(command) == ("Nothing happens.", 0.0, False)
    assert engine.admissible_commands() == before
