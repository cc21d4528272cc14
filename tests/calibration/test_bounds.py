import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from dualmind.calibration.bounds import answers_needed, upper_bound, upper_bounds
from dualmind.errors import CalibrationError


@settings(deadline=None)
@given(st.integers(1, 3000), st.floats(0, 1), st.floats(0.01, 0.5))
def test_bound_is_scipys_exact_one_sided_interval(n: int, share: float, delta: float) -> None:
    errors = round(n * share)
    exact = binomtest(errors, n, alternative="less").proportion_ci(1 - delta, method="exact").high
    assert upper_bound(errors, n, delta) == pytest.approx(exact, abs=1e-9)


def test_45_errorless_answers_prove_five_percent_at_ninety() -> None:
    assert answers_needed(0.05, 0.1) == 45
    assert upper_bound(0, 45, 0.1) <= 0.05 < upper_bound(0, 44, 0.1)


@settings(deadline=None)
@given(st.floats(0.002, 0.6), st.floats(0.01, 0.5))
def test_without_errors_the_closed_form_holds(alpha: float, delta: float) -> None:
    assert answers_needed(alpha, delta) == pytest.approx(math.ceil(math.log(delta) / math.log1p(-alpha)), abs=0.5)


@settings(deadline=None)
@given(st.floats(0.01, 0.5), st.floats(0.01, 0.5), st.integers(0, 20))
def test_needed_answers_pass_and_one_less_does_not(alpha: float, delta: float, errors: int) -> None:
    n = answers_needed(alpha, delta, errors)
    assert upper_bound(errors, n, delta) <= alpha + 1e-9
    assert n == 1 or upper_bound(min(errors, n - 1), n - 1, delta) > alpha - 1e-9


def test_nothing_known_and_all_wrong_give_the_bound_one() -> None:
    np.testing.assert_array_equal(upper_bounds([0, 7], [0, 7], 0.1), [1.0, 1.0])


@pytest.mark.parametrize(("errors", "n"), [(-1, 3), (4, 3), (math.nan, 3)])
def test_impossible_counts_are_an_error(errors: float, n: int) -> None:
    with pytest.raises(CalibrationError, match=r"give 0\.\.n errors"):
        upper_bounds([errors], [n], 0.1)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_levels_are_probabilities(bad: float) -> None:
    with pytest.raises(CalibrationError, match="above 0 and below 1"):
        answers_needed(bad, 0.1)
    with pytest.raises(CalibrationError, match="above 0 and below 1"):
        upper_bound(0, 10, bad)
