"""A month of traffic as a proof reads it: the rows that the audit labelled, and where all others stand on the grid.

Traffic of other weights or of another gate says nothing about those that serve. A decision's column ``release`` names
what served it, so that such traffic is told apart, counted and left out. Which threshold served matters not: System 1
always answers first and the audit labels that answer, whoever's was given, so that a proof may also loosen. One thing a
month cannot tell: in a game, who answers decides which situations come next, so a much looser threshold meets others.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from scipy.stats import hypergeom

from dualmind.calibration.sample import Sample, check_grid, check_scores, counts_at, proof_rows
from dualmind.calibration.threshold import Digest
from dualmind.data.traffic import SCHEMA
from dualmind.errors import CalibrationError
from dualmind.storage import atomic_path, write_json

_LEAST_P = 1e-6  # of a fair draw as uneven: one month in a million is called unfair


class Frozen(BaseModel):
    """What stands beside the frozen rows: all that a proof needs to know of the decisions that were not labelled."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    period: str  # "2026-11", or "2026-11-until-15T0300" of a month that is not over
    release: str  # that serves
    labels: list[str]  # what the log calls decisions of its weights and gate
    weights_digest: Digest  # System 1's
    gate_digest: Digest
    previous_value: float = Field(allow_inf_nan=False)  # the threshold that served
    decisions: int = Field(ge=1)  # of these labels
    others: dict[str, int]  # decisions by other labels, which are left out
    drawn: int = Field(ge=0)  # for the audit, of all decisions
    labelled: int = Field(ge=0)  # by the audit; the rows of the frozen file
    judged: int = Field(ge=0)  # of those, the answer that was given was judged too
    judged_wrong: int = Field(ge=0)  # and was wrong
    grid: list[float]  # thresholds from strict to loose, fixed before anybody looked at a label
    accepted: list[int]  # decisions of a score at or above each threshold

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read it.

        Raises:
            CalibrationError: it is missing or of another form.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise CalibrationError(f"{path} does not describe a frozen month ({error}); freeze it again") from error

    def sample(self, scores: npt.ArrayLike, correct: npt.ArrayLike) -> Sample:
        """The sample that a proof is made from, of the frozen rows' scores and labels.

        Raises:
            CalibrationError: a score is not finite, or the numbers of rows differ.
        """
        found, right = np.asarray(scores, np.float64), np.asarray(correct, np.bool_)
        check_scores(found)
        if not len(found) == len(right) == self.labelled:
            raise CalibrationError(f"{len(found)} frozen rows of {self.period}, not {self.labelled}; freeze it again")
        grid, accepted = check_grid(self.grid), np.asarray(self.accepted, np.int64)
        return Sample(found, right, grid, self.decisions, accepted, self.drawn - self.labelled)


@dataclass(frozen=True, slots=True)
class Collected:
    """One pass over a month."""

    rows: pa.Table  # SCHEMA; drawn and labelled by the audit
    decisions: int
    others: dict[str, int]
    drawn: int
    by_system1: int  # decisions that it answered
    drawn_by_system1: int  # of those
    judged: int  # labelled, and the answer that was given was judged too
    judged_wrong: int
    accepted: npt.NDArray[np.int64]  # (G,)

    @property
    def is_uniform(self) -> bool:
        """Whether the audit drew from the decisions of both systems alike.

        A proof for looser thresholds needs System 1's answers below the one that served. Exact test of the number
        drawn among those that System 1 answered, given all that were drawn (Fisher 1935).
        """
        total, system1, drawn = self.decisions, self.by_system1, self.drawn
        fewer = hypergeom.cdf(self.drawn_by_system1, total, system1, drawn)
        more = hypergeom.sf(self.drawn_by_system1 - 1, total, system1, drawn)
        return bool(2 * min(fewer, more) >= _LEAST_P)


def collect(batches: Iterable[pa.RecordBatch], labels: Collection[str], grid: npt.ArrayLike) -> Collected:
    """Take what a proof needs from a month; memory grows with the labelled rows only.

    Args:
        batches: traffic with at least the columns of SCHEMA and ``answer_correct``.
        labels: what the log calls decisions of the weights and the gate that serve.
        grid: thresholds.

    Raises:
        CalibrationError: a score is not finite, or the grid as in :func:`dualmind.calibration.sample.check_grid`.
    """
    levels = check_grid(grid)
    others: Counter[str] = Counter()
    decisions = drawn = by_system1 = drawn_by_system1 = judged = wrong = 0
    accepted = np.zeros(len(levels), np.int64)
    kept = [SCHEMA.empty_table()]
    for batch in batches:
        table = pa.Table.from_batches([batch])
        found = pc.value_counts(table["release"].cast(pa.string())).to_pylist()
        others.update({one["values"]: one["counts"] for one in found if one["values"] not in labels})
        own = of_labels(table, labels)
        scores = own["score"].to_numpy()
        check_scores(scores, decisions)
        is_system1 = pc.equal(own["tier"].cast(pa.string()), "system1").to_numpy()
        audited = own["audited"].to_numpy()
        decisions, drawn = decisions + len(own), drawn + int(audited.sum())
        by_system1, drawn_by_system1 = (
            by_system1 + int(is_system1.sum()),
            drawn_by_system1 + int(audited[is_system1].sum()),
        )
        accepted += counts_at(scores, levels)
        rows = proof_rows(own)
        given = rows["answer_correct"].drop_null()
        judged, wrong = judged + len(given), wrong + len(given) - (pc.sum(given).as_py() or 0)
        kept.append(rows.select(SCHEMA.names).cast(SCHEMA))
    return Collected(
        rows=pa.concat_tables(kept),
        decisions=decisions,
        others=dict(sorted(others.items())),
        drawn=drawn,
        by_system1=by_system1,
        drawn_by_system1=drawn_by_system1,
        judged=judged,
        judged_wrong=wrong,
        accepted=accepted,
    )


def of_labels(table: pa.Table, labels: Collection[str]) -> pa.Table:
    """The decisions that the log calls so."""
    wanted = pa.array(sorted(labels), pa.string())
    return table.filter(pc.is_in(table["release"].cast(pa.string()), value_set=wanted))


def freeze(collected: Collected, frozen: Frozen, folder: Path) -> None:
    """Write ``<period>.parquet`` and ``<period>.json``, each atomically; the same month gives the same bytes.

    Raises:
        StorageError: the disk is full; what was there is unchanged.
    """
    with atomic_path(folder / f"{frozen.period}.parquet") as temporary:
        pq.write_table(collected.rows.combine_chunks(), temporary, compression="zstd")
    write_json(folder / f"{frozen.period}.json", frozen.model_dump(mode="json"))


def describe(collected: Collected, **known: Any) -> Frozen:
    """The description of a collected month; ``known`` are the fields that traffic does not tell."""
    return Frozen(
        decisions=collected.decisions,
        others=collected.others,
        drawn=collected.drawn,
        labelled=len(collected.rows),
        judged=collected.judged,
        judged_wrong=collected.judged_wrong,
        accepted=collected.accepted.tolist(),
        **known,
    )


def draw(
    batches: Iterable[pa.RecordBatch], labels: Collection[str], share: float, rng: np.random.Generator
) -> tuple[dict[str, npt.NDArray[np.float64]], list[str]]:
    """A random share of the decisions, to compare months by.

    Args:
        batches: with ``release``, ``score``, ``confidence`` and ``domain``.
        labels: what the log calls the decisions that count.
        share: of them, 0..1.
        rng: draws.

    Returns:
        Numbers by name, and the domains.
    """
    numbers: dict[str, list[npt.NDArray[np.float64]]] = {"score": [], "confidence": []}
    domains: list[str] = []
    for batch in batches:
        table = pa.Table.from_batches([batch])
        own = of_labels(table, labels)
        chosen = own.filter(pa.array(rng.random(len(own)) < share))
        for name, found in numbers.items():
            found.append(chosen[name].to_numpy())
        domains += chosen["domain"].cast(pa.string()).to_pylist()
    return {name: np.concatenate([np.empty(0), *found]) for name, found in numbers.items()}, domains
