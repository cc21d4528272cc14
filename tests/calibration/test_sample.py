from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.calibration.sample import COLUMNS, Sample, proof_rows
from dualmind.errors import CalibrationError
from dualmind.traffic.read import MonthReader
from tests.traffic.records import MONTH, decision, label, log_all

ROW = st.fixed_dictionaries(
    {
        "score": st.floats(-2, 2),
        "audited": st.booleans(),
        "correct": st.sampled_from([True, False, None]),
        "label_source": st.sampled_from(["scorer", "system2", "person", "feedback", "somebody", None]),
    }
)
SCHEMA = pa.schema({"score": pa.float64(), "audited": pa.bool_(), "correct": pa.bool_(), "label_source": pa.string()})


def may_prove(row: dict[str, Any]) -> bool:
    return row["audited"] and row["correct"] is not None and row["label_source"] in {"scorer", "system2", "person"}


@settings(deadline=None)
@given(st.lists(ROW, max_size=20))
def test_a_proof_uses_rows_that_were_drawn_and_labelled_by_an_audit_and_no_others(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    expected = [row for row in rows if may_prove(row)]
    assert proof_rows(table).to_pylist() == expected


@settings(deadline=None)
@given(st.lists(st.lists(ROW, max_size=6), max_size=4))
def test_a_sample_collected_batch_by_batch_is_that_of_the_whole(batches: list[list[dict[str, Any]]]) -> None:
    grid = [0.5, -1.0, 1.0]
    rows = [row for batch in batches for row in batch]
    sample = Sample.collect((pa.RecordBatch.from_pylist(batch, schema=SCHEMA) for batch in batches), grid)
    labelled = [row for row in rows if may_prove(row)]
    assert sample.scores.tolist() == [row["score"] for row in labelled]
    assert sample.correct.tolist() == [row["correct"] for row in labelled]
    assert sample.grid.tolist() == [1.0, 0.5, -1.0]
    assert sample.accepted.tolist() == [sum(row["score"] >= level for row in rows) for level in sample.grid]
    assert sample.decisions == len(rows)
    assert sample.unlabelled == sum(row["audited"] for row in rows) - len(labelled)


def test_feedback_in_a_log_never_reaches_a_proof(tmp_path: Path) -> None:
    log_all(
        tmp_path,
        *(decision(i, audited=i < 3, score=i / 10) for i in range(6)),
        label(0, correct=True),
        label(1, correct=False, source="feedback"),
        label(4, correct=True, source="person"),  # not drawn: somebody looked at it for a reason
        label(5, correct=False, source="feedback"),
    )
    with MonthReader(tmp_path, MONTH) as reader:
        sample = Sample.collect(reader.batches(COLUMNS), [0.0, 0.25])
    assert (sample.scores.tolist(), sample.correct.tolist()) == ([0.0], [True])
    assert (sample.decisions, sample.accepted.tolist(), sample.unlabelled) == (6, [3, 6], 2)


def test_a_missing_column_and_a_score_that_is_none_are_named() -> None:
    with pytest.raises(CalibrationError, match="no column audited, label_source"):
        proof_rows(pa.table({"correct": [True]}))
    rows = [{"score": 1.0, "audited": False, "correct": None, "label_source": None}]
    good = pa.RecordBatch.from_pylist(rows * 3, schema=SCHEMA)
    bad = pa.RecordBatch.from_pylist([*rows, {**rows[0], "score": np.nan}], schema=SCHEMA)
    with pytest.raises(CalibrationError, match="row 4 is nan"):
        Sample.collect([good, bad], [0.5])
