"""Exact upper bounds on an error rate, and how many answers a proof needs at least."""

from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, betaincinv

from dualmind.errors import CalibrationError


def check_levels(alpha: float, delta: float) -> None:
    """Refuse an error rate or a level that is no probability strictly between 0 and 1.

    Raises:
        CalibrationError: ``alpha`` or ``delta`` is not in (0, 1).
    """
    for name, value in (("alpha", alpha), ("delta", delta)):
        if not 0 < value < 1:
            raise CalibrationError(f"{name} = {value}: give a value above 0 and below 1")


def upper_bounds(errors: npt.ArrayLike, n: npt.ArrayLike, delta: float) -> npt.NDArray[np.float64]:
    """One-sided upper confidence bounds at level ``1 - delta`` (Clopper and Pearson 1934).

    Args:
        errors: wrong answers, 0..n, any shape.
        n: answers, >= 0, of a shape that goes with it; where it is 0 nothing is known and the bound is 1.
        delta: probability, in (0, 1), that the bound is below the true rate.

    Raises:
        CalibrationError: a number of errors is not in 0..n, or ``delta`` not in (0, 1).
    """
    check_levels(0.5, delta)
    wrong, total = np.broadcast_arrays(np.asarray(errors, np.float64), np.asarray(n, np.float64))
    if not ((wrong >= 0) & (wrong <= total)).all():
        raise CalibrationError("there are more errors than answers, or fewer than none: give 0..n errors")
    open_end = wrong == total  # all wrong, or no answers at all
    bounds = betaincinv(wrong + 1, np.where(open_end, 1, total - wrong), 1 - delta)
    return np.where(open_end, 1.0, bounds)


def upper_bound(errors: int, n: int, delta: float) -> float:
    """One bound; see :func:`upper_bounds`."""
    return float(upper_bounds(errors, n, delta))


@cache
def answers_needed(alpha: float, delta: float, errors: int = 0) -> int:
    """The least number of answers that prove an error rate <= ``alpha`` if ``errors`` of them are wrong.

    Without an error it is the least n with ``(1 - alpha)**n <= delta``: 45 for 0.05 and 0.1.

    Raises:
        CalibrationError: ``alpha`` or ``delta`` is not in (0, 1).
    """
    check_levels(alpha, delta)
    least, most = errors, max(1, 2 * errors)
    while bdtr(errors, most, alpha) > delta:  # the binomial's distribution function
        least, most = most, 2 * most
    while most - least > 1:  # the tail falls as n grows
        middle = (least + most) // 2
        least, most = (middle, most) if bdtr(errors, middle, alpha) > delta else (least, middle)
    return most
