"""A month as it lies on disk at one moment: its Parquet file and the segments after it, in the order of arrival."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from dualmind.errors import TrafficError
from dualmind.traffic.jsonl import read_lines
from dualmind.traffic.layout import PARQUET, segment, segment_numbers, whole_bytes
from dualmind.traffic.parquet import Covers, open_parquet, parquet_batches
from dualmind.traffic.schema import DECISION_SCHEMA, Decision

BATCH_ROWS = 1 << 16
_TRIES = 5  # a compaction may replace the files while they are being opened


@dataclass(frozen=True, slots=True)
class Segment:
    """An open segment, up to where it was whole when it was opened."""

    file: BinaryIO
    path: Path
    num_bytes: int

    def tables(self) -> Iterator[pa.Table]:
        """Its decisions in the order of arrival.

        Raises:
            TrafficError: a line is damaged.
        """
        self.file.seek(0)
        return read_lines(self.file, str(self.path), DECISION_SCHEMA, Decision, self.num_bytes)


@dataclass(frozen=True, slots=True)
class Parts:
    """Open files of a month; a snapshot, whatever is logged or compacted meanwhile."""

    folder: Path
    parquet: Any  # pyarrow.parquet.ParquetFile, or None where nothing was compacted
    covers: Covers
    segments: tuple[Segment, ...]

    def compacted(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Batches of the Parquet file, sorted by time and id.

        Raises:
            TrafficError: a page is damaged.
        """
        if self.parquet is not None:
            yield from parquet_batches(self.parquet, self.folder / PARQUET, columns, BATCH_ROWS)

    def ids(self) -> Iterator[pa.Array]:
        """All ids: those of the Parquet file, then those of the segments."""
        for batch in self.compacted(["request_id"]):
            yield batch.column(0)
        for part in self.segments:
            for table in part.tables():
                yield table["request_id"].combine_chunks()


def open_parts(folder: Path, files: ExitStack) -> Parts:
    """Open what is there now; ``files`` closes it.

    Raises:
        TrafficError: a file is damaged, or a segment is missing.
    """
    for _ in range(_TRIES):
        try:
            return _open(folder, files)
        except FileNotFoundError:
            files.close()
    raise TrafficError(f"{folder} lacks a segment between its Parquet file and its last one; restore it from a backup")


def _open(folder: Path, files: ExitStack) -> Parts:
    """Parquet first: a compaction that ends in between leaves a gap in the segments, and we try again."""
    parquet, covers = open_parquet(folder, files) or (None, Covers(0, 0, 0))
    numbers = [number for number in segment_numbers(folder) if number > covers.through]
    if numbers != list(range(covers.through + 1, covers.through + 1 + len(numbers))):
        raise FileNotFoundError
    segments = []
    for number in numbers:
        path = segment(folder, number)
        file = files.enter_context(path.open("rb"))
        is_last = number == numbers[-1]  # it may be being written to
        size = whole_bytes(file.fileno()) if is_last else os.fstat(file.fileno()).st_size
        segments.append(Segment(file, path, size))
    return Parts(folder, parquet, covers, tuple(segments))


def hash_ids(ids: pa.Array) -> npt.NDArray[np.uint64]:
    """64-bit hashes, the same in every process."""
    return np.asarray(pd.util.hash_array(ids.to_numpy(zero_copy_only=False), categorize=False), np.uint64)


def repeated_positions(
    hashes: npt.NDArray[np.uint64], ids: Callable[[], Iterable[pa.Array]]
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Positions, and ids, of all but the first occurrence of an id.

    Args:
        hashes: (n,) of all ids, in the order of arrival: 8 bytes an id, where the ids themselves would not fit.
        ids: gives the ids again, in the same order; asked only where hashes are equal.
    """
    order = np.argsort(hashes, kind="stable")
    ranked = hashes[order]
    equal = ranked[1:] == ranked[:-1]
    suspects = np.unique(np.concatenate([order[1:][equal], order[:-1][equal]])).astype(np.int64)  # ascending
    if not suspects.size:
        return suspects, []
    seen: set[str] = set()
    positions: list[int] = []
    names: list[str] = []
    start = 0
    for part in ids():
        low, high = np.searchsorted(suspects, [start, start + len(part)])
        for position in suspects[low:high].tolist():
            name = part[position - start].as_py()
            if name in seen:
                positions.append(position)
                names.append(name)
            seen.add(name)
        start += len(part)
    return np.array(positions, np.int64), names
