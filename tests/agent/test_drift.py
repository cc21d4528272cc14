import numpy as np
import pytest
from scipy import stats

from dualmind.agent.drift import ScoreDrift
from dualmind.errors import DataError


def test_moments_and_the_kolmogorov_smirnov_test_are_right() -> None:
    rng = np.random.default_rng(0)
    then, now = rng.normal(1.0, 2.0, 300), rng.normal(1.5, 3.0, 200)
    drift = ScoreDrift(then, 0.01).compare(now)
    assert drift.mean_shift == pytest.approx((now.mean() - then.mean()) / then.std())
    assert drift.variance_ratio == pytest.approx(now.var() / then.var())
    both = np.sort(np.concatenate((then, now)))
    steps = [np.searchsorted(np.sort(x), both, side="right") / len(x) for x in (then, now)]
    assert drift.ks == pytest.approx(np.abs(steps[0] - steps[1]).max())
    assert drift.p_value == pytest.approx(stats.kstwo.sf(drift.ks, round(300 * 200 / 500)), rel=0.3)


def test_the_share_of_false_alarms_is_the_level_at_most() -> None:
    rng = np.random.default_rng(1)
    alarms = [ScoreDrift(rng.normal(size=60), 0.05).compare(rng.normal(size=60)).alarm for _ in range(400)]
    assert stats.binomtest(sum(alarms), 400, 0.05, alternative="greater").pvalue > 0.01


def test_a_shift_of_a_standard_deviation_raises_the_alarm() -> None:
    rng = np.random.default_rng(2)
    drift = ScoreDrift(rng.normal(size=200), 0.01)
    assert drift.compare(rng.normal(1.0, 1.0, 200)).alarm
    assert not drift.compare(rng.normal(size=200)).alarm


def test_scores_of_what_was_ruled_out_are_left_out() -> None:
    scores = np.linspace(0, 1, 20)
    drift = ScoreDrift([*scores, -np.inf], 0.01).compare([-np.inf, *scores, -np.inf])
    assert (drift.mean_shift, drift.variance_ratio, drift.ks, drift.alarm) == (0.0, 1.0, 0.0, False)


def test_constant_scores_have_a_ratio_of_variances() -> None:
    constant = ScoreDrift([1.0] * 10, 0.01)
    assert constant.compare([1.0] * 10).variance_ratio == 1.0
    assert constant.compare(np.linspace(0, 1, 10)).variance_ratio == float("inf")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_scorer_that_diverged_is_an_error(bad: float) -> None:
    with pytest.raises(DataError, match="diverged"):
        ScoreDrift([0.0] * 10, 0.01).compare([0.0] * 10 + [bad])


def test_too_few_scores_are_an_error() -> None:
    with pytest.raises(DataError, match="7 finite scores, fewer than the 8 needed"):
        ScoreDrift([0.0] * 7, 0.01)


@pytest.mark.parametrize("level", [0.0, 1.0, float("nan")])
def test_a_level_out_of_range_is_an_error(level: float) -> None:
    with pytest.raises(DataError, match="not between 0 and 1"):
        ScoreDrift([0.0] * 10, level)
