"""Is the error of accepted answers still at most alpha? A test by betting that may be looked at after every label.

A gambler bets against "the next label is wrong with probability <= alpha, whatever came before". If that is true, the
wealth is a non-negative supermartingale that starts at 1, so by Ville's inequality it ever reaches 1/level with
probability <= level: looking at any time, and as often as one likes, costs nothing (Shafer 2021, "Testing by betting";
Waudby-Smith and Ramdas 2023, section 4). The bet is the likelihood ratio of a guessed error rate q to alpha,
``(q/alpha)**wrong * ((1-q)/(1-alpha))**right``, that is ``1 + lambda * (wrong - alpha)`` with a lambda >= 0.

Two gamblers share the first unit of money (an average of supermartingales is one). Both guess q by the past errors,
never below alpha: in quiet times they do not bet, so their wealth is there when a shift comes. One remembers all labels
and is the better one at small steady excesses; one forgets half of them in 100 labels, so that a shift after a long
quiet time is seen as soon as one at the start. Labels must be those of a random audit, as in
:mod:`dualmind.calibration.sample`.
"""

from collections.abc import Iterable
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dualmind.calibration.bounds import check_levels
from dualmind.errors import CalibrationError

_KEPT = np.array([0.5 ** (1 / 100), 1.0])  # (K,) share of its memory that a gambler keeps per label
_PRIOR_LABELS, _PRIOR_EXCESS = 20.0, 1.5  # before any label: as if 20 labels had shown 1.5 alpha

Floats = npt.NDArray[np.float64]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Probability = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


def _guess(wrong: Floats, labels: Floats, alpha: float) -> Floats:
    """Each gambler's guess of the error rate, in [alpha, (1 + alpha) / 2]; shapes broadcast to (..., K)."""
    share = (wrong + _PRIOR_LABELS * _PRIOR_EXCESS * alpha) / (labels + _PRIOR_LABELS)
    return np.clip(share, alpha, (1 + alpha) / 2)  # at 1 one right answer would cost everything


def _gain(guess: Floats, is_wrong: npt.NDArray[np.bool_], alpha: float) -> Floats:
    """What a label adds to the logarithm of the wealth."""
    return np.where(is_wrong, np.log(guess / alpha), np.log1p(-guess) - np.log1p(-alpha))


def _mean_log(log_wealths: Floats) -> Floats:
    """Logarithm of the gamblers' mean wealth; the last axis is theirs."""
    return np.asarray(np.logaddexp.reduce(log_wealths, axis=-1) - np.log(log_wealths.shape[-1]))


class Monitor(BaseModel):
    """State of the test; frozen, and JSON by pydantic's own methods. A new threshold starts with a new monitor."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    alpha: Probability  # error rate that is promised
    level: Probability  # probability of a false alarm, ever
    labels: int = Field(ge=0)  # seen
    errors: int = Field(ge=0)  # seen
    log_wealths: tuple[Finite, Finite]  # natural logarithm, one a gambler
    wrong: tuple[Finite, Finite]  # discounted number of errors, one a gambler
    weight: tuple[Finite, Finite]  # discounted number of labels, one a gambler
    alarm_at: int | None  # number of labels at the first alarm; it stays

    @classmethod
    def start(cls, alpha: float, level: float) -> "Monitor":
        """A monitor that has seen nothing.

        Raises:
            CalibrationError: ``alpha`` or ``level`` is not in (0, 1).
        """
        check_levels(alpha, level)
        nothing = (0.0, 0.0)
        return cls(
            alpha=alpha,
            level=level,
            labels=0,
            errors=0,
            log_wealths=nothing,
            wrong=nothing,
            weight=nothing,
            alarm_at=None,
        )

    @classmethod
    def from_json(cls, text: str) -> "Monitor":
        """The state that ``model_dump_json`` wrote.

        Raises:
            CalibrationError: it is not of that form.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise CalibrationError(f"the monitor's state cannot be read ({error}); start a new one") from error

    @property
    def log_wealth(self) -> float:
        """Natural logarithm of the wealth: the evidence against "error <= alpha"."""
        return float(_mean_log(np.array(self.log_wealths)))

    @property
    def alarm(self) -> bool:
        """Has the wealth ever reached 1/level?"""
        return self.alarm_at is not None

    def after(self, correct: Iterable[bool]) -> Self:
        """The state after more labels, in the order in which their decisions were taken.

        Raises:
            CalibrationError: a label is not a bool (a null is not a label).
        """
        logs, wrong, weight = np.array(self.log_wealths), np.array(self.wrong), np.array(self.weight)
        labels, errors, alarm_at = self.labels, self.errors, self.alarm_at
        for right in correct:
            if not isinstance(right, bool | np.bool_):
                raise CalibrationError(f"label {labels} is {right!r}: give True (right) or False (wrong)")
            is_wrong = np.asarray(not right)
            logs = logs + _gain(_guess(wrong, weight, self.alpha), is_wrong, self.alpha)
            wrong, weight = wrong * _KEPT + is_wrong, weight * _KEPT + 1
            labels, errors = labels + 1, errors + int(is_wrong)
            if alarm_at is None and _mean_log(logs) >= -np.log(self.level):
                alarm_at = labels
        changed = {
            "labels": labels,
            "errors": errors,
            "log_wealths": tuple(logs.tolist()),
            "wrong": tuple(wrong.tolist()),
            "weight": tuple(weight.tolist()),
            "alarm_at": alarm_at,
        }
        return self.model_copy(update=changed)


def log_wealth_paths(wrong: npt.NDArray[np.bool_], alpha: float) -> Floats:
    """The wealth of many monitors at once, after every label: for simulations.

    Args:
        wrong: (S, T), stream by label: was the answer wrong?
        alpha: error rate that is promised, in (0, 1).

    Returns:
        (S, T), natural logarithms. An alarm is where one is >= log(1 / level).
    """
    check_levels(alpha, 0.5)
    streams, labels = wrong.shape
    logs, errors = np.zeros((streams, len(_KEPT))), np.zeros((streams, len(_KEPT)))
    weight, paths = np.zeros(len(_KEPT)), np.empty((streams, labels))
    for t in range(labels):
        is_wrong = wrong[:, t, None]  # (S, 1)
        logs += _gain(_guess(errors, weight, alpha), is_wrong, alpha)  # (S, K)
        errors, weight = errors * _KEPT + is_wrong, weight * _KEPT + 1
        paths[:, t] = _mean_log(logs)
    return paths
