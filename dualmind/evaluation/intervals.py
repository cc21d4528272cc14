"""95 % intervals: Wilson's for shares, the percentile bootstrap for means and for differences of paired values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Z = 1.959963984540054  # standard normal quantile at 0.975
_PERCENTILES = (2.5, 97.5)
_CHUNK_VALUES = 1 << 22  # resampled values held at a time, 32 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


def wilson(successes: int, trials: int) -> Interval:
    """A share with Wilson's score interval (Wilson 1927, Eq. 4): sound also at 0 % and 100 %.

    Raises:
        ValueError: ``trials`` is below 1, or ``successes`` is not in 0..trials.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials: give at least 1 trial and 0..trials successes")
    share, weight = successes / trials, _Z**2 / trials
    centre = (share + weight / 2) / (1 + weight)
    half = _Z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    # at the ends the bound is exactly 0 or 1; rounding would leave it at 1e-17 or just below 1
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return Interval(share, low, high)


def bootstrap_mean(values: Sequence[float], rng: np.random.Generator, num_resamples: int = 10_000) -> Interval:
    """A mean with its percentile bootstrap interval (Efron and Tibshirani 1993, section 13.3).

    Args:
        values: one a unit (game, seed); units are resampled with replacement.
        rng: source of the resamples.
        num_resamples: >= 1; 10,000 put the bounds within about 1 % of the interval's width.

    Raises:
        ValueError: there are no values, or one is not finite.
    """
    sample = np.asarray(values, dtype=np.float64)  # (units,)
    if not sample.size or not np.isfinite(sample).all():
        raise ValueError(f"{sample.size} values, {np.sum(~np.isfinite(sample))} of them not finite: give finite values")
    rows = max(1, _CHUNK_VALUES // sample.size)
    means: list[npt.NDArray[np.float64]] = []
    for start in range(0, num_resamples, rows):
        chosen = rng.integers(sample.size, size=(min(rows, num_resamples - start), sample.size))
        means.append(sample[chosen].mean(axis=1))
    low, high = np.percentile(np.concatenate(means), _PERCENTILES)
    return Interval(float(sample.mean()), float(low), float(high))


def paired_bootstrap(
    ours: Sequence[float], theirs: Sequence[float], rng: np.random.Generator, num_resamples: int = 10_000
) -> Interval:
    """Mean of ``ours - theirs`` over the same units, with its interval: pairs are resampled together.

    Raises:
        ValueError: the two differ in length, or as in :func:`bootstrap_mean`.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} values against {len(theirs)}: pairs need one of each for every unit")
    return bootstrap_mean([a - b for a, b in zip(ours, theirs, strict=True)], rng, num_resamples)
