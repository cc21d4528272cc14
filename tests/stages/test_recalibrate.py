import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import beta

from dualmind.calibration.month import Frozen, collect, describe, freeze
from dualmind.calibration.threshold import Threshold
from dualmind.data.suites import SuiteParams
from dualmind.data.validation import ValidatedDataset, open_validated, validate
from dualmind.errors import CalibrationError, ReceiptMismatch, ValidationFailed
from dualmind.storage import md5_file
from dualmind.traffic.read import MonthReader
from stages.recalibrate import DATA, OUT, Outcome, RecalibrateParams, main, recalibrate
from tests.calibration.traffic import PARAMS, WEIGHTS, decisions, log_traffic

MONTH = "2026-10"
GRID = np.round(np.linspace(0, 1, 101), 9)
PROMISE = RecalibrateParams(alpha=0.05, delta=0.1)
LIMITS = SuiteParams(min_decisions=1, min_problems=1, max_prompt_chars=1000)


def freeze_month(root: Path, number: int = 1500, **changes: Any) -> Frozen:
    """Log a month, and freeze it in the folder."""
    log_traffic(root / "traffic", MONTH, decisions(MONTH, number, np.random.default_rng(0), **changes))
    return freeze_logged(root)


def freeze_logged(root: Path, previous_value: float = 0.9) -> Frozen:
    with MonthReader(root / "traffic", MONTH) as reader:
        found = collect(reader.batches(), {"r1#1"}, GRID)
    frozen = describe(
        found, period=MONTH, release="r1", labels=["r1#1"], weights_digest=WEIGHTS, gate_digest="b" * 32,
        previous_value=previous_value, grid=GRID[::-1].tolist(),
    )  # fmt: skip
    freeze(found, frozen, root / DATA)
    return frozen


def validated(root: Path) -> ValidatedDataset:
    folder = root / DATA
    return validate(folder / f"{MONTH}.parquet", "traffic decisions", LIMITS, folder / f"{MONTH}.receipt.json")


def spoil(root: Path, column: str, values: Any) -> None:
    """Another column in the frozen file."""
    path = root / DATA / f"{MONTH}.parquet"
    table = pq.read_table(path)
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type)), path)


def test_a_threshold_is_proven_on_the_very_rows_that_were_frozen(tmp_path: Path) -> None:
    frozen = freeze_month(tmp_path)
    outcome = recalibrate(PROMISE, validated(tmp_path), frozen, tmp_path / "out")
    found = outcome.threshold
    assert found is not None
    assert Outcome.read(tmp_path / "out") == outcome
    rows = pq.read_table(tmp_path / DATA / f"{MONTH}.parquet").to_pandas()
    accepted = rows[rows["score"] >= found.value]
    wrong = int((~accepted["correct"]).sum())
    assert (found.n, found.errors) == (len(accepted), wrong)
    assert found.upper_bound == pytest.approx(beta.ppf(0.9, wrong + 1, len(accepted) - wrong))
    assert found.system1_share == pytest.approx(len(accepted) / len(rows))
    assert (found.weights_digest, found.gate_digest, found.previous_value) == (WEIGHTS, "b" * 32, 0.9)
    assert found.calibration_digest == md5_file(tmp_path / DATA / f"{MONTH}.parquet")
    curve = json.loads((tmp_path / "out/risk_curve.json").read_text())
    (point,) = [p for p in curve["points"] if p["threshold"] == found.value]
    assert (point["n"], point["errors"]) == (found.n, found.errors)
    assert [p["threshold"] for p in curve["points"]] == GRID[::-1].tolist()


def test_the_command_writes_the_same_bytes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(PARAMS)
    freeze_month(Path())
    validated(Path())
    main(MONTH)
    first = {path.name: path.read_bytes() for path in (OUT / MONTH).iterdir()}
    main(MONTH)
    assert {path.name: path.read_bytes() for path in (OUT / MONTH).iterdir()} == first
    assert set(first) == {"threshold.json", "risk_curve.json"}


@pytest.mark.parametrize(
    ("number", "column", "value"),
    [
        pytest.param(40, None, None, id="forty rows"),
        pytest.param(3, None, None, id="three rows"),
        pytest.param(400, "correct", False, id="all wrong"),
    ],
)
def test_where_no_threshold_is_valid_there_is_none_and_the_reason_stands_there(
    tmp_path: Path, number: int, column: str | None, value: object
) -> None:
    frozen = freeze_month(tmp_path, number)
    if column is not None:
        spoil(tmp_path, column, [value] * number)
    outcome = recalibrate(PROMISE, validated(tmp_path), frozen, tmp_path / "out")
    assert outcome.threshold is None
    assert outcome.reason == (
        f"no valid threshold at alpha = 0.05, delta = 0.1 with n = {number}: "
        "at least 45 accepted answers without an error are needed"
    )
    assert Outcome.read(tmp_path / "out") == outcome
    assert not (tmp_path / "out/threshold.json").exists()


def test_all_answers_right_prove_the_loosest_threshold(tmp_path: Path) -> None:
    frozen = freeze_month(tmp_path, 400)
    spoil(tmp_path, "correct", [True] * 400)
    found = recalibrate(PROMISE, validated(tmp_path), frozen, tmp_path / "out").threshold
    assert found is not None
    assert (found.value, found.errors, found.system1_share) == (0.0, 0, 1.0)


def test_equal_scores_are_accepted_together_or_not_at_all(tmp_path: Path) -> None:
    frozen = freeze_month(tmp_path, 400, score=0.5, tier="system1")
    right = [True] * 400
    spoil(tmp_path, "correct", right)
    found = recalibrate(PROMISE, validated(tmp_path), frozen, tmp_path / "right").threshold
    assert found is not None
    assert (found.n, found.system1_share) == (400, 1.0)
    spoil(tmp_path, "correct", [False] * 40 + right[40:])
    assert recalibrate(PROMISE, validated(tmp_path), frozen, tmp_path / "wrong").threshold is None


def test_a_threshold_is_loosened_as_far_as_the_answers_that_system_2_took_over_prove(tmp_path: Path) -> None:
    """Where 0.6 served, System 1 is wrong below 0.3 and right above: the sample of all requests tells so."""
    pairs = [
        (own, label.model_copy(update={"correct": own.score >= 0.3}))
        for own, label in decisions(MONTH, 1500, np.random.default_rng(0))
    ]
    log_traffic(tmp_path / "traffic", MONTH, pairs)
    frozen = freeze_logged(tmp_path, previous_value=0.6)
    found = recalibrate(PROMISE, validated(tmp_path), frozen, tmp_path / "out").threshold
    assert found is not None
    scores = np.array([own.score for own, _ in pairs])
    true_error = np.mean(scores[scores >= found.value] < 0.3)
    assert found.value < 0.3
    assert 0 < true_error == pytest.approx(found.errors / found.n)
    assert true_error <= found.upper_bound <= 0.05


def test_other_bytes_than_those_that_were_validated_are_refused(tmp_path: Path) -> None:
    frozen = freeze_month(tmp_path, 400)
    labelled = validated(tmp_path)
    spoil(tmp_path, "correct", [True] * 400)
    with pytest.raises(ReceiptMismatch, match="changed since it was validated"):
        recalibrate(PROMISE, labelled, frozen, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_traffic_of_another_release_is_refused(tmp_path: Path) -> None:
    frozen = freeze_month(tmp_path, 400)
    spoil(tmp_path, "release", ["r0"] * 400)
    with pytest.raises(CalibrationError, match="holds decisions of r0, not of r1"):
        recalibrate(PROMISE, validated(tmp_path), frozen, tmp_path / "out")


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("score", float("nan"), "column 'score'"),
        ("score", float("inf"), "column 'score_is_finite'"),
        ("label_source", "feedback", "column 'label_source'"),
        ("audited", False, "column 'audited'"),
        ("correct", None, "column 'correct'"),
        ("request_id", "twice", "column 'request_id'"),
        ("confidence", 1.5, "column 'confidence'"),
    ],
)
def test_rows_that_a_proof_may_not_use_do_not_pass_the_gate(
    tmp_path: Path, column: str, value: object, expected: str
) -> None:
    freeze_month(tmp_path, 60)
    values = pq.read_table(tmp_path / DATA / f"{MONTH}.parquet")[column].to_pylist()
    spoil(tmp_path, column, [value, value, *values[2:]])
    with pytest.raises(ValidationFailed) as caught:
        validated(tmp_path)
    assert expected in str(caught.value)
    with pytest.raises(ReceiptMismatch, match="there is no receipt"):
        open_validated(tmp_path / DATA / f"{MONTH}.receipt.json")


def test_a_description_of_other_rows_or_of_another_form_is_refused(tmp_path: Path) -> None:
    frozen = freeze_month(tmp_path, 400)
    with pytest.raises(CalibrationError, match="400 frozen rows"):
        recalibrate(PROMISE, validated(tmp_path), frozen.model_copy(update={"labelled": 9}), tmp_path / "out")
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(CalibrationError, match="does not describe a frozen month"):
        Frozen.read(tmp_path / "x.json")
    with pytest.raises(CalibrationError, match="calibrate first"):
        Outcome.read(tmp_path)


def test_a_threshold_in_the_outcome_proves_itself(tmp_path: Path) -> None:
    frozen = freeze_month(tmp_path)
    recalibrate(PROMISE, validated(tmp_path), frozen, tmp_path / "out")
    path = tmp_path / "out/threshold.json"
    assert Threshold.read(path)
    path.write_text(path.read_text().replace('"errors": ', '"errors": 9'))
    with pytest.raises(CalibrationError, match="no valid threshold"):
        Outcome.read(tmp_path / "out")
