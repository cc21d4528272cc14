from dataclasses import replace
from pathlib import Path

import pytest

from dualmind.data.decisions import write_decisions
from dualmind.data.problems import write_problems
from dualmind.data.validation import open_validated
from dualmind.errors import ParamsError, ValidationFailed
from stages.validate import SUITES as NAMES
from stages.validate import main, validate
from tests.data.rows import PARAMS, decision_rows, problem_rows

PARAMS_YAML = "validate:\n  household:\n    min_decisions: 4\n    min_problems: 4\n    max_prompt_chars: 200\n"


def prepare(folder: Path) -> None:
    write_decisions(folder / "decisions.parquet", decision_rows())
    write_problems(folder / "problems.parquet", problem_rows())


def test_the_stage_writes_receipts_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(PARAMS_YAML, encoding="utf-8")
    prepare(Path("artifacts/prepare/household"))
    main("household")
    out = Path("artifacts/validate/household")
    assert sorted(file.name for file in out.iterdir()) == ["decisions.json", "problems.json", "summary.html"]
    assert open_validated(out / "problems.json").path == Path("artifacts/prepare/household/problems.parquet")


def test_the_failures_of_both_data_sets_are_told_in_one_run(tmp_path: Path) -> None:
    prepare(tmp_path / "prepare")
    out = tmp_path / "out"
    validate(PARAMS, NAMES["household"], tmp_path / "prepare", out)
    write_decisions(tmp_path / "prepare/decisions.parquet", [replace(row, reward=2.0) for row in decision_rows()])
    write_problems(tmp_path / "prepare/problems.parquet", [replace(row, hops=9) for row in problem_rows()])
    with pytest.raises(ValidationFailed) as caught:
        validate(PARAMS, NAMES["household"], tmp_path / "prepare", out)
    assert "column 'reward'" in str(caught.value)
    assert "column 'hops'" in str(caught.value)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("min_problems: 4", "min_problems: 0", "validate.household.min_problems = 0"),
        ("min_problems: 4", "min_problem: 4", "unknown key validate.household.min_problem"),
        ("    min_problems: 4\n", "", "missing key validate.household.min_problems"),
    ],
)
def test_params_out_of_form_are_refused_before_any_data_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(PARAMS_YAML.replace(old, new), encoding="utf-8")
    with pytest.raises(ParamsError, match=expected):
        main("household")
