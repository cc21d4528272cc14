"""A threshold with a proof: the loosest whose answers are wrong in at most a share alpha, with confidence 1 - delta.

Fixed-sequence testing (Bauer 1991; "Learn then Test", Angelopoulos et al. 2021, section 4.2): walk a grid that was
fixed beforehand from strict to loose, test each threshold at the full level delta, stop at the first that fails. The
chance that the result's true error is above alpha is then at most delta, however long the grid is.

Where to start. The strictest thresholds accept few answers, and too few can never pass: a walk that starts there always
ends there. We start at the strictest threshold that accepts *enough* labelled answers: a count of scores, never of
labels. Why that is sound: let s be the start and j the first threshold from s on whose true error is above alpha; a
false proof needs j to pass. Given the number accepted at j, its errors are binomial. That we started at or after the
last bad threshold before j tells only that few of the accepted answers at j lie in that stricter part. If a stricter
threshold's true error is no higher than a looser one's (the gate ranks at all), fewer answers of the better part make
errors *likelier*, so j passes with probability <= delta still. Where even that is in doubt, pass ``pilot`` scores of
other decisions, e.g. those on which the gate was fitted: the start is then independent of the sample, and nothing need
be assumed.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dualmind.calibration.bounds import answers_needed, check_levels, upper_bound, upper_bounds
from dualmind.calibration.sample import Sample, check_scores, counts_at
from dualmind.errors import CalibrationError, NoValidThreshold, ThresholdMismatch
from dualmind.storage import write_json

# A start that one error spoils is a lottery, one that is too loose fails for good. Both numbers are choices by
# simulation (1,000 labels, four synthetic populations), and none is best everywhere: room for 5 errors instead of none
# raised the mean share of System 1 in all four, but where hardly any threshold is valid more walks ended at their first
# step (77 against 64 %). They weigh on how often a threshold is found, never on whether it holds.
_ERRORS_AT_START, _SHARE_AT_START = 5, 1 / 3
_BOUND_TOLERANCE = 1e-9  # between a bound that was written and one that another machine computes

Digest = Annotated[str, Field(pattern="^[0-9a-f]{32,128}$")]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Probability = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Proof:
    """What a walk found: ``errors`` of ``n`` labelled answers at or above ``value`` were wrong."""

    value: float
    n: int
    errors: int
    upper_bound: float
    system1_share: float  # of all decisions, labelled or not


class Threshold(BaseModel):
    """The contents of ``threshold.json``. System 1 answers where the gate's score is >= ``value``."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    value: float = Field(allow_inf_nan=False)  # in the unit of the gate's score
    alpha: Probability  # highest error rate of accepted answers
    delta: Probability  # probability that the proof is wrong
    n: int = Field(ge=1)  # labelled answers at or above value
    errors: int = Field(ge=0)  # wrong ones among them
    upper_bound: Share  # Clopper-Pearson's for errors of n, level 1 - delta
    system1_share: Share  # of all decisions that System 1 keeps
    weights_digest: Digest  # System 1's
    gate_digest: Digest
    calibration_digest: Digest  # of the labelled decisions
    previous_value: float | None = Field(allow_inf_nan=False)  # None: the first one

    @model_validator(mode="after")
    def _proves_itself(self) -> Self:
        if self.errors > self.n:
            raise ValueError(f"{self.errors} errors of {self.n} answers")
        bound = upper_bound(self.errors, self.n, self.delta)
        if abs(bound - self.upper_bound) > _BOUND_TOLERANCE or self.upper_bound > self.alpha:
            raise ValueError(
                f"upper_bound {self.upper_bound} does not prove alpha {self.alpha}: "
                f"{self.errors} errors of {self.n} give {bound}"
            )
        return self

    @classmethod
    def read(cls, path: Path) -> "Threshold":
        """Read a threshold and check its arithmetic again.

        Raises:
            CalibrationError: there is no file, it is no JSON, a field is wrong, or the bound is not that of its counts.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError as error:
            raise CalibrationError(f"{path} does not exist; calibrate first") from error
        except ValidationError as error:
            raise CalibrationError(f"{path} is no valid threshold ({error}); restore it or calibrate again") from error

    def write(self, path: Path) -> None:
        """Write it, atomically.

        Raises:
            StorageError: the file cannot be written; what was there is unchanged.
        """
        write_json(path, json.loads(self.model_dump_json()))

    def for_weights(self, weights_digest: str, gate_digest: str) -> Self:
        """This threshold, if it was proven for these weights and this gate.

        Raises:
            ThresholdMismatch: it was proven for others.
        """
        for name, own, given in (
            ("weights", self.weights_digest, weights_digest),
            ("gate", self.gate_digest, gate_digest),
        ):
            if own != given:
                raise ThresholdMismatch(
                    f"the threshold {self.value} was calibrated for the {name} {own}, not for {given}: "
                    "a proof holds only for what it was made with; calibrate again"
                )
        return self


def start_of(counts: npt.NDArray[np.int64], alpha: float, delta: float) -> int:
    """Where on the grid a walk starts (see the module's docstring); looks at counts, never at labels.

    It is the strictest threshold that could pass with 5 errors, or with fewer where a third of what the loosest
    threshold accepts is too little for so many.

    Args:
        counts: (G,) labelled answers accepted at each threshold, from strict to loose.
        alpha: highest error rate.
        delta: probability of a false proof.

    Returns:
        An index, or G where even the loosest threshold accepts too few.
    """
    needed = answers_needed(alpha, delta)
    for errors in range(_ERRORS_AT_START, 0, -1):
        more = answers_needed(alpha, delta, errors)
        if more <= counts[-1] * _SHARE_AT_START:
            needed = more
            break
    return int(np.searchsorted(counts, needed, side="left"))


def walk(sample: Sample, alpha: float, delta: float, *, pilot: npt.ArrayLike | None = None) -> Proof:
    """The loosest threshold of the grid that a fixed sequence of exact tests reaches.

    Args:
        sample: labelled decisions, drawn alike from all scores, and independent of what the gate was fitted on.
        alpha: highest error rate of accepted answers, in (0, 1).
        delta: probability of a false proof, in (0, 1).
        pilot: scores of other decisions, to choose the start by; None takes the sample's own.

    Raises:
        CalibrationError: ``alpha``, ``delta`` or a score is not valid.
        NoValidThreshold: none passes.
    """
    check_levels(alpha, delta)
    grid = sample.grid
    counts, errors = counts_at(sample.scores, grid), counts_at(sample.scores[~sample.correct], grid)
    start = _start(counts, grid, len(sample.scores), alpha, delta, pilot)
    bounds = upper_bounds(errors[start:], counts[start:], delta)
    failed = np.flatnonzero(bounds > alpha)
    passed = failed[0] if failed.size else len(bounds)
    if not passed:
        raise NoValidThreshold(
            f"no valid threshold at alpha = {alpha}, delta = {delta} with n = {len(sample.scores)}: "
            f"at least {answers_needed(alpha, delta)} accepted answers without an error are needed"
        )
    at = start + int(passed) - 1
    share = float(sample.accepted[at] / sample.decisions)
    return Proof(float(grid[at]), int(counts[at]), int(errors[at]), float(bounds[passed - 1]), share)


def _start(
    counts: npt.NDArray[np.int64],
    grid: npt.NDArray[np.float64],
    num_scores: int,
    alpha: float,
    delta: float,
    pilot: npt.ArrayLike | None,
) -> int:
    if pilot is None:
        return start_of(counts, alpha, delta)
    others = np.asarray(pilot, np.float64)
    check_scores(others)
    if not others.size:
        raise CalibrationError("the pilot has no scores; leave it out to start by the sample's own")
    expected = np.floor(counts_at(others, grid) * (num_scores / others.size)).astype(np.int64)
    return start_of(expected, alpha, delta)


def calibrate(
    sample: Sample,
    *,
    alpha: float,
    delta: float,
    weights_digest: str,
    gate_digest: str,
    calibration_digest: str,
    previous_value: float | None,
    pilot: npt.ArrayLike | None = None,
) -> Threshold:
    """Prove a threshold for these weights and this gate; arguments as in :func:`walk` and :class:`Threshold`.

    Raises:
        CalibrationError: an argument is not valid.
        NoValidThreshold: none passes; the one that serves stays.
    """
    proof = walk(sample, alpha, delta, pilot=pilot)
    try:
        return Threshold(
            value=proof.value,
            alpha=alpha,
            delta=delta,
            n=proof.n,
            errors=proof.errors,
            upper_bound=proof.upper_bound,
            system1_share=proof.system1_share,
            weights_digest=weights_digest,
            gate_digest=gate_digest,
            calibration_digest=calibration_digest,
            previous_value=previous_value,
        )
    except ValidationError as error:
        raise CalibrationError(f"the threshold {proof.value} cannot be recorded ({error}); give hex digests") from error
