"""The compacted part of a month: one Parquet file, sorted, whose metadata says what it covers."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dualmind.errors import StorageError, TrafficError
from dualmind.storage import atomic_path
from dualmind.traffic.layout import PARQUET, segment, segment_numbers
from dualmind.traffic.schema import DICTIONARY_COLUMNS, SCHEMA

ROW_GROUP_ROWS = 1 << 17
_THROUGH, _LABEL_BYTES = b"dualmind.through", b"dualmind.label_bytes"


@dataclass(frozen=True, slots=True)
class Covers:
    """What a Parquet file holds."""

    through: int  # number of the last segment; 0: none
    label_bytes: int  # of labels.jsonl that were joined
    rows: int


def open_parquet(folder: Path, files: ExitStack) -> tuple[Any, Covers] | None:
    """The ``pyarrow.parquet.ParquetFile`` of a month and what it covers, or None where nothing was compacted.

    ``files`` closes it.

    Raises:
        TrafficError: it is damaged, truncated, of other columns or not one of ours.
        StorageError: it cannot be opened.
    """
    path = folder / PARQUET
    try:
        opened = files.enter_context(path.open("rb"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be opened ({error}); check the folder and its permissions") from error
    try:
        found = pq.read_metadata(opened)
        names, said = found.schema.to_arrow_schema().names, found.metadata or {}
        covers = Covers(int(said[_THROUGH]), int(said[_LABEL_BYTES]), found.num_rows)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise TrafficError(f"{path} is damaged ({error}); restore it from a backup or from DVC's cache") from error
    if names != SCHEMA.names:
        raise TrafficError(f"{path} has the columns {names}, not {SCHEMA.names}; restore the file")
    return pq.ParquetFile(opened, metadata=found, read_dictionary=list(DICTIONARY_COLUMNS)), covers


def parquet_batches(file: Any, path: Path, columns: list[str], rows: int) -> Iterable[pa.RecordBatch]:
    """Batches of an open file.

    Raises:
        TrafficError: a page is damaged.
    """
    try:
        yield from file.iter_batches(batch_size=rows, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise TrafficError(f"{path} is damaged ({error}); restore it from a backup or from DVC's cache") from error


def compacted_through(folder: Path) -> int:
    """Number of the last segment that the month's Parquet file covers; 0 without one.

    Raises:
        TrafficError: see :func:`open_parquet`.
    """
    with ExitStack() as files:
        found = open_parquet(folder, files)
        return found[1].through if found else 0


def active_segment(folder: Path) -> Path:
    """The segment to append to: the last one, or the first one after those that were compacted.

    Raises:
        TrafficError: see :func:`open_parquet`.
    """
    numbers = segment_numbers(folder) if folder.is_dir() else []
    return segment(folder, numbers[-1] if numbers else compacted_through(folder) + 1)


def write_parquet(folder: Path, tables: Iterable[pa.Table], through: int, label_bytes: int) -> int:
    """Write the month's file, atomically; the same rows give the same bytes.

    Args:
        folder: of the month.
        tables: rows of SCHEMA, sorted by time and id; each table is a row group, so their sizes are part of the bytes.
        through: number of the last segment that they cover.
        label_bytes: bytes of labels.jsonl that were joined.

    Returns:
        Number of rows.

    Raises:
        StorageError: the file cannot be written; what was there is unchanged.
    """
    schema = SCHEMA.with_metadata({_THROUGH: str(through), _LABEL_BYTES: str(label_bytes)})
    rows = 0
    with atomic_path(folder / PARQUET) as temporary:
        with pq.ParquetWriter(temporary, schema, compression="zstd", use_dictionary=list(DICTIONARY_COLUMNS)) as writer:
            for table in tables:
                writer.write_table(table.cast(schema).combine_chunks(), row_group_size=ROW_GROUP_ROWS)
                rows += len(table)
        written = pq.read_metadata(temporary).num_rows
        assert written == rows  # the segments are removed on the word of this file
    return rows
