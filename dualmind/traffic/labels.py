"""Which label counts: events are kept as they came, and each decision has the first one of an audit."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dualmind.traffic.jsonl import read_lines
from dualmind.traffic.layout import LABELS, whole_bytes
from dualmind.traffic.schema import LABEL_COLUMNS, LABEL_SCHEMA, Label


@dataclass(frozen=True, slots=True)
class Ids:
    """How many ids something is true of, and some of them."""

    count: int
    examples: tuple[str, ...]

    @classmethod
    def of(cls, ids: pa.Array) -> "Ids":
        """The first ten as examples."""
        return cls(len(ids), tuple(ids.slice(0, 10).to_pylist()))


@dataclass(frozen=True, slots=True)
class Labels:
    """The label that counts of each id.

    It is the first audit label; without one the first feedback. Later ones change nothing: else the outcome of an audit
    could be undone by whoever speaks last.
    """

    ids: pa.Array  # (n,) strings, distinct
    correct: pa.Array  # (n,) bools
    answer_correct: pa.Array  # (n,) bools, null where the given answer was not judged
    sources: pa.Array  # (n,) strings
    repeated: Ids  # more than one label, all of the same verdict
    contradictory: Ids  # labels of both verdicts
    num_bytes: int  # of the file that were read

    def join(self, table: pa.Table) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """Add LABEL_COLUMNS to rows by ``request_id``; also which labels were found, as indices."""
        at = pc.index_in(table["request_id"], value_set=self.ids)
        for name, values in zip(LABEL_COLUMNS, (self.correct, self.answer_correct, self.sources), strict=True):
            table = table.append_column(name, values.take(at) if len(self.ids) else pa.nulls(len(table), values.type))
        return table, at.drop_null().to_numpy().astype(np.int64)


def read_labels(folder: Path) -> Labels:
    """The labels of a month; none where nothing was labelled.

    Raises:
        TrafficError: a line is damaged.
    """
    path = folder / LABELS
    tables, num_bytes = [LABEL_SCHEMA.empty_table()], 0
    if path.exists():
        with path.open("rb") as file:
            num_bytes = whole_bytes(file.fileno())  # a last line without an end is being written, or will be healed
            tables += read_lines(file, str(path), LABEL_SCHEMA, Label, num_bytes)
    events = pa.concat_tables(tables).select(["request_id", "correct", "answer_correct", "source"]).to_pandas()
    verdicts = events.groupby("request_id", sort=False)["correct"].agg(["size", "nunique"])
    events["is_feedback"] = events["source"] == "feedback"
    first = events.sort_values("is_feedback", kind="stable").drop_duplicates("request_id")  # events are in order
    return Labels(
        ids=_strings(first["request_id"]),
        correct=pa.array(first["correct"].to_numpy(np.bool_)),
        answer_correct=pa.array(first["answer_correct"].to_numpy(object), pa.bool_()),
        sources=_strings(first["source"]),
        repeated=Ids.of(_strings(verdicts.index[(verdicts["size"] > 1) & (verdicts["nunique"] == 1)])),
        contradictory=Ids.of(_strings(verdicts.index[verdicts["nunique"] > 1])),
        num_bytes=num_bytes,
    )


def _strings(values: "pd.Series[str] | pd.Index[str]") -> pa.Array:
    return pa.array(values.to_numpy(object), pa.string())
