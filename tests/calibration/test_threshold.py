import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapie.risk_control import BinaryClassificationController, precision
from scipy.stats import binomtest

from dualmind.calibration.sample import Sample
from dualmind.calibration.threshold import Proof, Threshold, calibrate, start_of, walk
from dualmind.errors import CalibrationError, NoValidThreshold, ThresholdMismatch

ALPHA, DELTA = 0.05, 0.1
GRID = np.linspace(0, 0.99, 100)
WEIGHTS, GATE, DATA = "a" * 32, "b" * 32, "c" * 64


def draw(rng: np.random.Generator, n: int, steep: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Scores uniform in 0..1; the error rate at a score s is 0.4 * (1 - s)**steep."""
    scores = rng.random(n)
    return scores, rng.random(n) >= 0.4 * (1 - scores) ** steep


def prove(scores: Any, correct: Any, grid: Any = GRID, **more: Any) -> Proof:
    return walk(Sample.of(scores, correct, grid), ALPHA, DELTA, **more)


def by_hand(scores: np.ndarray, correct: np.ndarray, start: float) -> float | None:
    """The same walk with a loop and scipy's test, from a given start."""
    best = None
    for level in sorted((g for g in GRID if g <= start), reverse=True):
        taken = correct[scores >= level]
        wrong = int((~taken).sum())
        if not len(taken) or binomtest(wrong, len(taken), ALPHA, alternative="less").pvalue > DELTA:
            break
        best = level
    return best


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(200, 3000), st.floats(0.5, 4))
def test_walk_is_the_fixed_sequence_of_exact_binomial_tests(seed: int, n: int, steep: float) -> None:
    scores, correct = draw(np.random.default_rng(seed), n, steep)
    sample = Sample.of(scores, correct, GRID)
    counts = np.array([(scores >= level).sum() for level in sample.grid])
    start = sample.grid[start_of(counts, ALPHA, DELTA)]
    expected = by_hand(scores, correct, start)
    try:
        found: float | None = prove(scores, correct).value
    except NoValidThreshold:
        found = None
    assert found == expected


@pytest.mark.filterwarnings("ignore:Fixed sequence testing requires")  # it does not: our walk stops at a failure
@pytest.mark.parametrize("seed", range(5))
def test_mapie_finds_the_same_threshold_or_a_stricter_one_nearby(seed: int) -> None:
    """MAPIE tests by Hoeffding-Bentkus, which is a little weaker than the exact test and never stronger."""
    scores, correct = draw(np.random.default_rng(seed), 2000)
    ours = prove(scores, correct)
    sample = Sample.of(scores, correct, GRID)
    start = start_of(np.array([(scores >= level).sum() for level in sample.grid]), ALPHA, DELTA)
    controller = BinaryClassificationController(
        lambda X: np.column_stack([1 - X[:, 0], X[:, 0]]),
        precision,
        target_level=1 - ALPHA,
        confidence_level=1 - DELTA,
        list_predict_params=sample.grid[start:],
        fwer_method="fixed_sequence",
    )
    controller.calibrate(scores[:, None], correct.astype(int))
    theirs = float(min(controller.valid_predict_params))
    assert ours.value <= theirs <= ours.value + 0.05


def test_true_error_exceeds_alpha_in_no_more_than_delta_of_500_samples() -> None:
    rng = np.random.default_rng(1)
    above = 0
    for _ in range(500):
        scores, correct = draw(rng, 600)
        try:
            value = prove(scores, correct).value
        except NoValidThreshold:
            continue
        above += 0.4 * (1 - value) ** 2 / 3 > ALPHA  # mean of 0.4 (1 - s)^2 over value..1
    assert above / 500 <= DELTA


def test_a_start_by_other_decisions_is_valid_even_where_strict_answers_are_the_bad_ones() -> None:
    """The gate ranks wrongly at the top: what the module's docstring says of ``pilot``."""
    rng, above = np.random.default_rng(2), 0
    for _ in range(500):
        scores = rng.random(400)
        correct = rng.random(400) >= np.where(scores > 0.9, 0.3, 0.035)
        try:
            value = prove(scores, correct, pilot=rng.random(4000)).value
        except NoValidThreshold:
            continue
        top = max(value, 0.9)
        above += ((1 - top) * 0.3 + (top - value) * 0.035) / (1 - value) > ALPHA
    assert above / 500 <= DELTA


def test_too_few_labels_say_how_many_are_needed() -> None:
    text = (
        "no valid threshold at alpha = 0.05, delta = 0.1 with n = 40: "
        "at least 45 accepted answers without an error are needed"
    )
    with pytest.raises(NoValidThreshold) as caught:
        prove(np.ones(40), np.ones(40, bool))
    assert str(caught.value) == text


def test_45_right_answers_of_the_same_score_pass_and_say_so() -> None:
    found = prove(np.full(45, 0.5), np.ones(45, bool))
    assert (found.value, found.n, found.errors, found.system1_share) == (0.0, 45, 0, 1.0)


@pytest.mark.parametrize(
    ("scores", "correct"),
    [
        (np.full(500, 0.5), np.zeros(500, bool)),  # one class only, the wrong one
        (np.linspace(0, 1, 500), np.zeros(500, bool)),
        (np.full(500, 0.5), np.arange(500) % 2 == 0),  # all scores equal, half of them wrong
        (np.full(500, -1.0), np.ones(500, bool)),  # nothing reaches the grid
        ([0.1, 0.5, 0.9], [True, True, True]),
        ([], []),
    ],
)
def test_no_threshold_is_better_than_an_unproven_one(scores: Any, correct: Any) -> None:
    with pytest.raises(NoValidThreshold, match="at least 45"):
        prove(scores, correct)


def test_only_right_answers_take_the_loosest_threshold() -> None:
    assert prove(np.linspace(0, 1, 500), np.ones(500, bool)).value == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_named_with_its_row(bad: float) -> None:
    scores = np.ones(100)
    scores[[7, 9]] = bad
    with pytest.raises(CalibrationError, match=r"row 7 is .*2 like it"):
        prove(scores, np.ones(100, bool))
    with pytest.raises(CalibrationError, match="row 7"):
        prove(np.ones(100), np.ones(100, bool), pilot=scores)


@pytest.mark.parametrize("grid", [[], [0.5, 0.5], [0.5, np.nan], [[0.1, 0.2]]])
def test_a_grid_is_finite_and_distinct(grid: Any) -> None:
    with pytest.raises(CalibrationError, match="finite and distinct"):
        prove([1.0], [True], grid)


def test_labels_are_one_a_score_and_right_or_wrong() -> None:
    with pytest.raises(CalibrationError, match="one each"):
        prove([1.0, 1.0], [True])
    with pytest.raises(CalibrationError, match="neither right"):
        prove([1.0, 1.0], [1.0, np.nan])


def test_an_empty_pilot_is_an_error() -> None:
    with pytest.raises(CalibrationError, match="pilot"):
        prove(np.ones(100), np.ones(100, bool), pilot=[])


def threshold(**changes: Any) -> Threshold:
    scores, correct = draw(np.random.default_rng(0), 2000)
    arguments = {
        "alpha": ALPHA,
        "delta": DELTA,
        "weights_digest": WEIGHTS,
        "gate_digest": GATE,
        "calibration_digest": DATA,
        "previous_value": 0.7,
    }
    return calibrate(Sample.of(scores, correct, GRID), **{**arguments, **changes})


def test_threshold_has_exactly_the_fields_of_the_design_and_comes_back_from_its_file(tmp_path: Path) -> None:
    written = threshold()
    written.write(tmp_path / "threshold.json")
    assert Threshold.read(tmp_path / "threshold.json") == written
    assert set(json.loads((tmp_path / "threshold.json").read_text())) == {
        *("value", "alpha", "delta", "n", "errors", "upper_bound", "system1_share"),
        *("weights_digest", "gate_digest", "calibration_digest", "previous_value"),
    }


def test_threshold_refuses_other_weights_and_another_gate() -> None:
    own = threshold()
    assert own.for_weights(WEIGHTS, GATE) is own
    with pytest.raises(ThresholdMismatch, match="weights"):
        own.for_weights("d" * 32, GATE)
    with pytest.raises(ThresholdMismatch, match="gate"):
        own.for_weights(WEIGHTS, "d" * 32)


@pytest.mark.parametrize(
    "change",
    [
        {"errors": 0},  # of which upper_bound would be another one
        {"upper_bound": 0.01},
        {"alpha": 0.01},
        {"n": 0},
        {"errors": -1},
        {"value": None},
        {"weights_digest": ""},
        {"extra": 1},
        {"system1_share": 1.5},
    ],
)
def test_a_threshold_file_that_was_tampered_with_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "threshold.json"
    threshold().write(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CalibrationError, match=r"threshold.json is no valid threshold"):
        Threshold.read(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"value": NaN}'])
def test_a_file_that_is_no_threshold_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(CalibrationError, match="no valid threshold"):
        Threshold.read(tmp_path / "t.json")
    with pytest.raises(CalibrationError, match="does not exist"):
        Threshold.read(tmp_path / "other.json")


def test_a_digest_that_is_none_is_refused() -> None:
    with pytest.raises(CalibrationError, match="hex digests"):
        threshold(weights_digest="")
