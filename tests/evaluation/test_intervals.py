import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dualmind.evaluation.intervals import bootstrap_mean, paired_bootstrap, wilson


@given(st.integers(1, 2000).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_wilson_is_scipy_s(counts: tuple[int, int]) -> None:
    found = wilson(*counts)
    reference = stats.binomtest(*counts).proportion_ci(confidence_level=0.95, method="wilson")
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), abs=1e-12)
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_wilson_is_exact_at_the_ends() -> None:
    assert wilson(0, 134).low == 0
    assert wilson(134, 134).high == 1


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_counts_that_cannot_be(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match=f"{successes} successes in {trials} trials"):
        wilson(successes, trials)


def test_the_bootstrap_of_a_mean_agrees_with_scipy_s() -> None:
    values = np.random.default_rng(1).gamma(2.0, 5.0, size=150)
    found = bootstrap_mean(list(values), np.random.default_rng(2), num_resamples=20_000)
    reference = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    width = reference.high - reference.low
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), abs=0.04 * width)


def test_the_paired_bootstrap_agrees_with_scipy_s_and_is_narrower_than_an_unpaired_one() -> None:
    rng = np.random.default_rng(4)
    shared = rng.normal(size=120)
    ours, theirs = shared + 0.1 * rng.normal(size=120) + 0.2, shared + 0.1 * rng.normal(size=120)
    found = paired_bootstrap(list(ours), list(theirs), np.random.default_rng(5))
    reference = stats.bootstrap(
        (ours, theirs),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(6),
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), abs=0.005)
    alone = bootstrap_mean(list(ours), np.random.default_rng(7))
    assert found.high - found.low < 0.5 * (alone.high - alone.low)


def test_the_bootstrap_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(8)
    intervals = [bootstrap_mean(list(rng.normal(3.0, 2.0, size=40)), rng, num_resamples=500) for _ in range(400)]
    assert 0.90 <= np.mean([interval.low <= 3.0 <= interval.high for interval in intervals]) <= 0.98


def test_the_same_generator_gives_the_same_interval_whatever_the_global_state() -> None:
    values = [1.0, 2.0, 5.0, 9.0]
    first = bootstrap_mean(values, np.random.default_rng(9))
    np.random.seed(0)  # noqa: NPY002
    assert bootstrap_mean(values, np.random.default_rng(9)) == first


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")]])
def test_the_bootstrap_refuses_what_has_no_mean(values: list[float]) -> None:
    with pytest.raises(ValueError, match="give finite values"):
        bootstrap_mean(values, np.random.default_rng(0))


def test_pairs_of_unequal_number_are_refused() -> None:
    with pytest.raises(ValueError, match="2 values against 1"):
        paired_bootstrap([1.0, 2.0], [1.0], np.random.default_rng(0))
