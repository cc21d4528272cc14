import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from dualmind.domains.household.generate import generate_games
from dualmind.domains.household.pddl import to_pddl
from dualmind.domains.household.sources import load_games
from dualmind.errors import GameError
from tests.domains.household.stock import REAL_GAMES, needs_real_games

GAMES = generate_games({"train": 4, "valid_train": 2}, seed=2)


def raw(index: int, **changes: Any) -> dict[str, Any]:
    game = GAMES[index]
    fields = {
        "split": game.split,
        "task": f"{game.task_type}-Mug-None-Desk-{game.layout}",
        "trial": game.id,
        "goal": game.goal_text,
        "problem": to_pddl(game),
    }
    return {**fields, **changes}


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_bytes(lzma.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    return path


def write_tree(root: Path, rows: list[dict[str, Any]]) -> Path:
    for row in rows:
        folder = root / row["split"] / row["task"] / row["trial"]
        folder.mkdir(parents=True)
        grammar = f'grammar :: """"rhs": "Your task is to: {row["goal"]}" """'
        game = {"pddl_domain": "", "grammar": grammar, "pddl_problem": row["problem"], "solvable": True}
        (folder / "game.tw-pddl").write_text(json.dumps(game))
    return root


def test_the_tree_and_the_compact_file_give_the_same_games(tmp_path: Path) -> None:
    rows = [raw(i) for i in range(6)]
    counts: Any = {"train": 10, "valid_train": 10}
    from_tree = load_games(write_tree(tmp_path / "tree", rows), counts)
    from_file = load_games(write_lines(tmp_path / "games.jsonl.xz", rows), counts)
    assert from_tree == from_file
    assert sorted(from_file, key=lambda g: g.id) == sorted(GAMES, key=lambda g: g.id)


def test_a_smaller_sample_is_the_start_of_a_larger_one(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "games.jsonl.xz", [raw(i) for i in range(6)])
    assert load_games(path, {"train": 2}) == load_games(path, {"train": 4})[:2]


def test_sliced_and_movable_tasks_are_left_out_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [raw(0), raw(1, task="pick_and_place_simple-AppleSliced-None-Desk-1")]
    assert len(load_games(write_tree(tmp_path, rows), {"train": 10})) == 1
    assert "1 of 2 games left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([raw(0), raw(0)], "was read before"),
        ([raw(0, split="test")], "'test'"),
        ([{"split": "train"}], "KeyError"),
        ([raw(0, problem="(define (problem")], "open brackets"),
        ([raw(4)], "no game of split 'train'"),
    ],
)
def test_a_bad_line_is_refused_with_its_place(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    path = write_lines(tmp_path / "games.jsonl.xz", rows)
    with pytest.raises(GameError, match=message) as caught:
        load_games(path, {"train": 10})
    assert "games.jsonl.xz" in str(caught.value)


@pytest.mark.parametrize("keep", [0, 10, 200, -20])
def test_a_truncated_archive_is_refused(tmp_path: Path, keep: int) -> None:
    path = write_lines(tmp_path / "games.jsonl.xz", [raw(i) for i in range(6)])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(GameError, match="fetch the file again"):
        load_games(path, {"train": 10})


def test_a_missing_path_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GameError, match="nothing is at"):
        load_games(tmp_path / "missing", {"train": 1})
    with pytest.raises(GameError, match=r"no game\.tw-pddl below it"):
        load_games(tmp_path, {"train": 1})


def test_a_tree_without_splits_and_a_file_that_is_no_json_are_refused(tmp_path: Path) -> None:
    write_tree(tmp_path / "a", [raw(0)])
    (tmp_path / "a" / "train").rename(tmp_path / "a" / "other")
    with pytest.raises(GameError, match="<split>"):
        load_games(tmp_path / "a", {"train": 1})
    file = next(write_tree(tmp_path / "b", [raw(0)]).rglob("game.tw-pddl"))
    file.write_text("{")
    with pytest.raises(GameError, match="not a JSON game file"):
        load_games(tmp_path / "b", {"train": 1})


@needs_real_games
def test_real_games_are_read_and_spread_over_task_types() -> None:
    games = load_games(REAL_GAMES, {"train": 60, "valid_unseen": 20})
    assert len(games) == 80
    assert len({g.task_type for g in games if g.split == "train"}) == 6
    assert not {g.layout for g in games if g.split == "train"} & {g.layout for g in games if g.split == "valid_unseen"}
