import re
from collections import Counter

import pytest

from dualmind.domains.household.domain import Household
from dualmind.domains.household.engine import HouseholdEngine
from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.game import TASK_TYPES, Game
from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.sources import load_games
from dualmind.domains.household.summarise import room_kind, summarise
from dualmind.errors import GameError
from tests.domains.household.stock import REAL_GAMES, needs_real_games

GAMES = generate_games({"train": 60, "valid_train": 30, "valid_seen": 30, "valid_unseen": 30}, seed=6)


def test_a_seed_gives_the_same_games_and_another_seed_others() -> None:
    first, again, other = (generate_games({"train": 12}, seed=s) for s in (3, 3, 4))
    assert [g.to_json() for g in first] == [g.to_json() for g in again]
    assert not {g.content_key() for g in first} & {g.content_key() for g in other}


def test_a_larger_split_keeps_the_games_of_a_smaller_one() -> None:
    assert generate_games({"train": 6}, seed=3) == generate_games({"train": 12}, seed=3)[:6]


def test_no_game_is_in_two_splits_and_unseen_rooms_are_new() -> None:
    assert len({g.id for g in GAMES}) == len({g.content_key() for g in GAMES}) == len(GAMES)
    seen = {g.layout for g in GAMES if g.split != "valid_unseen"}
    assert not seen & {g.layout for g in GAMES if g.split == "valid_unseen"}


def test_every_split_has_every_task_type() -> None:
    for split, number in Counter(g.split for g in GAMES).items():
        tasks = Counter(g.task_type for g in GAMES if g.split == split)
        assert tasks == dict.fromkeys(TASK_TYPES, number // 6)


def test_a_layout_has_the_same_receptacles_in_all_its_games() -> None:
    by_layout: dict[str, set[object]] = {}
    for game in GAMES:
        by_layout.setdefault(game.layout, set()).add(game.receptacles)
    assert all(len(rooms) == 1 for rooms in by_layout.values())
    assert {room_kind(layout) for layout in by_layout} == {"kitchen", "living_room", "bedroom", "bathroom"}


def test_no_game_is_won_before_it_begins() -> None:
    for game in GAMES:
        engine = HouseholdEngine(game)
        engine.reset()
        assert not engine.step("look")[2], game.id


def test_things_of_the_goal_are_neither_treated_nor_done_at_the_start() -> None:
    appliance = {"clean": "sinkbasin", "hot": "microwave", "cool": "fridge", None: None}
    for game in GAMES:
        kind = {r.id: r.type for r in game.receptacles}
        for thing in (t for t in game.things if t.type == game.goal.object_type):
            assert appliance[game.goal.state] != kind[thing.inside[0]], f"{game.id}: {thing}"
            assert game.goal.state != "cool" or "iscool" not in thing.flags


def test_what_stands_on_a_receptacle_shares_its_contents() -> None:
    pairs = Counter[tuple[str, ...]]()
    for game in GAMES:
        kind = {r.id: r.type for r in game.receptacles}
        pairs.update(tuple(kind[place] for place in t.inside) for t in game.things if len(t.inside) > 1)
    assert pairs["coffeemachine", "countertop"] > 5 and pairs["countertop", "stoveburner"] > 5


def test_a_game_survives_its_json() -> None:
    assert all(Game.from_json(game.to_json()) == game for game in GAMES)


def test_a_searcher_that_knows_only_what_it_saw_wins() -> None:
    domain = Household(GAMES, LocationPrior.learn(g for g in GAMES if g.split == "train"))
    won = 0
    for problem in [*domain.problems("valid_seen"), *domain.problems("valid_unseen")]:
        try:
            won += bool(list(domain.expert(problem)))
        except GameError:
            continue
    assert won >= 57


@pytest.mark.parametrize("counts", [{}, {"train": 0}, {"train": -1}, {"train": 5, "valid_seen": -2}])
def test_numbers_that_make_no_sense_are_refused(counts: dict[str, int]) -> None:
    with pytest.raises(GameError, match="num_games"):
        generate_games(counts, seed=0)  # type: ignore[arg-type]  # keys are splits


def test_unknown_splits_and_negative_seeds_are_refused() -> None:
    with pytest.raises(GameError, match=r"the split 'test'; give only train"):
        generate_games({"test": 3}, seed=0)  # type: ignore[dict-item]  # what is tested
    with pytest.raises(GameError, match=r"household\.seed = -1"):
        generate_games({"train": 1}, seed=-1)


@needs_real_games
def test_generated_games_have_the_figures_of_real_ones() -> None:
    def figures(games: list[Game]) -> list[float]:
        """Things placed, receptacles, things of the goal, share of these behind doors, share in the target."""
        placed, receptacles, own, closed, done = 0, 0, 0, 0, 0
        for game in games:
            place = {r.id: r for r in game.receptacles}
            goal = [place[t.inside[0]] for t in game.things if t.inside and t.type == game.goal.object_type]
            placed += sum(bool(t.inside) for t in game.things)
            receptacles += len(game.receptacles)
            own += len(goal)
            closed += sum(r.openable for r in goal)
            done += sum(r.type == game.goal.receptacle_type for r in goal)
        return [placed / len(games), receptacles / len(games), own / len(games), closed / own, done / own]

    real = load_games(REAL_GAMES, {"train": 400})
    drawn = generate_games({"train": 400}, seed=1)
    for task in ("pick_cool_then_place_in_recep", "pick_clean_then_place_in_recep"):
        ours, theirs = (figures([g for g in games if g.task_type == task]) for games in (drawn, real))
        assert ours[:3] == pytest.approx(theirs[:3], rel=0.3)
        assert ours[3:] == pytest.approx(theirs[3:], abs=0.12)


@needs_real_games
def test_generated_texts_use_the_words_of_real_games() -> None:
    def words(texts: list[str]) -> set[str]:
        return {word for text in texts for word in re.findall("[a-z]+", text.lower())}

    real = load_games(REAL_GAMES, {"train": 200})
    assert words([g.goal_text for g in GAMES]) <= words([g.goal_text for g in load_games(REAL_GAMES, {"train": 3600})])
    known = {t.type for g in GAMES for t in g.things} | {r.type for g in GAMES for r in g.receptacles}
    seen = Counter(t.type for g in real for t in g.things if t.inside)
    assert sum(n for kind, n in seen.items() if kind in known) / seen.total() > 0.97


def test_tables_count_what_is_there() -> None:
    tables = summarise([g for g in GAMES if g.split == "train"])
    assert {row[2] for own in tables["goals"].values() for rows in own.values() for row in rows} <= set(range(1, 61))
    assert sum(row[2] for own in tables["goals"].values() for rows in own.values() for row in rows) == 60
