"""Each rule of the suites is broken once, and the gate must say which."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest

from dualmind.data import suites
from dualmind.data.decisions import DecisionRow, write_decisions
from dualmind.data.problems import ProblemRow, write_problems
from dualmind.data.validation import validate
from dualmind.domains.household.domain import HOPS, MAX_STEPS
from dualmind.domains.household.game import TASK_TYPES
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.question import MAX_HOPS
from dualmind.errors import ValidationFailed
from stages.validate import SUITES
from tests.data.rows import PARAMS, decision_rows, problem_rows


def judge_decisions(folder: Path, rows: list[DecisionRow]) -> str:
    write_decisions(folder / "decisions.parquet", rows)
    with pytest.raises(ValidationFailed) as caught:
        validate(folder / "decisions.parquet", "household decisions", PARAMS, folder / "decisions.json")
    assert not (folder / "decisions.json").exists()
    return str(caught.value)


def judge_problems(folder: Path, rows: list[ProblemRow]) -> str:
    write_problems(folder / "problems.parquet", rows)
    with pytest.raises(ValidationFailed) as caught:
        validate(folder / "problems.parquet", "household problems", PARAMS, folder / "problems.json")
    assert not (folder / "problems.json").exists()
    return str(caught.value)


def test_the_gate_states_the_domain_s_figures_independently_and_alike() -> None:
    assert sorted(TASK_TYPES) == suites._TASK_TYPES
    assert (min(HOPS.values()), max(HOPS.values())) == (suites._MIN_HOPS, suites._MAX_HOPS)
    assert suites._MAX_STEPS == MAX_STEPS
    own = {name for names in SUITES.values() for name in names}
    assert set(get_args(suites.SuiteName)) == {*own, "traffic decisions"}
    assert sorted(family.name for family in FAMILIES) == suites._FAMILIES
    assert suites._MAX_QUESTION_HOPS == MAX_HOPS


def question_rows() -> tuple[list[DecisionRow], list[ProblemRow]]:
    decisions, problems = [], []
    for index, split in enumerate(["train", "train", "valid_train", "valid_train"]):
        name, text = f"keys-1-{index}", f"question : what is behind door {index} ?"
        decisions.append(
            replace(
                decision_rows()[0], example_id=f"{name}/0", problem_id=name, split=split, domain="reasoning", hops=1,
                step_index=0, prompt=text, candidates=(), target="gold", rationale="#1 gold = gold", source="generator",
            )
        )  # fmt: skip
        problems.append(ProblemRow(name, "reasoning", split, "keys", "doors", 1, text, "{}"))
    return decisions, problems


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ""),
        ({"hops": 13}, "column 'hops'"),
        ({"candidates": ("gold",)}, "column 'num_candidates'"),
        ({"rationale": "#1 gold = silver"}, "column 'rationale_gives_target'"),
        ({"prompt": "question : what is behind door 0 ?"}, "column 'splits_of_prompt'"),
        ({"source": "searcher"}, "column 'source'"),
    ],
)
def test_decisions_on_questions_are_gated(tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    rows, _ = question_rows()
    path = tmp_path / "decisions.parquet"
    write_decisions(path, [*rows[:-1], replace(rows[-1], **change)])
    try:
        validate(path, "reasoning decisions", PARAMS, tmp_path / "decisions.json")
    except ValidationFailed as error:
        assert expected
        assert expected in str(error)
    else:
        assert not expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ""),
        ({"task_type": "poetry"}, "column 'task_type'"),
        ({"text": "question : what is behind door 0 ?"}, "column 'splits_of_text'"),
    ],
)
def test_questions_are_gated(tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    _, rows = question_rows()
    path = tmp_path / "problems.parquet"
    write_problems(path, [*rows[:-1], replace(rows[-1], **change)])
    try:
        validate(path, "reasoning problems", PARAMS, tmp_path / "problems.json")
    except ValidationFailed as error:
        assert expected
        assert expected in str(error)
    else:
        assert not expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"example_id": "game0/0"}, "column 'example_id': expected column_values_to_be_unique"),
        ({"example_id": "game2/7"}, "column 'id_is_problem_and_step'"),
        (
            {"problem_id": "game0", "example_id": "game0/1"},
            "column 'splits_of_problem': expected column_values_to_be_in_set",
        ),
        ({"domain": "chess"}, "column 'domain'"),
        ({"split": "test"}, "column 'split': expected column_distinct_values_to_equal_set"),
        ({"split": "valid_unseen"}, "found missing [], unexpected ['valid_unseen']"),
        ({"step_index": -1, "example_id": "game2/-1"}, "column 'step_index': expected column_values_to_be_between"),
        ({"step_index": 2, "example_id": "game2/2"}, "column 'steps_without_gap'"),
        ({"hops": 0}, "column 'hops'"),
        ({"prompt": ""}, "column 'prompt': expected column_value_lengths_to_be_between"),
        ({"prompt": "x" * 201}, "column 'prompt': expected column_value_lengths_to_be_between"),
        ({"target": ""}, "column 'target': expected column_value_lengths_to_be_between"),
        ({"target": "go to moon"}, "column 'target_is_candidate'"),
        ({"candidates": ()}, "column 'target_is_candidate'"),
        ({"reward": 1.5}, "column 'reward'"),
        ({"reward": float("nan")}, "column 'reward': expected column_values_to_not_be_null"),
        ({"source": "oracle"}, "column 'source'"),
    ],
)
def test_a_decision_that_breaks_a_rule_is_refused(tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    rows = decision_rows()
    message = judge_decisions(tmp_path, [*rows[:-1], replace(rows[-1], **change)])
    assert expected in message
    assert "decisions.parquet" in message
    assert "run `dvc repro validate` again" in message


@pytest.mark.parametrize(
    ("index", "change", "expected"),
    [
        (3, {"problem_id": "game0"}, "column 'splits_of_problem'"),
        (3, {"problem_id": "game0"}, "column 'problem_id': expected column_values_to_be_unique"),
        (3, {"payload": '{"things": [0], "id": "other name"}'}, "column 'splits_of_content'"),
        (3, {"layout": "room301"}, "column 'unseen_layout_is_new'"),
        (1, {"payload": "{half a ga"}, "column 'payload': expected column_values_to_be_json_parseable"),
        (1, {"task_type": "stack"}, "column 'task_type'"),
        (1, {"hops": 9}, "found 1 of 4 rows: 9 (rows 1)"),
        (1, {"text": ""}, "column 'text'"),
        (0, {"split": "valid_seen"}, "found missing ['train'], unexpected []"),
        (1, {"split": "test"}, "column 'split': expected column_values_to_be_in_set"),
    ],
)
def test_a_problem_that_breaks_a_rule_is_refused(
    tmp_path: Path, index: int, change: dict[str, Any], expected: str
) -> None:
    rows = problem_rows()
    rows[index] = replace(rows[index], **change)
    assert expected in judge_problems(tmp_path, rows)


def test_too_few_rows_are_refused_with_both_numbers(tmp_path: Path) -> None:
    message = judge_decisions(tmp_path, decision_rows()[:1] + decision_rows()[4:])
    assert "table: expected table_row_count_to_be_between(min_value=4), found 3" in message


def test_all_failures_are_told_not_only_the_first(tmp_path: Path) -> None:
    rows = decision_rows()
    message = judge_decisions(tmp_path, [*rows[:-1], replace(rows[-1], reward=2.0, source="oracle", prompt="")])
    assert [name for name in ("prompt", "reward", "source") if f"column {name!r}" in message] == [
        "prompt",
        "reward",
        "source",
    ]
    assert "failed 3 of " in message


@pytest.mark.parametrize("column", ["prompt", "candidates", "split"])
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    path = tmp_path / "decisions.parquet"
    write_decisions(path, decision_rows())
    pq.write_table(pq.read_table(path).drop_columns([column]), path)
    with pytest.raises(
        ValidationFailed, match=rf"column '{column}': expected column_to_exist\(\), found no such column"
    ):
        validate(path, "household decisions", PARAMS, tmp_path / "decisions.json")


def test_a_column_of_another_type_is_named_with_both_types(tmp_path: Path) -> None:
    path = tmp_path / "decisions.parquet"
    write_decisions(path, decision_rows())
    table = pq.read_table(path)
    spoiled = table.set_column(4, "step_index", table["step_index"].cast("string"))
    pq.write_table(spoiled.set_column(7, "candidates", table["target"]), path)
    with pytest.raises(ValidationFailed) as caught:
        validate(path, "household decisions", PARAMS, tmp_path / "decisions.json")
    assert "column 'step_index': expected column_values_to_be_of_type(type_='int64'), found 'str'" in str(caught.value)
    assert "column 'candidates': expected column_values_to_be_of_type(type_='list')" in str(caught.value)
