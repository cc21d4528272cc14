"""Has this month's traffic another distribution than last month's? Two-sample tests with one error level for all."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2_contingency, ks_2samp

from dualmind.calibration.bounds import check_levels
from dualmind.errors import CalibrationError

_EXACT_UP_TO = 1000  # values on either side; above it Kolmogorov's limit is as good and does not take minutes
_LEAST_EXPECTED = 5.0  # counts per cell for the chi-square limit (Cochran 1954)


@dataclass(frozen=True, slots=True)
class DriftTest:
    """One comparison."""

    name: str
    kind: Literal["ks", "chi2"]
    effect: float  # Kolmogorov-Smirnov distance or Cramér's V, 0..1
    p_value: float
    adjusted_p: float  # Holm's, over all comparisons of the report
    drifted: bool


@dataclass(frozen=True, slots=True)
class DriftReport:
    """All comparisons and the decision."""

    level: float  # probability that any comparison is called drifted although nothing changed
    min_effect: float  # smaller effects are no drift, however sure
    tests: tuple[DriftTest, ...]

    @property
    def drifted(self) -> bool:
        """Has any comparison drifted?"""
        return any(test.drifted for test in self.tests)


def compare_months(
    before: Mapping[str, npt.ArrayLike],
    now: Mapping[str, npt.ArrayLike],
    mixes_before: Mapping[str, Sequence[Hashable]],
    mixes_now: Mapping[str, Sequence[Hashable]],
    *,
    level: float,
    min_effect: float,
) -> DriftReport:
    """Compare scores and features by Kolmogorov-Smirnov, mixes (domain, hops) by chi-square, all by Holm (1979).

    Args:
        before: numbers by name, last month's.
        now: the same names, this month's.
        mixes_before: categories by name, last month's.
        mixes_now: the same names, this month's.
        level: family-wise error level, in (0, 1).
        min_effect: least effect that counts, 0..1: among millions of decisions every difference is significant.

    Raises:
        CalibrationError: names differ, there are none, a month has no values, a number is not finite or a level
            not valid.
    """
    check_levels(0.5, level)
    if not 0 <= min_effect <= 1:
        raise CalibrationError(f"min_effect = {min_effect}: give a value of 0..1")
    for ours, theirs in ((before, now), (mixes_before, mixes_now)):
        if ours.keys() != theirs.keys():
            raise CalibrationError(
                f"last month has {sorted(ours)}, this month {sorted(theirs)}: give both the same names"
            )
    found: list[tuple[str, Literal["ks", "chi2"], float, float]] = []
    found += [(name, "ks", *_ks(name, before[name], now[name])) for name in sorted(before)]
    found += [(name, "chi2", *_chi2(name, mixes_before[name], mixes_now[name])) for name in sorted(mixes_before)]
    if not found:
        raise CalibrationError("nothing to compare: give at least the scores of both months")
    adjusted = holm([p for *_, p in found])
    tests = tuple(
        DriftTest(name, kind, effect, p, fair, drifted=fair <= level and effect >= min_effect)
        for (name, kind, effect, p), fair in zip(found, adjusted, strict=True)
    )
    return DriftReport(level, min_effect, tests)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values (Holm 1979): the level at which the step-down procedure just rejects each."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    stepped = np.minimum(np.maximum.accumulate(np.asarray(p_values)[order] * factors), 1.0)
    adjusted = np.empty(len(p_values))
    adjusted[order] = stepped
    return [float(p) for p in adjusted]


def _ks(name: str, before: npt.ArrayLike, now: npt.ArrayLike) -> tuple[float, float]:
    """Distance and p-value."""
    first, second = np.asarray(before, np.float64).ravel(), np.asarray(now, np.float64).ravel()
    for month, values in (("last", first), ("this", second)):
        if not values.size or not np.isfinite(values).all():
            raise CalibrationError(
                f"{name} of {month} month has {values.size} values, {np.sum(~np.isfinite(values))} of them not finite: "
                "give finite values, at least one"
            )
    exact = max(first.size, second.size) <= _EXACT_UP_TO
    found = ks_2samp(first, second, method="exact" if exact else "asymp")
    return float(found.statistic), float(found.pvalue)


def _chi2(name: str, before: Sequence[Hashable], now: Sequence[Hashable]) -> tuple[float, float]:
    """Cramér's V and p-value; rare categories are one."""
    if not len(before) or not len(now):
        raise CalibrationError(f"{name} has no values in {'this' if len(before) else 'last'} month: give at least one")
    counts = [Counter(before), Counter(now)]
    names = sorted(counts[0] | counts[1], key=repr)
    table = np.array([[count[key] for key in names] for count in counts], np.float64)  # (2, categories)
    table = table[:, np.argsort(table.sum(axis=0), kind="stable")]  # rare ones first
    expected = table.sum(axis=0) * min(len(before), len(now)) / table.sum()
    num_rare = int(np.sum(expected < _LEAST_EXPECTED))
    if num_rare:  # merged with the next ones until they are enough together
        num_rare = max(num_rare, int(np.searchsorted(np.cumsum(expected), _LEAST_EXPECTED)) + 1)
    merged = np.column_stack([table[:, :num_rare].sum(axis=1), table[:, num_rare:]]) if num_rare else table
    if merged.shape[1] == 1:  # a single category in both months
        return 0.0, 1.0
    found = chi2_contingency(merged, correction=False)
    return float(np.sqrt(found.statistic / merged.sum())), float(found.pvalue)
