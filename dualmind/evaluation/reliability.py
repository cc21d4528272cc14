"""How far stated probabilities can be believed."""

import numpy as np
from numpy.typing import NDArray

_BINS = 15


def reliability(
    probabilities: NDArray[np.float64], right: NDArray[np.bool_], bins: int = _BINS
) -> list[dict[str, float]]:
    """Mean probability and share of right answers in bins of equal width (DeGroot & Fienberg 1983), none empty.

    Args:
        probabilities: stated, of N answers, 0..1.
        right: were they right (N,)?
        bins: number of bins.
    """
    index = np.minimum((probabilities * bins).astype(int), bins - 1)
    rows = []
    for own in range(bins):
        inside = index == own
        if inside.any():
            rows.append(
                {
                    "stated": float(probabilities[inside].mean()),
                    "right": float(right[inside].mean()),
                    "number": float(inside.sum()),
                }
            )
    return rows


def expected_calibration_error(
    probabilities: NDArray[np.float64], right: NDArray[np.bool_], bins: int = _BINS
) -> float:
    """Mean distance of the two over all answers (Guo et al. 2017, Eq. 3)."""
    rows = reliability(probabilities, right, bins)
    return sum(row["number"] * abs(row["stated"] - row["right"]) for row in rows) / len(right)
