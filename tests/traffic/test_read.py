from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.errors import TrafficError
from dualmind.traffic.compact import compact
from dualmind.traffic.parts import hash_ids, repeated_positions
from dualmind.traffic.read import READ_SCHEMA, MonthReader, read_month
from dualmind.traffic.schema import check_month, month_after
from tests.traffic.records import MONTH, decision, label, log_all


def test_batches_have_the_typed_schema_before_and_after_compaction(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1, difficulty=0.5), decision(2), label(2))
    before = read_month(tmp_path, MONTH)
    compact(tmp_path, MONTH, is_over=False)
    after = read_month(tmp_path, MONTH)
    assert before.schema.equals(READ_SCHEMA)
    assert after.schema.equals(READ_SCHEMA)
    assert before.to_pylist() == after.to_pylist()


def test_what_was_compacted_and_what_came_since_are_one_month(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1), decision(2))
    compact(tmp_path, MONTH, is_over=False)
    log_all(tmp_path, decision(3), label(1), label(3, correct=False))
    table = read_month(tmp_path, MONTH, ["correct", "request_id", "label_source"])
    assert table.column_names == ["correct", "request_id", "label_source"]
    assert table.to_pylist() == [
        {"correct": True, "request_id": "1", "label_source": "scorer"},
        {"correct": None, "request_id": "2", "label_source": None},
        {"correct": False, "request_id": "3", "label_source": "scorer"},
    ]
    assert read_month(tmp_path, MONTH, ["correct"]).column_names == ["correct"]


def test_a_reader_is_a_snapshot_while_the_month_is_compacted(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1))
    with MonthReader(tmp_path, MONTH) as reader:
        log_all(tmp_path, decision(2))
        compact(tmp_path, MONTH, is_over=False)
        assert reader.batches(["request_id"]).read_all()["request_id"].to_pylist() == ["1"]
        assert len(reader.batches().read_all()) == 1  # again
    assert len(read_month(tmp_path, MONTH)) == 2


def test_unknown_columns_and_months_are_named(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1))
    with pytest.raises(TrafficError, match="no column prompt; it has time"):
        read_month(tmp_path, MONTH, ["prompt"])
    with pytest.raises(TrafficError, match=r"no traffic of 2027-01.*2026-11"):
        read_month(tmp_path, "2027-01")


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=5), st.booleans())
def test_repeats_are_all_but_the_first_also_where_hashes_collide(parts: list[list[str]], collide: bool) -> None:
    arrays = [pa.array(part, pa.string()) for part in parts]
    names = [name for part in parts for name in part]
    hashes = hash_ids(pa.array(names, pa.string()))
    positions, repeated = repeated_positions(np.zeros_like(hashes) if collide else hashes, lambda: arrays)
    expected = [i for i, name in enumerate(names) if name in names[:i]]
    assert positions.tolist() == expected
    assert repeated == [names[i] for i in expected]


@pytest.mark.parametrize(("month", "after"), [("2026-11", "2026-12"), ("2026-12", "2027-01"), ("9998-12", "9999-01")])
def test_months_follow_each_other(month: str, after: str) -> None:
    assert month_after(month) == after


@pytest.mark.parametrize("month", ["2026-00", "2026-13", "26-11", "2026-11-01", "../2026-11", "2026-11\n"])
def test_what_is_no_month_is_refused(month: str) -> None:
    with pytest.raises(TrafficError, match="write it as 2026-11"):
        check_month(month)
