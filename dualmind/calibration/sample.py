"""The labelled decisions that a proof may use, taken from traffic in one pass.

A bound on the error of accepted answers holds for a **uniform random sample** of them. So a proof uses only rows that
the server drew (``audited``) *and* whose label comes from that audit. Voluntary feedback is biased (who is wronged
complains) and a label that somebody added to a row which was not drawn is no random one either.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dualmind.errors import CalibrationError
from dualmind.traffic.schema import AuditSource

AUDIT_SOURCES: tuple[str, ...] = get_args(AuditSource)
COLUMNS = ("score", "audited", "correct", "label_source")  # what a proof reads


def proof_rows(table: pa.Table) -> pa.Table:
    """Rows that a proof may use: drawn by the server and labelled by an audit, never by feedback.

    Args:
        table: traffic; has at least ``audited``, ``correct`` and ``label_source``.

    Raises:
        CalibrationError: one of these columns is missing.
    """
    missing = sorted({"audited", "correct", "label_source"} - set(table.column_names))
    if missing:
        raise CalibrationError(f"traffic has no column {', '.join(missing)}; read it with dualmind.traffic.read")
    source = table["label_source"].cast(pa.string())
    by_audit = pc.is_in(source, value_set=pa.array(AUDIT_SOURCES, pa.string()))
    labelled = pc.and_(by_audit, pc.is_valid(table["correct"]))
    return table.filter(pc.and_(pc.fill_null(table["audited"], fill_value=False), labelled))


@dataclass(frozen=True, slots=True)
class Sample:
    """Labelled decisions, and where all decisions of the same time stand on the grid."""

    scores: npt.NDArray[np.float64]  # (n,) of the labelled decisions
    correct: npt.NDArray[np.bool_]  # (n,) was System 1's answer right?
    grid: npt.NDArray[np.float64]  # (G,) thresholds from strict to loose
    decisions: int  # all of them, labelled or not
    accepted: npt.NDArray[np.int64]  # (G,) decisions of a score >= grid
    unlabelled: int  # drawn for the audit, but without a label from it

    @classmethod
    def of(cls, scores: npt.ArrayLike, correct: npt.ArrayLike, grid: npt.ArrayLike) -> "Sample":
        """A sample in which every decision is labelled, as on held-out problems.

        Raises:
            CalibrationError: the two differ in length; a score is not finite; the grid as in :func:`check_grid`.
        """
        found, right, levels = np.asarray(scores, np.float64), np.asarray(correct), check_grid(grid)
        if found.ndim != 1 or found.shape != right.shape:
            raise CalibrationError(
                f"scores of shape {found.shape} against labels of shape {right.shape}: give one each"
            )
        if not ((right == 0) | (right == 1)).all():
            raise CalibrationError("a label is neither right (1) nor wrong (0): leave out what is not labelled")
        check_scores(found)
        return cls(found, right.astype(np.bool_), levels, len(found), counts_at(found, levels), 0)

    @classmethod
    def collect(cls, batches: Iterable[pa.RecordBatch], grid: npt.ArrayLike) -> "Sample":
        """The sample of a month of traffic, in one pass; memory grows with the labelled rows only.

        Args:
            batches: traffic with the columns COLUMNS.
            grid: thresholds, fixed before anybody looked at the labels.

        Raises:
            CalibrationError: a score is not finite; a column is missing; the grid as in :func:`check_grid`.
        """
        levels = check_grid(grid)
        decisions = unlabelled = 0
        accepted = np.zeros(len(levels), np.int64)
        scores, correct = [np.empty(0)], [np.empty(0, np.bool_)]
        for batch in batches:
            table = pa.Table.from_batches([batch])
            found = table["score"].to_numpy()
            check_scores(found, decisions)
            rows = proof_rows(table)
            decisions += len(table)
            accepted += counts_at(found, levels)
            unlabelled += (pc.sum(table["audited"]).as_py() or 0) - len(rows)
            scores.append(rows["score"].to_numpy())
            correct.append(rows["correct"].to_numpy().astype(np.bool_))
        return cls(np.concatenate(scores), np.concatenate(correct), levels, decisions, accepted, unlabelled)


def check_grid(grid: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The thresholds from strict (high) to loose (low).

    Raises:
        CalibrationError: there are none, or one is not finite or stands there twice.
    """
    levels = np.asarray(grid, np.float64)
    if levels.ndim != 1 or not levels.size or not np.isfinite(levels).all() or len(np.unique(levels)) != len(levels):
        raise CalibrationError(f"a grid of shape {levels.shape}: give at least one threshold, all finite and distinct")
    return np.sort(levels)[::-1]


def check_scores(scores: npt.NDArray[np.float64], offset: int = 0) -> None:
    """Refuse a score that is NaN or infinite, and name its row.

    Raises:
        CalibrationError: there is one.
    """
    bad = np.flatnonzero(~np.isfinite(scores))
    if bad.size:
        raise CalibrationError(
            f"the score of row {offset + bad[0]} is {scores[bad[0]]} ({bad.size} like it); "
            "a gate's scores are finite: find out what made it so before calibrating"
        )


def counts_at(scores: npt.NDArray[np.float64], levels: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """How many scores are >= each level; shape of ``levels``."""
    return len(scores) - np.searchsorted(np.sort(scores), levels, side="left").astype(np.int64)
