import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dualmind.domains.household import generate
from dualmind.domains.reasoning.generate import Mix
from dualmind.errors import GameError
from dualmind.storage import md5_folder
from stages.prepare import (
    HouseholdParams,
    NumGames,
    NumQuestions,
    PrepareParams,
    ReasoningParams,
    prepare_household,
    prepare_reasoning,
)
from tests.domains.household.stock import REAL_GAMES, needs_real_games

PREPARE = PrepareParams(min_success=0.9)
REASONING = ReasoningParams(
    families=["keys", "swaps", "sorting"],
    num_questions=NumQuestions(train=80, valid_train=20, valid_seen=240, valid_unseen=20),
    training_mix=Mix(easy_share=None, max_hops=4),
    traffic_mix=Mix(easy_share=0.85, max_hops=4),
    seed=0,
)
NUM_GAMES = NumGames(train=12, valid_train=6, valid_seen=6, valid_unseen=6)


def household(**changes: Any) -> HouseholdParams:
    return HouseholdParams(**{"games": Path(generate.__file__), "num_games": NUM_GAMES, "seed": 0, **changes})


def test_data_are_made_and_are_the_same_bytes_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        prepare_household(PREPARE, household(), tmp_path / name)
    assert md5_folder(tmp_path / "a") == md5_folder(tmp_path / "b")
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["problems"] == NUM_GAMES.model_dump()
    assert summary["leaks"] == 0
    rows = pq.read_table(tmp_path / "a" / "decisions.parquet").to_pylist()
    assert {row["split"] for row in rows} == {"train", "valid_train"}
    assert len(rows) == sum(summary["decisions"].values())
    assert all(row["target"] in row["candidates"] for row in rows)
    by_problem = {row["problem_id"]: row["reward"] for row in rows}  # the last row of each
    assert set(by_problem.values()) == {1.0}


def test_questions_are_made_and_are_the_same_bytes_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        prepare_reasoning(PREPARE, REASONING, tmp_path / name)
    assert md5_folder(tmp_path / "a") == md5_folder(tmp_path / "b")
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["problems"] == REASONING.num_questions.model_dump()
    assert summary["leaks"] == 0
    rows = pq.read_table(tmp_path / "a" / "decisions.parquet").to_pylist()
    assert all(row["rationale"].endswith(f"= {row['target']}") for row in rows)


def test_an_expert_that_wins_too_little_stops_the_stage_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dualmind.domains.household.domain.MAX_STEPS", 2)
    monkeypatch.setattr("dualmind.domains.household.domain.HouseholdEpisode.__init__.__defaults__", (2,))
    with pytest.raises(GameError, match=r"prepare\.min_success"):
        prepare_household(PREPARE, household(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_games_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(GameError, match="nothing is at"):
        prepare_household(PREPARE, household(games=tmp_path / "none"), tmp_path / "out")


@needs_real_games
def test_real_games_go_the_same_way(tmp_path: Path) -> None:
    prepare_household(PREPARE, household(games=REAL_GAMES), tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["problems"]["valid_unseen"] == 6
