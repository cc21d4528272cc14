"""Problems as Parquet: one row per problem of a domain, with all that is needed to play it."""

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
        pa.field("problem_id", pa.string(), nullable=False),  # unique
        pa.field("domain", pa.string(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("task_type", pa.string(), nullable=False),  # what kind of problem, for the report
        pa.field("layout", pa.string(), nullable=False),  # the room; valid_unseen shares none with the others
        pa.field("hops", pa.int64(), nullable=False),  # sub-goals or inference steps, >= 1
        pa.field("text", pa.string(), nullable=False),  # what the agent is asked, in words
        pa.field("payload", pa.string(), nullable=False),  # JSON that the domain reads
    ]
)


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """One problem; fields as in SCHEMA."""

    problem_id: str
    domain: str
    split: str
    task_type: str
    layout: str
    hops: int
    text: str
    payload: str


def write_problems(path: Path, rows: Sequence[ProblemRow]) -> None:
    """Write rows, atomically; the same rows give the same bytes.

    Raises:
        StorageError: the file cannot be written; what was there is unchanged.
    """
    write_table(path, pa.Table.from_pylist([asdict(row) for row in rows], schema=SCHEMA))


def read_problems(dataset: "ValidatedDataset", split: str) -> list[ProblemRow]:
    """Read the problems of one split from a data set that passed its gate.

    Raises:
        ReceiptMismatch: the file changed since it was validated.
    """
    names = [field.name for field in fields(ProblemRow)]
    return [ProblemRow(**{name: row[name] for name in names}) for row in read_table(dataset, split)]
