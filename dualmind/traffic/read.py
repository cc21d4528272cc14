"""A month of traffic for readers: the Parquet file, then what came since, each decision once and with its label."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dualmind.errors import TrafficError
from dualmind.traffic.labels import read_labels
from dualmind.traffic.layout import month_folder
from dualmind.traffic.parts import BATCH_ROWS, hash_ids, open_parts, repeated_positions
from dualmind.traffic.schema import DICTIONARY_COLUMNS, LABEL_COLUMNS, SCHEMA

READ_SCHEMA = pa.schema(
    [
        field.with_type(pa.dictionary(pa.int32(), pa.string())) if field.name in DICTIONARY_COLUMNS else field
        for field in SCHEMA
    ]
)


class MonthReader:
    """An open month: a snapshot, whatever is logged or compacted meanwhile. Use it in a ``with`` block."""

    def __init__(self, root: Path, month: str) -> None:
        """Open the files.

        Raises:
            TrafficError: the month has no traffic, or a file is damaged or missing.
        """
        folder = month_folder(root, month)
        with ExitStack() as files:
            self._parts = open_parts(folder, files)
            self._labels = read_labels(folder)
            self._files = files.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def batches(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """All decisions, sorted by time as far as they were compacted; memory is that of a few batches.

        Args:
            columns: of SCHEMA, in the order that is wanted; None: all.

        Returns:
            Batches of READ_SCHEMA's types.

        Raises:
            TrafficError: a column is unknown; while reading: a file is damaged.
        """
        names = SCHEMA.names if columns is None else list(columns)
        unknown = sorted(set(names) - set(SCHEMA.names))
        if unknown:
            raise TrafficError(f"traffic has no column {', '.join(unknown)}; it has {', '.join(SCHEMA.names)}")
        schema = pa.schema([READ_SCHEMA.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(schema, self._generate(names, schema))

    def _generate(self, names: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        yield from self._compacted(names, schema)
        repeats, at = self._repeats(), self._parts.covers.rows
        for part in self._parts.segments:
            for table in part.tables():
                keep = ~np.isin(np.arange(at, at + len(table)), repeats)
                at += len(table)
                joined, _ = self._labels.join(table.filter(pa.array(keep)))
                yield from joined.select(names).cast(schema).to_batches(max_chunksize=BATCH_ROWS)

    def _compacted(self, names: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if self._parts.covers.label_bytes == self._labels.num_bytes or not set(names) & set(LABEL_COLUMNS):
            for batch in self._parts.compacted(names):
                yield batch.cast(schema)
            return
        own = list(dict.fromkeys(["request_id", *(name for name in names if name not in LABEL_COLUMNS)]))
        for batch in self._parts.compacted(own):  # labels came since
            joined, _ = self._labels.join(pa.Table.from_batches([batch]))
            yield from joined.select(names).cast(schema).to_batches()

    def _repeats(self) -> npt.NDArray[np.int64]:
        """Positions, counted over the whole month, of decisions in segments that repeat an earlier id."""
        if not any(part.num_bytes for part in self._parts.segments):
            return np.empty(0, np.int64)
        return repeated_positions(np.concatenate([hash_ids(ids) for ids in self._parts.ids()]), self._parts.ids)[0]


def read_month(root: Path, month: str, columns: Sequence[str] | None = None) -> pa.Table:
    """A whole month in memory; see :meth:`MonthReader.batches`.

    Raises:
        TrafficError: the month has no traffic, a column is unknown, or a file is damaged or missing.
    """
    with MonthReader(root, month) as reader:
        return reader.batches(columns).read_all()
