"""Parquet files that come out the same byte for byte, and are read with Hugging Face ``datasets``."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from dualmind.storage import atomic_path

if TYPE_CHECKING:
    from dualmind.data.validation import ValidatedDataset


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table, atomically. Parquet holds no time of day, so equal tables give equal bytes.

    Raises:
        StorageError: the file cannot be written; what was there is unchanged.
    """
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_table(dataset: "ValidatedDataset", split: str) -> list[dict[str, Any]]:
    """Rows of one split, as dictionaries, in file order.

    Raises:
        ReceiptMismatch: the file changed since it was validated.
    """
    import datasets  # 1.5 s; only those who read data pay for it

    dataset.check()
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as cache:  # the default cache in the user's home would grow with every run
        rows = datasets.Dataset.from_parquet(str(dataset.path), cache_dir=cache, keep_in_memory=True)
        return [row for row in rows.to_list() if row["split"] == split]
