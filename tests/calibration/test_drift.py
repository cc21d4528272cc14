from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapie.risk_control import control_fwer
from scipy.stats import chi2_contingency, ks_2samp

from dualmind.calibration.drift import compare_months, holm
from dualmind.errors import CalibrationError

LEVEL = 0.05


def compare(before: Any, now: Any, mix_before: Any = (), mix_now: Any = (), min_effect: float = 0.0) -> Any:
    mixes = ({"domain": mix_before}, {"domain": mix_now}) if len(mix_before) or len(mix_now) else ({}, {})
    return compare_months({"score": before}, {"score": now}, *mixes, level=LEVEL, min_effect=min_effect)


@pytest.mark.parametrize("size", [300, 5000])
def test_statistics_are_scipys(size: int) -> None:
    rng = np.random.default_rng(0)
    before, now = rng.random(size), rng.random(size) ** 1.2
    mixes = ["a"] * 60 + ["b"] * 40, ["a"] * 30 + ["b"] * 70
    score, domain = compare(before, now, *mixes).tests
    assert score.p_value == pytest.approx(ks_2samp(before, now).pvalue, rel=0.02, abs=1e-3)
    assert domain.p_value == chi2_contingency([[60, 40], [30, 70]], correction=False).pvalue
    assert domain.effect == pytest.approx(0.3015, abs=1e-4)


def test_false_decisions_stay_at_the_family_wise_level_over_many_quiet_months() -> None:
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(400):
        before, now = ({name: rng.random(1100) for name in "ab"} for _ in range(2))
        mix_before, mix_now = ({"domain": rng.integers(0, 30, 400).tolist()} for _ in range(2))
        wrong += compare_months(before, now, mix_before, mix_now, level=LEVEL, min_effect=0.0).drifted
    assert wrong / 400 <= LEVEL + 0.02


def test_a_shifted_score_and_a_new_domain_are_seen() -> None:
    rng = np.random.default_rng(2)
    report = compare(rng.random(2000), rng.random(2000) ** 1.3, ["a"] * 500, ["a"] * 450 + ["b"] * 50)
    assert [test.drifted for test in report.tests] == [True, True]


def test_a_significant_but_tiny_difference_is_no_drift_under_a_least_effect() -> None:
    rng = np.random.default_rng(3)
    before, now = rng.random(100_000), rng.random(100_000) * 0.98
    assert compare(before, now).drifted
    assert not compare(before, now, min_effect=0.05).drifted


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 0.2))
def test_holm_rejects_what_another_implementation_rejects(p_values: list[float], level: float) -> None:
    theirs = set(control_fwer(np.array(p_values), level, "bonferroni_holm").tolist())
    ours = {i for i, p in enumerate(holm(p_values)) if p <= level}
    near = {i for i, p in enumerate(holm(p_values)) if abs(p - level) < 1e-9}  # rounding decides these
    assert ours - near == theirs - near


def test_equal_months_and_single_categories_are_quiet() -> None:
    report = compare(np.ones(50), np.ones(50), ["a"] * 50, ["a"] * 50)
    assert not report.drifted
    assert [test.p_value for test in report.tests] == [1.0, 1.0]


def test_rare_categories_are_one() -> None:
    many = [str(i) for i in range(200)]
    assert compare(np.ones(9), np.ones(9), many, [*many, "new"]).tests[1].p_value > 0.5


@pytest.mark.parametrize("bad", [[], [np.nan, 1.0], [np.inf]])
def test_bad_numbers_are_an_error_that_names_them(bad: Any) -> None:
    with pytest.raises(CalibrationError, match="score of this month"):
        compare([1.0], bad)
    with pytest.raises(CalibrationError, match="score of last month"):
        compare(bad, [1.0])


def test_a_month_without_traffic_is_an_error() -> None:
    with pytest.raises(CalibrationError, match="domain has no values in this month"):
        compare([1.0], [1.0], ["a"], [])


def test_what_is_compared_must_be_there_in_both_months() -> None:
    with pytest.raises(CalibrationError, match="same names"):
        compare_months({"score": [1.0]}, {}, {}, {}, level=LEVEL, min_effect=0.0)
    with pytest.raises(CalibrationError, match="nothing to compare"):
        compare_months({}, {}, {}, {}, level=LEVEL, min_effect=0.0)
    with pytest.raises(CalibrationError, match="min_effect"):
        compare([1.0], [1.0], min_effect=2.0)
