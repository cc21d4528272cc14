"""Drift of a scorer's distribution: after each sync its scores are compared with those from before."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from dualmind.errors import DataError

_EXACT_UP_TO = 1000  # scores on either side; above it the limit is as good and does not take minutes
_MIN_SCORES = 8  # fewer cannot be told from any other distribution at the levels in use


@dataclass(frozen=True, slots=True)
class Drift:
    """How far scores are from the reference.

    Attributes:
        mean_shift: mean minus the reference's, in standard deviations of the reference (0 where that has none).
        variance_ratio: variance over the reference's; infinite where only the reference has none.
        ks: largest difference of the two distribution functions, 0..1 (Kolmogorov and Smirnov).
        p_value: of a difference as large between samples of one distribution.
        alarm: is ``p_value`` below the alarm level?
    """

    mean_shift: float
    variance_ratio: float
    ks: float
    p_value: float
    alarm: bool


class ScoreDrift:
    """Compares scores with a reference sample; scores of minus infinity, given to what is invalid, are left out."""

    def __init__(self, reference: Iterable[float], level: float) -> None:
        """Args are scores from before the sync, and the alarm level: the share of false alarms, in 0..1.

        Raises:
            DataError: there are too few scores, one is not a number, or the level is out of range.
        """
        if not 0 < level < 1:
            raise DataError(f"alarm level {level} is not between 0 and 1; 0.01 gives one false alarm in a hundred")
        self._reference, self._level = _finite("reference", reference), level

    def compare(self, scores: Iterable[float]) -> Drift:
        """Drift of ``scores``, which stay out of the reference.

        Raises:
            DataError: there are too few scores, or one is not a number.
        """
        now, then = _finite("scores", scores), self._reference
        test = ks_2samp(now, then, method="exact" if max(len(now), len(then)) <= _EXACT_UP_TO else "asymp")
        shift, spread = float(now.mean() - then.mean()), float(then.std())
        ratio = float(now.var() / then.var()) if spread else 1.0 if not now.var() else float("inf")
        p_value = float(test.pvalue)
        return Drift(shift / spread if spread else 0.0, ratio, float(test.statistic), p_value, p_value < self._level)


def _finite(name: str, scores: Iterable[float]) -> NDArray[np.float64]:
    values = np.fromiter(scores, dtype=np.float64)
    if np.isnan(values).any() or np.isposinf(values).any():
        raise DataError(
            f"{name}: a score is not a number or infinite; the scorer has diverged, go back to the last one"
        )
    values = values[np.isfinite(values)]
    if len(values) < _MIN_SCORES:
        raise DataError(f"{name}: {len(values)} finite scores, fewer than the {_MIN_SCORES} needed; gather more")
    return values
