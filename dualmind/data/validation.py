"""The gate of every data set: it passes all expectations of its suite, or the run stops here.

Great Expectations does the judging. It is imported inside :func:`validate` (7 s), so that a stage which only opens a
validated data set stays light. The gate is fail-closed: what cannot be judged has failed.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from dualmind.data.suites import Suite, SuiteName, SuiteParams, build_suite, import_great_expectations
from dualmind.errors import ReceiptMismatch, ValidationFailed
from dualmind.storage import md5_file, write_json

if TYPE_CHECKING:
    import pandas as pd

_TOKEN = object()  # held by this module alone: nobody else can make a ValidatedDataset
_SHOWN_CHARS = 200  # of an observed value in a receipt or a message; prompts are long
_SHOWN_VALUES = 5  # of the values that broke an expectation


class Check(BaseModel):
    """How one expectation came out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expectation: str  # its type, such as "expect_column_values_to_be_unique"
    column: str  # "" where it is about the whole table
    expected: dict[str, Any]  # its arguments, without the column
    observed: str
    success: bool

    def describe(self) -> str:
        """One line: where, what was expected and what was found."""
        where = f"column {self.column!r}" if self.column else "table"
        expected = ", ".join(f"{name}={value!r}" for name, value in self.expected.items())
        return f"{where}: expected {self.expectation.removeprefix('expect_')}({expected}), found {self.observed}"


class Receipt(BaseModel):
    """Proof that a file of these very bytes passed a suite. Holds no time and no run id: same data, same bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str  # path of the file, relative to the receipt's folder
    md5: str
    rows: int
    suite: str
    library: str  # who judged, with its version
    expectations: tuple[Check, ...]  # by column, then type, then arguments

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a receipt and check that it is one of success.

        Raises:
            ReceiptMismatch: the file is missing, is no receipt, or tells of no success.
        """
        remedy = "run `dvc repro validate` again"
        try:
            receipt = cls.model_validate_json(path.read_bytes())
        except FileNotFoundError as error:
            raise ReceiptMismatch(f"there is no receipt at {path}; {remedy}") from error
        except ValidationError as error:
            raise ReceiptMismatch(f"{path} is not a receipt ({_first_problem(error)}); {remedy}") from error
        if receipt.rows < 1 or not receipt.expectations or not all(check.success for check in receipt.expectations):
            raise ReceiptMismatch(
                f"{path} tells of {receipt.rows} rows and {sum(c.success for c in receipt.expectations)} of "
                f"{len(receipt.expectations)} expectations met, which is not a pass; {remedy}"
            )
        return receipt


@dataclass(frozen=True, slots=True)
class ValidatedDataset:
    """A Parquet file that passed its gate. Made by :func:`validate` and :func:`open_validated` only."""

    path: Path
    md5: str
    suite: str
    receipt: Path
    token: InitVar[object]

    def __post_init__(self, token: object) -> None:
        """Refuse everyone who is not this module.

        Raises:
            TypeError: it is made elsewhere.
        """
        if token is not _TOKEN:
            raise TypeError("a ValidatedDataset is made by validate() or open_validated() only")

    def check(self) -> None:
        """Hash the file again; call this before reading it.

        Raises:
            ReceiptMismatch: the file is missing or changed since it was validated.
        """
        _check_bytes(self.path, self.md5, self.receipt)


def validate(path: Path, suite: SuiteName, params: SuiteParams, receipt: Path) -> ValidatedDataset:
    """Judge a Parquet file by the suite of its kind and write a receipt. A failure leaves none, not even an older one.

    Args:
        path: the file.
        suite: what kind of data it holds.
        params: limits of the suite.
        receipt: where the receipt is written, as JSON.

    Raises:
        ValidationFailed: the file is missing or no Parquet, has no row, or breaks an expectation, or an expectation
            could not be evaluated. The message lists everything that failed.
        StorageError: the receipt cannot be written.
    """
    return judge(path, build_suite(suite, params), receipt)


def judge(path: Path, suite: Suite, receipt: Path) -> ValidatedDataset:
    """:func:`validate` by a given suite.

    Raises:
        ValidationFailed: as in :func:`validate`, or the suite holds no expectation.
        StorageError: the receipt cannot be written.
    """
    receipt.unlink(missing_ok=True)  # it must not speak for data that may fail now
    remedy = f"correct what made {path}, then run `dvc repro validate` again"
    if not suite.expectations:
        raise ValidationFailed(f"suite {suite.name!r} holds 0 expectations, so it can prove nothing; add some to it")
    try:
        data = path.read_bytes()  # read once: what is hashed is what is judged
    except FileNotFoundError as error:
        raise ValidationFailed(f"there is no data set at {path}; run `dvc repro prepare` first") from error
    frame = _read_frame(path, data, remedy)
    if frame.empty:
        raise ValidationFailed(
            f"{path} has {len(frame)} rows and {len(frame.columns)} columns, none may be 0; {remedy}"
        )
    checks = _evaluate(frame, suite)
    if failures := [check.describe() for check in checks if not check.success]:
        lines = "".join(f"\n  - {failure}" for failure in failures)
        raise ValidationFailed(
            f"{path} failed {len(failures)} of {len(checks)} expectations of suite {suite.name!r}:{lines}\n{remedy}"
        )
    written = Receipt(
        dataset=os.path.relpath(path, receipt.parent),
        md5=hashlib.md5(data, usedforsecurity=False).hexdigest(),
        rows=len(frame),
        suite=suite.name,
        library=f"great_expectations {import_great_expectations().__version__}",
        expectations=tuple(checks),
    )
    write_json(receipt, written.model_dump(mode="json"))
    return ValidatedDataset(path, written.md5, suite.name, receipt, _TOKEN)


def open_validated(receipt: Path) -> ValidatedDataset:
    """Open the data set that a receipt speaks for.

    Raises:
        ReceiptMismatch: there is no such receipt, or the file is not the one that was validated.
    """
    found = Receipt.read(receipt)
    path = Path(os.path.normpath(receipt.parent / found.dataset))
    _check_bytes(path, found.md5, receipt)
    return ValidatedDataset(path, found.md5, found.suite, receipt, _TOKEN)


def _check_bytes(path: Path, md5: str, receipt: Path) -> None:
    remedy = "run `dvc repro validate` again"
    try:
        found = md5_file(path)
    except FileNotFoundError as error:
        raise ReceiptMismatch(f"{receipt} speaks for {path}, which is missing; {remedy}") from error
    if found != md5:
        raise ReceiptMismatch(
            f"{path} changed since it was validated: {receipt} says md5 {md5}, found {found}; {remedy}"
        )


def _read_frame(path: Path, data: bytes, remedy: str) -> "pd.DataFrame":
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:  # the bytes are in memory, so an OSError is one of form as well
        raise ValidationFailed(f"{path} is not a readable Parquet file ({error}); {remedy}") from error
    frame: pd.DataFrame = table.to_pandas()
    for field in table.schema:
        if pa.types.is_list(field.type):  # Great Expectations knows lists, not the arrays that pandas makes of them
            frame[field.name] = frame[field.name].map(list, na_action="ignore")
    return frame


def _evaluate(frame: "pd.DataFrame", suite: Suite) -> list[Check]:
    """Every expectation's outcome, sorted; the library's own order varies."""
    great_expectations = import_great_expectations()
    context = great_expectations.get_context(mode="ephemeral")
    context.enable_analytics(False)
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    batch = (
        context.data_sources.add_pandas(suite.name)
        .add_dataframe_asset(suite.name)
        .add_batch_definition_whole_dataframe(suite.name)
        .get_batch({"dataframe": suite.derive(frame)})
    )
    result = batch.validate(
        great_expectations.ExpectationSuite(name=suite.name, expectations=list(suite.expectations)),
        result_format="SUMMARY",
    )
    checks = [_as_check(outcome) for outcome in result.to_json_dict()["results"]]
    assert len(checks) == len(suite.expectations), f"suite {suite.name} has an expectation twice"
    return sorted(checks, key=lambda c: (c.column, c.expectation, json.dumps(c.expected, sort_keys=True)))


def _as_check(outcome: Mapping[str, Any]) -> Check:
    config = outcome["expectation_config"]
    expected = {name: value for name, value in config["kwargs"].items() if name not in {"batch_id", "column"}}
    error = _error(outcome["exception_info"])
    return Check(
        expectation=config["type"],
        column=config["kwargs"].get("column", ""),
        expected=dict(sorted(expected.items())),
        observed=f"no value, because evaluating it raised: {error}" if error else _observed(outcome),
        success=bool(outcome["success"]) and error is None,
    )


def _error(info: Mapping[str, Any]) -> str | None:
    """Message of what an expectation raised, or None. Its details lie flat, or under the id of each metric."""
    for details in (info, *(value for value in info.values() if isinstance(value, dict))):
        if details.get("raised_exception"):
            return _shorten(str(details["exception_message"]).strip())
    return None


def _observed(outcome: Mapping[str, Any]) -> str:
    """What an expectation found, in words."""
    result = outcome["result"]
    if result.get("observed_value") is not None:
        return _shorten(repr(result["observed_value"]))
    if "element_count" in result:
        return _observed_rows(result)
    if "missing_count" in result:  # about the set of distinct values
        missing, surplus = result.get("partial_missing_list", []), result.get("partial_unexpected_list", [])
        return "all expected values" if outcome["success"] else _shorten(f"missing {missing}, unexpected {surplus}")
    return "the column" if outcome["success"] else "no such column"


def _observed_rows(result: Mapping[str, Any]) -> str:
    if not result["unexpected_count"]:
        return f"{result['element_count']} rows, all as expected"
    values = list(dict.fromkeys(map(repr, result.get("partial_unexpected_list", []))))[:_SHOWN_VALUES]
    rows = result.get("partial_unexpected_index_list", [])[:_SHOWN_VALUES]
    found = _shorten(", ".join(values)) or "null"
    return f"{result['unexpected_count']} of {result['element_count']} rows: {found}" + (
        f" (rows {', '.join(map(str, rows))})" if rows else ""
    )


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'file'}: {first['msg']}"
