import re
from collections import Counter

import pytest

from dualmind.domains.household.domain import Household
from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.game import TASK_TYPES
from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.sources import load_games
from dualmind.domains.household.summarise import room_kind, summarise
from dualmind.errors import GameError
from tests.domains.household.stock import REAL_GAMES

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


@pytest.mark.skipif(not REAL_GAMES.is_file(), reason=f"the real games are not at {REAL_GAMES}")
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
