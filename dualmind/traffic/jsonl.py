"""Lines of JSON as Arrow tables, block by block; a damaged line is named by its number."""

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.json as pj
from pydantic import BaseModel, ValidationError

from dualmind.errors import TrafficError

BLOCK_BYTES = 1 << 24


def read_lines(
    file: BinaryIO, name: str, schema: pa.Schema, model: type[BaseModel], num_bytes: int
) -> Iterator[pa.Table]:
    """Tables of the lines at the start of a file, about BLOCK_BYTES of them at a time.

    Args:
        file: open for reading, at its start.
        name: for messages.
        schema: of the tables; what is not nullable there must be there.
        model: what a line is, to say what is wrong with one.
        num_bytes: to read; what comes after them may still be being written.

    Raises:
        TrafficError: a line cannot be read; it names the line.
    """
    line, rest = 1, num_bytes
    while rest and (block := file.read(min(BLOCK_BYTES, rest))):
        if len(block) < rest:
            block += file.readline()
        rest -= len(block)
        if not block.endswith(b"\n"):
            last = line + block.count(b"\n")
            raise TrafficError(f"{name} ends in the middle of line {last}; restore the file from a backup")
        yield _parse(block, name, schema, model, line)
        line += block.count(b"\n")


def _parse(block: bytes, name: str, schema: pa.Schema, model: type[BaseModel], line: int) -> pa.Table:
    try:
        table = pj.read_json(
            pa.BufferReader(block),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        ).select(schema.names)
    except (pa.ArrowException, KeyError) as error:
        _name_bad_line(block, name, model, line)
        raise TrafficError(f"{name} cannot be read from line {line} on ({error}); restore it from a backup") from error
    complete = all(field.nullable or not table[field.name].null_count for field in schema)
    if not complete or len(table) != block.count(b"\n"):
        _name_bad_line(block, name, model, line)
        raise TrafficError(f"{name} lacks values or line ends after line {line}; restore it from a backup")
    return table.cast(schema)


def _name_bad_line(block: bytes, name: str, model: type[BaseModel], line: int) -> None:
    """The fast parser says in which block: this says on which line, and why."""
    for number, text in enumerate(block.split(b"\n")[:-1], start=line):
        try:
            model.model_validate_json(text)
        except ValidationError as error:
            reason = error.errors()[0]
            place = ".".join(map(str, reason["loc"])) or "the line"
            raise TrafficError(
                f"{name}, line {number}: {place}: {reason['msg']}; restore the file from a backup, or remove the line "
                "if its decision is known to be lost"
            ) from error
