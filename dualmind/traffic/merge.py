"""Sorting more rows than fit into memory: sorted runs on disk, merged a batch of each at a time."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dualmind.errors import StorageError

KEYS = [("time", "ascending"), ("request_id", "ascending")]
_RUN_BATCH_ROWS = 1 << 13  # rows that a merge holds of each run


def write_run(path: Path, table: pa.Table) -> None:
    """Sort rows by KEYS and keep them on disk until they are merged.

    Raises:
        StorageError: the disk is full.
    """
    ordered = table.sort_by(KEYS)
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(ordered, max_chunksize=_RUN_BATCH_ROWS)
    except OSError as error:
        raise StorageError(f"{path} could not be written ({error}); free some disk space and run again") from error


def read_run(path: Path) -> Iterator[pa.Table]:
    """The rows of a run, a batch at a time."""
    with pa.OSFile(str(path), "rb") as source, pa.ipc.open_file(source) as reader:
        for i in range(reader.num_record_batches):
            yield pa.Table.from_batches([reader.get_batch(i)])


def merge(runs: Iterable[Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """Rows of all runs in the order of KEYS, in tables of any size.

    The smallest last key among the batches at hand is a safe cut: whatever is not loaded yet comes after it.

    Args:
        runs: each one sorted by KEYS.
    """
    heads = [(head, run) for run in runs if (head := _next(run)) is not None]
    while heads:
        cut = min(_key(head, -1) for head, _ in heads)
        taken: list[pa.Table] = []
        left: list[tuple[pa.Table, Iterator[pa.Table]]] = []
        for head, run in heads:
            count = _rows_up_to(head, cut)
            taken.append(head.slice(0, count))
            rest = head.slice(count) if count < len(head) else _next(run)
            if rest is not None:
                left.append((rest, run))
        heads = left
        yield pa.concat_tables(taken).sort_by(KEYS)


def in_groups(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of exactly ``rows``, but for the last: so bytes do not depend on how they came."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        rest = table
        while count + len(rest) >= rows:
            need = rows - count
            yield pa.concat_tables([*waiting, rest.slice(0, need)])
            rest, waiting, count = rest.slice(need), [], 0
        if len(rest):
            waiting.append(rest)
            count += len(rest)
    if waiting:
        yield pa.concat_tables(waiting)


def _next(run: Iterator[pa.Table]) -> pa.Table | None:
    return next((table for table in run if len(table)), None)


def _key(table: pa.Table, row: int) -> tuple[int, str]:
    at = row % len(table)
    return table["time"][at].value, table["request_id"][at].as_py()


def _rows_up_to(head: pa.Table, cut: tuple[int, str]) -> int:
    if _key(head, 0) > cut:
        return 0
    if _key(head, -1) <= cut:
        return len(head)
    time = pa.scalar(cut[0], pa.int64()).cast(pa.timestamp("us")).cast(head.schema.field("time").type)
    earlier = pc.less(head["time"], time)
    tied = pc.and_(pc.equal(head["time"], time), pc.less_equal(head["request_id"], cut[1]))
    return int(pc.sum(pc.or_(earlier, tied)).as_py())
