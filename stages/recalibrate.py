"""A threshold from a month of labelled traffic, with its proof; or none, and why.

It stands in ``calibration/dvc.yaml`` and reads what ``flows/calibration.py`` froze, so that ``dvc repro`` of the main
pipeline needs no traffic.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from dualmind.calibration.bounds import upper_bounds
from dualmind.calibration.month import Frozen
from dualmind.calibration.sample import Sample, counts_at
from dualmind.calibration.threshold import Threshold, calibrate
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.errors import CalibrationError, NoValidThreshold
from dualmind.storage import atomic_folder, write_json
from stages.params import load_params

DATA, OUT = Path("calibration/data"), Path("artifacts/recalibrate")


class RecalibrateParams(BaseModel):
    """What a threshold promises."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    alpha: float = Field(gt=0, lt=1)  # highest error rate of accepted answers
    delta: float = Field(gt=0, lt=1)  # probability that a proof is wrong


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the calibration found."""

    threshold: Threshold | None  # None: no threshold is valid
    reason: str  # why there is none, or ""

    @classmethod
    def read(cls, folder: Path) -> "Outcome":
        """What the stage wrote.

        Raises:
            CalibrationError: neither a threshold nor a refusal is there, or it is damaged.
        """
        refused = folder / "refused.json"
        if not refused.exists():
            return cls(Threshold.read(folder / "threshold.json"), "")
        try:
            return cls(None, str(json.loads(refused.read_bytes())["reason"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CalibrationError(f"{refused} cannot be read ({error}); calibrate again") from error


def recalibrate(params: RecalibrateParams, labelled: ValidatedDataset, month: Frozen, out: Path) -> Outcome:
    """Prove a threshold on a frozen month.

    ``out`` gets ``risk_curve.json`` and either ``threshold.json`` or, where none is valid, ``refused.json`` with the
    reason: there is no threshold that a careless reader could take.

    Args:
        params: what is to be proven.
        labelled: the month's labelled decisions.
        month: what is known of all others, and what served.
        out: the folder.

    Raises:
        ReceiptMismatch: the rows changed since they were validated.
        CalibrationError: a score is not finite, or the rows are not those that ``month`` describes.
        StorageError: the disk is full.
    """
    labelled.check()
    table = pq.read_table(labelled.path, columns=["score", "correct", "release"])
    if others := sorted(set(table["release"].to_pylist()) - set(month.labels)):
        own = ", ".join(month.labels)
        raise CalibrationError(f"{labelled.path} holds decisions of {', '.join(others)}, not of {own}; freeze it again")
    sample = month.sample(table["score"].to_numpy(), table["correct"].to_numpy())
    outcome = _prove(params, sample, month, labelled.md5)
    with atomic_folder(out) as folder:
        write_json(folder / "risk_curve.json", risk_curve(params, sample, month))
        if outcome.threshold is None:
            write_json(folder / "refused.json", {"reason": outcome.reason})
        else:
            outcome.threshold.write(folder / "threshold.json")
    return outcome


def _prove(params: RecalibrateParams, sample: Sample, month: Frozen, digest: str) -> Outcome:
    try:
        threshold = calibrate(
            sample,
            alpha=params.alpha,
            delta=params.delta,
            weights_digest=month.weights_digest,
            gate_digest=month.gate_digest,
            calibration_digest=digest,
            previous_value=month.previous_value,
        )
    except NoValidThreshold as error:
        return Outcome(None, str(error))
    return Outcome(threshold, "")


def risk_curve(params: RecalibrateParams, sample: Sample, month: Frozen) -> dict[str, object]:
    """What is known at each threshold of the grid, from strict to loose."""
    grid = sample.grid
    counts, errors = counts_at(sample.scores, grid), counts_at(sample.scores[~sample.correct], grid)
    bounds, shares = upper_bounds(errors, counts, params.delta), sample.accepted / sample.decisions
    points = [
        {"threshold": float(t), "n": int(n), "errors": int(e), "upper_bound": float(b), "share": float(s)}
        for t, n, e, b, s in zip(grid, counts, errors, bounds, shares, strict=True)
    ]
    return {"alpha": params.alpha, "delta": params.delta, "period": month.period, "points": points}


def main(period: str) -> None:
    """Run the stage in the project's folder."""
    params = load_params(RecalibrateParams, "recalibrate")
    labelled = open_validated(DATA / f"{period}.receipt.json")
    outcome = recalibrate(params, labelled, Frozen.read(DATA / f"{period}.json"), OUT / period)
    found = outcome.threshold
    print(outcome.reason if found is None else f"threshold {found.value}, bound {found.upper_bound:.4f}, n {found.n}")


if __name__ == "__main__":
    main(sys.argv[1])
