import json
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dualmind.errors import TrafficError
from dualmind.traffic import compact as compact_module
from dualmind.traffic import parquet as parquet_module
from dualmind.traffic.compact import compact
from dualmind.traffic.layout import locked
from dualmind.traffic.read import read_month
from dualmind.traffic.schema import DICTIONARY_COLUMNS, SCHEMA
from tests.traffic.records import MONTH, START, decision, label, log_all


def parquet(root: Path) -> Path:
    return root / MONTH / "decisions.parquet"


def files(root: Path) -> set[str]:
    return {path.name for path in (root / MONTH).iterdir()} - {".compact.lock"}


def test_compacted_rows_are_sorted_typed_and_small(tmp_path: Path) -> None:
    order = [int(i) for i in np.random.default_rng(0).permutation(50)]
    log_all(tmp_path, *map(decision, order), decision("b", time=START), decision("a", time=START))
    report = compact(tmp_path, MONTH, is_over=False)
    assert (report.decisions, report.added) == (52, 52)
    table = pq.read_table(parquet(tmp_path))
    assert table.schema.equals(SCHEMA)
    keys = list(zip(table["time"].to_pylist(), table["request_id"].to_pylist(), strict=True))
    assert keys == sorted(keys)
    chunk = pq.ParquetFile(parquet(tmp_path)).metadata.row_group(0)
    for i in range(chunk.num_columns):
        column = chunk.column(i)
        assert column.compression == "ZSTD"
        assert (column.path_in_schema in DICTIONARY_COLUMNS) == ("RLE_DICTIONARY" in column.encodings)
    assert files(tmp_path) == {"decisions.parquet", "decisions-000002.jsonl"}


def test_small_runs_and_row_groups_give_what_one_sort_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    times = rng.integers(0, 40, 400)  # many ties
    made = [decision(f"id{i}", time=START + timedelta(seconds=int(t))) for i, t in enumerate(times)]
    log_all(tmp_path, *made[:300])
    compact(tmp_path, MONTH, is_over=False)
    log_all(tmp_path, *made[300:])
    monkeypatch.setattr(compact_module, "RUN_ROWS", 17)
    monkeypatch.setattr(compact_module, "ROW_GROUP_ROWS", 31)
    monkeypatch.setattr(parquet_module, "ROW_GROUP_ROWS", 31)
    compact(tmp_path, MONTH, is_over=False)
    expected = sorted((d.time, d.request_id) for d in made)
    table = pq.read_table(parquet(tmp_path))
    assert list(zip(table["time"].to_pylist(), table["request_id"].to_pylist(), strict=True)) == expected
    sizes = [pq.ParquetFile(parquet(tmp_path)).metadata.row_group(i).num_rows for i in range(13)]
    assert sizes == [31] * 12 + [400 - 12 * 31]


def test_the_same_input_gives_the_same_bytes_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    log_all(tmp_path / "a", *map(decision, range(100)), label(3), label(4, correct=False, source="feedback"))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    compact(tmp_path / "a", MONTH, is_over=False)
    compact(tmp_path / "b", MONTH, is_over=True)
    first = parquet(tmp_path / "a").read_bytes()
    assert parquet(tmp_path / "b").read_bytes() == first
    assert compact(tmp_path / "a", MONTH, is_over=False).added == 0
    assert parquet(tmp_path / "a").read_bytes() == first


def test_labels_are_joined_and_the_first_audit_label_wins(tmp_path: Path) -> None:
    log_all(
        tmp_path,
        *map(decision, range(5)),
        label(0, correct=False, source="feedback"),
        label(0, correct=True, source="system2", given=False),
        label(0, correct=False, source="person"),
        label(1, correct=False, source="feedback"),
        label(1, correct=False, source="feedback"),
        label(2, correct=True, source="scorer"),
        label("nobody"),
    )
    report = compact(tmp_path, MONTH, is_over=False)
    rows = pq.read_table(parquet(tmp_path)).select(["correct", "label_source"]).to_pylist()
    found = [(row["correct"], row["label_source"]) for row in rows]
    assert found == [(True, "system2"), (False, "feedback"), (True, "scorer"), (None, None), (None, None)]
    given = pq.read_table(parquet(tmp_path))["answer_correct"].to_pylist()
    assert given == [False, None, None, None, None]
    assert (report.contradictory_labels.count, report.contradictory_labels.examples) == (1, ("0",))
    assert (report.repeated_labels.count, report.repeated_labels.examples) == (1, ("1",))
    assert (report.unknown_labels.count, report.unknown_labels.examples) == (1, ("nobody",))
    assert (tmp_path / MONTH / "labels.jsonl").read_text().count("\n") == 7  # kept as they came


def test_labels_that_come_after_a_month_was_sealed_are_joined_by_the_next_compaction(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1))
    compact(tmp_path, MONTH, is_over=True)
    log_all(tmp_path, label(1))
    assert read_month(tmp_path, MONTH, ["correct"])["correct"].to_pylist() == [True]
    compact(tmp_path, MONTH, is_over=True)
    assert pq.read_table(parquet(tmp_path))["correct"].to_pylist() == [True]


def test_a_decision_that_was_logged_twice_is_kept_once_and_reported(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1), decision(2), decision(2, answer="other", time=START))
    report = compact(tmp_path, MONTH, is_over=False)
    assert (report.repeated_decisions.count, report.repeated_decisions.examples) == (1, ("2",))
    log_all(tmp_path, decision(1, time=START), decision(3), decision(3))
    assert read_month(tmp_path, MONTH)["request_id"].to_pylist() == ["1", "2", "3"]
    report = compact(tmp_path, MONTH, is_over=False)
    assert (report.repeated_decisions.count, report.decisions, report.added) == (2, 3, 1)
    assert pq.read_table(parquet(tmp_path))["answer"].to_pylist() == ["go to drawer 1"] * 3


def test_a_compaction_that_was_killed_anywhere_is_completed_by_the_next(tmp_path: Path) -> None:
    """Killed before the file appeared: scratch lies around. After: segments that the file covers do."""
    log_all(tmp_path, decision(1), decision(2))
    covered = (tmp_path / MONTH / "decisions-000001.jsonl").read_bytes()
    (tmp_path / MONTH / ".compacting").mkdir()
    (tmp_path / MONTH / ".compacting" / "000000.arrow").write_bytes(b"half")
    compact(tmp_path, MONTH, is_over=False)
    (tmp_path / MONTH / "decisions-000001.jsonl").write_bytes(covered)
    assert len(read_month(tmp_path, MONTH)) == 2
    assert compact(tmp_path, MONTH, is_over=False).decisions == 2
    assert files(tmp_path) == {"decisions.parquet", "decisions-000002.jsonl"}


def test_a_month_without_decisions_compacts_to_no_rows(tmp_path: Path) -> None:
    (tmp_path / MONTH).mkdir()
    assert compact(tmp_path, MONTH, is_over=False).decisions == 0
    assert compact(tmp_path, MONTH, is_over=True).decisions == 0
    assert len(read_month(tmp_path, MONTH)) == 0


@pytest.mark.parametrize(("month", "text"), [("2026-10", "no traffic of 2026-10.*2026-11"), ("2026-13", "no month")])
def test_a_month_that_is_not_there_is_named_with_those_that_are(tmp_path: Path, month: str, text: str) -> None:
    log_all(tmp_path, decision(1))
    with pytest.raises(TrafficError, match=text):
        compact(tmp_path, month, is_over=False)
    with pytest.raises(TrafficError, match=r"no traffic of 2026-10.*no month"):
        compact(tmp_path / "elsewhere", "2026-10", is_over=False)


def test_two_compactions_of_a_month_do_not_run_at_once(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1))
    with locked(tmp_path / MONTH / ".compact.lock"), pytest.raises(TrafficError, match="another process"):
        compact(tmp_path, MONTH, is_over=False)


@pytest.mark.parametrize("kept", [0, 4, 100, 0.5, 0.99])
def test_a_truncated_parquet_file_is_named_and_nothing_is_removed(tmp_path: Path, kept: float) -> None:
    log_all(tmp_path, *map(decision, range(20)))
    compact(tmp_path, MONTH, is_over=False)
    log_all(tmp_path, decision(99))
    whole = parquet(tmp_path).read_bytes()
    parquet(tmp_path).write_bytes(whole[: int(kept if kept >= 1 else kept * len(whole))])
    before = files(tmp_path)
    for action in (lambda: compact(tmp_path, MONTH, is_over=False), lambda: read_month(tmp_path, MONTH)):
        with pytest.raises(TrafficError, match=r"decisions\.parquet is damaged.*restore it"):
            action()
    assert files(tmp_path) == before


def test_a_parquet_file_of_others_is_refused(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1))
    pq.write_table(pa.table({"x": [1]}), parquet(tmp_path))
    with pytest.raises(TrafficError, match="damaged"):  # it does not say what it covers
        compact(tmp_path, MONTH, is_over=False)
    said = {"dualmind.through": "0", "dualmind.label_bytes": "0"}
    pq.write_table(pa.table({"x": [1]}).replace_schema_metadata(said), parquet(tmp_path))
    with pytest.raises(TrafficError, match=r"has the columns \['x'\]"):
        compact(tmp_path, MONTH, is_over=False)


def cut(line: bytes) -> bytes:
    return line[:-30]  # and so one with the next


def without(line: bytes, name: str) -> bytes:
    fields = json.loads(line)
    del fields[name]
    return json.dumps(fields).encode() + b"\n"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut, "line 3"),
        (lambda _: b"\n", "line 3"),
        (lambda _: b"null\n", "line 3"),
        (lambda line: without(line, "score"), "line 3: score: Field required"),
        (lambda line: line.replace(b'"score":0.8', b'"score":"0.8"'), "line 3: score"),
        (lambda line: line.replace(b'"score":0.8', b'"score":0.8,"x":1'), "line 3: x: Extra"),
        (lambda line: line.replace(b"answer", b"\xff\xfe"), "line 3"),
    ],
)
def test_a_damaged_line_is_named_by_its_number_and_nothing_is_removed(tmp_path: Path, damage: Any, reason: str) -> None:
    log_all(tmp_path, *map(decision, range(5)))
    path = tmp_path / MONTH / "decisions-000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = damage(lines[2])
    path.write_bytes(b"".join(lines))
    for action in (lambda: read_month(tmp_path, MONTH), lambda: compact(tmp_path, MONTH, is_over=False)):
        with pytest.raises(TrafficError, match=f"decisions-000001.jsonl, {reason}"):
            action()
    assert path.read_bytes() == b"".join(lines)
    assert not parquet(tmp_path).exists()


def test_a_damaged_label_is_named_by_its_line(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1), label(1))
    with (tmp_path / MONTH / "labels.jsonl").open("a") as file:
        file.write('{"request_id": "1"}\n')
    with pytest.raises(TrafficError, match=r"labels\.jsonl, line 2: time: Field required"):
        compact(tmp_path, MONTH, is_over=False)


def test_a_segment_that_was_torn_when_the_next_began_is_an_error(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1), decision(2))
    path = tmp_path / MONTH / "decisions-000001.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    (tmp_path / MONTH / "decisions-000002.jsonl").write_bytes(b"")
    with pytest.raises(TrafficError, match="ends in the middle of line 2"):
        compact(tmp_path, MONTH, is_over=False)


def test_a_lost_segment_is_noticed(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1))
    path = tmp_path / MONTH / "decisions-000001.jsonl"
    path.rename(path.with_name("decisions-000002.jsonl"))
    with pytest.raises(TrafficError, match="lacks a segment"):
        read_month(tmp_path, MONTH)
    with pytest.raises(TrafficError, match="lacks a segment"):
        compact(tmp_path, MONTH, is_over=False)


def test_a_full_disk_leaves_the_month_as_it_was(tmp_path: Path) -> None:
    log_all(tmp_path, *map(decision, range(300)))
    code = (
        "import resource, signal, sys; from pathlib import Path; from dualmind.traffic.compact import compact\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        f"compact(Path(sys.argv[1]), '{MONTH}', is_over=False)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "StorageError" in done.stderr
    assert "free some disk space" in done.stderr
    assert files(tmp_path) == {"decisions-000001.jsonl", "decisions-000002.jsonl"}
    assert len(read_month(tmp_path, MONTH)) == 300
    assert compact(tmp_path, MONTH, is_over=False).decisions == 300
