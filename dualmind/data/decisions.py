"""Decisions as Parquet: one row per step of an expert."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dualmind.data.tables import read_table, write_table

if TYPE_CHECKING:
    from dualmind.data.validation import ValidatedDataset

SCHEMA = pa.schema(
    [
        pa.field("example_id", pa.string(), nullable=False),  # <problem_id>/<step_index>, unique
        pa.field("domain", pa.string(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("step_index", pa.int64(), nullable=False),  # from 0
        pa.field("hops", pa.int64(), nullable=False),  # sub-goals or inference steps, >= 1
        pa.field("prompt", pa.string(), nullable=False),
        pa.field("candidates", pa.list_(pa.string()), nullable=False),  # admissible commands; empty for free text
        pa.field("target", pa.string(), nullable=False),  # one of the candidates, or the free text
        pa.field("rationale", pa.string(), nullable=False),
        pa.field("reward", pa.float64(), nullable=False),  # 0..1
        pa.field("source", pa.string(), nullable=False),  # who decided
    ]
)


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """One decision; fields as in SCHEMA."""

    example_id: str
    domain: str
    split: str
    problem_id: str
    step_index: int
    hops: int
    prompt: str
    candidates: tuple[str, ...]
    target: str
    rationale: str
    reward: float
    source: str


def write_decisions(path: Path, rows: Sequence[DecisionRow]) -> None:
    """Write rows, atomically; the same rows give the same bytes.

    Raises:
        StorageError: the file cannot be written; what was there is unchanged.
    """
    write_table(path, pa.Table.from_pylist([asdict(row) for row in rows], schema=SCHEMA))


def read_decisions(dataset: "ValidatedDataset", split: str) -> list[DecisionRow]:
    """Read the rows of one split from a data set that passed its gate.

    Raises:
        ReceiptMismatch: the file changed since it was validated.
    """
    names = [field.name for field in fields(DecisionRow)]
    return [
        DecisionRow(**{**{name: row[name] for name in names}, "candidates": tuple(row["candidates"])})
        for row in read_table(dataset, split)
    ]
