"""Turns a month's segments into one sorted Parquet file, with its labels; in bounded memory, while the log goes on.

It can be killed anywhere: the Parquet file appears at once or not at all and names the last segment that it covers, so
segments that it covers are ignored by readers and removed by the next compaction.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dualmind.errors import TrafficError
from dualmind.traffic.labels import Ids, Labels, read_labels
from dualmind.traffic.layout import append_lines, heal, locked, month_folder, seal, segment, segment_numbers
from dualmind.traffic.merge import in_groups, merge, read_run, write_run
from dualmind.traffic.parquet import ROW_GROUP_ROWS, active_segment, compacted_through, write_parquet
from dualmind.traffic.parts import Parts, hash_ids, open_parts, repeated_positions
from dualmind.traffic.schema import DECISION_SCHEMA, SCHEMA

RUN_ROWS = 1 << 18  # sorted in memory at a time, about 100 MB
_POSITION = "position"  # in the order of arrival


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What a compaction did and found."""

    month: str
    decisions: int  # in the file
    added: int  # that came new
    repeated_decisions: Ids  # left out: their id was there already
    unknown_labels: Ids  # of ids that the month does not have (yet)
    repeated_labels: Ids
    contradictory_labels: Ids
    torn_bytes: int  # of a last line that a crash had left


def compact(root: Path, month: str, *, is_over: bool) -> CompactionReport:
    """Bring a month's Parquet file up to date. The same segments and labels give the same bytes.

    Args:
        root: the folder ``traffic``.
        month: as in ``2026-11``.
        is_over: seal the month and all before it: decisions that still come go to the next one. Labels are always
            taken; compact again to join those that came.

    Raises:
        TrafficError: the month has no traffic, a file is damaged, or another compaction of this month is running.
        StorageError: the disk is full; no decision is lost.
    """
    folder = month_folder(root, month)
    try:
        with locked(folder / ".compact.lock", wait=False), ExitStack() as files:
            _remove_covered(folder)
            torn = _close_segments(root, folder, month, is_over=is_over)
            parts = open_parts(folder, files)
            closed = replace(parts, segments=parts.segments[:-1])  # the last one is the log's
            return _compact(closed, month, torn)
    except BlockingIOError as error:
        raise TrafficError(f"{folder} is being compacted by another process; wait until it is done") from error


def _close_segments(root: Path, folder: Path, month: str, *, is_over: bool) -> int:
    """Let the log go on in a new segment; returns torn bytes that were healed."""
    with locked(root / ".lock"):
        last = active_segment(folder)
        torn = heal(last)  # makes it if it is not there
        if last.stat().st_size:
            append_lines(segment(folder, int(last.stem.split("-")[1]) + 1), b"")
        if is_over:
            seal(root, month)
    return torn


def _compact(parts: Parts, month: str, torn_bytes: int) -> CompactionReport:
    labels, scratch = read_labels(parts.folder), parts.folder / ".compacting"
    known = np.zeros(len(labels.ids), np.bool_)
    shutil.rmtree(scratch, ignore_errors=True)  # of a compaction that was killed
    scratch.mkdir()
    try:
        hashes, runs = _write_runs(parts, scratch)
        repeats, names = repeated_positions(hashes, parts.ids)
        merged = merge([_old_rows(parts), *(read_run(run) for run in runs)])
        rows = _finished(merged, labels, repeats, known)
        through = parts.covers.through + len(parts.segments)
        decisions = write_parquet(parts.folder, rows, through, labels.num_bytes)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _remove_covered(parts.folder)
    return CompactionReport(
        month=month,
        decisions=decisions,
        added=decisions - parts.covers.rows,
        repeated_decisions=Ids.of(pa.array(names, pa.string())),
        unknown_labels=Ids.of(labels.ids.filter(pa.array(~known))),
        repeated_labels=labels.repeated,
        contradictory_labels=labels.contradictory,
        torn_bytes=torn_bytes,
    )


def _write_runs(parts: Parts, scratch: Path) -> tuple[npt.NDArray[np.uint64], list[Path]]:
    """Sort what is new in runs; also the hashes of all ids in the order of arrival."""
    hashes = [np.empty(0, np.uint64), *(hash_ids(batch.column(0)) for batch in parts.compacted(["request_id"]))]
    runs: list[Path] = []
    for table in in_groups((table for part in parts.segments for table in part.tables()), RUN_ROWS):
        start = sum(map(len, hashes))
        hashes.append(hash_ids(table["request_id"].combine_chunks()))
        runs.append(scratch / f"{len(runs):06}.arrow")
        write_run(runs[-1], _with_positions(table, start))
    return np.concatenate(hashes), runs


def _old_rows(parts: Parts) -> Iterator[pa.Table]:
    start = 0
    for batch in parts.compacted(DECISION_SCHEMA.names):
        yield _with_positions(pa.Table.from_batches([batch]).cast(DECISION_SCHEMA), start)
        start += len(batch)


def _with_positions(table: pa.Table, start: int) -> pa.Table:
    return table.append_column(_POSITION, pa.array(np.arange(start, start + len(table))))


def _finished(
    merged: Iterator[pa.Table], labels: Labels, repeats: npt.NDArray[np.int64], known: npt.NDArray[np.bool_]
) -> Iterator[pa.Table]:
    """Row groups without repeats and with labels; marks in ``known`` the labels whose decision is there."""
    once = (t.filter(pa.array(~np.isin(t[_POSITION].to_numpy(), repeats))) if len(repeats) else t for t in merged)
    for table in in_groups(once, ROW_GROUP_ROWS):
        joined, found = labels.join(table.drop_columns([_POSITION]))
        known[found] = True
        yield joined.select(SCHEMA.names)


def _remove_covered(folder: Path) -> None:
    through = compacted_through(folder)
    for number in segment_numbers(folder):
        if number <= through:
            segment(folder, number).unlink()
