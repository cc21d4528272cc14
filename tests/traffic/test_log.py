import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from dualmind.errors import StorageError, TrafficError
from dualmind.traffic.compact import compact
from dualmind.traffic.log import DecisionLog
from dualmind.traffic.read import read_month
from tests.traffic.records import MONTH, START, decision, label, log_all, open_log


def ids(root: Path, month: str = MONTH) -> list[str]:
    return list(read_month(root, month, ["request_id"])["request_id"].to_pylist())


def test_what_is_logged_is_read_back_with_every_field(tmp_path: Path) -> None:
    logged = decision("a", answer='line\nbreak "quoted" ü', difficulty=0.25)
    assert log_all(tmp_path, logged) == [MONTH]
    (row,) = read_month(tmp_path, MONTH).to_pylist()
    assert (row.pop("correct"), row.pop("answer_correct"), row.pop("label_source")) == (None, None, None)
    assert row == logged.model_dump()


def test_a_batch_is_one_write_and_an_interval_ends_the_waiting(tmp_path: Path) -> None:
    with DecisionLog(tmp_path, batch=3, interval_s=3600.0) as log:
        done = [log.append(decision(i)) for i in range(3)]
        assert [future.result(timeout=60) for future in done] == [MONTH] * 3
    with DecisionLog(tmp_path, batch=1000, interval_s=0.01) as log:
        assert log.append(decision(3)).result(timeout=60) == MONTH


def test_many_threads_and_two_logs_on_one_folder_lose_nothing(tmp_path: Path) -> None:
    with (
        DecisionLog(tmp_path, batch=8, interval_s=0.001) as one,
        DecisionLog(tmp_path, batch=8, interval_s=0.001) as two,
    ):

        def write(log: DecisionLog, first: int) -> None:
            for future in [log.append(decision(first + i)) for i in range(50)]:
                future.result(timeout=60)

        threads = [threading.Thread(target=write, args=(log, 50 * i)) for i, log in enumerate((one, two, one, two))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(map(int, ids(tmp_path))) == list(range(200))


def test_who_no_longer_waits_does_not_take_a_record_back(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        assert not log.append(decision(1)).cancel()
    assert ids(tmp_path) == ["1"]


def test_what_a_killed_process_was_told_is_there(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from dualmind.traffic.log import DecisionLog\n"
        "from tests.traffic.records import decision\n"
        "log = DecisionLog(Path(sys.argv[1]), batch=7, interval_s=0.001)\n"
        "for i in range(10**9):\n"
        "    done = [log.append(decision(9 * i + j)) for j in range(9)]\n"
        "    for j in range(9):\n"
        "        done[j].result(); print(9 * i + j, flush=True)\n"
    )
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=root, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(100)]
        process.kill()
        told += [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]
    names = [line.decode().strip() for line in told]
    with open_log(tmp_path):
        found = ids(tmp_path)
    assert found[: len(names)] == names
    assert len(found) == len(set(found))


def test_a_month_is_compacted_and_read_while_it_is_logged(tmp_path: Path) -> None:
    (tmp_path / MONTH).mkdir()
    stop = threading.Event()
    told: list[str] = []

    def write() -> None:
        with DecisionLog(tmp_path, batch=5, interval_s=0.001) as log:
            for i in range(10**9):
                done = [log.append(decision(20 * i + j)) for j in range(20)]
                for j, future in enumerate(done):
                    future.result(timeout=60)
                    told.append(str(20 * i + j))
                if stop.is_set():
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(6):
            known = set(told)
            compact(tmp_path, MONTH, is_over=False)
            found = ids(tmp_path)
            assert len(found) == len(set(found))
            assert known <= set(found)
    finally:
        stop.set()
        writer.join()
    assert sorted(ids(tmp_path)) == sorted(told)


def test_closing_writes_what_waits_and_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    done = log.append(decision(1))
    log.close()
    log.close()
    assert done.result(timeout=0) == MONTH
    with pytest.raises(TrafficError, match="closed"):
        log.append(decision(2))


def test_a_torn_last_line_is_healed_and_reported(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1), label(1))
    for name in ("decisions-000001.jsonl", "labels.jsonl"):
        with (tmp_path / MONTH / name).open("ab") as file:
            file.write(b'{"time": "2026-1')
    assert ids(tmp_path) == ["1"]  # a reader does not wait for that
    with open_log(tmp_path) as log:
        assert [(healed.path.name, healed.num_bytes) for healed in log.healed] == [
            ("labels.jsonl", 16),
            ("decisions-000001.jsonl", 16),
        ]
    log_all(tmp_path, decision(2))
    assert ids(tmp_path) == ["1", "2"]


def test_a_line_that_another_process_tore_is_healed_before_the_next_write(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(decision(1))
        log.flush()
        with (tmp_path / MONTH / "decisions-000001.jsonl").open("ab") as file:
            file.write(b"{" * 70_000)  # longer than a block of the search
        log.append(decision(2))
        log.flush()
        assert [healed.num_bytes for healed in log.healed] == [70_000]
    assert ids(tmp_path) == ["1", "2"]


def test_a_full_disk_fails_what_waits_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1))
    before = (tmp_path / MONTH / "decisions-000001.jsonl").read_bytes()
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from tests.traffic.records import decision, open_log\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))\n"
        "with open_log(Path(sys.argv[1])) as log:\n"
        "    done = [log.append(decision(i)) for i in range(2, 50)]\n"
        "    log.flush()\n"
        "    print(*{type(future.exception()).__name__ for future in done}, done[0].exception())\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "    again = log.append(decision(99)); log.flush(); print(again.result())\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("StorageError ")
    assert "free some disk space" in done.stdout
    assert (tmp_path / MONTH / "decisions-000001.jsonl").read_bytes().startswith(before)
    assert ids(tmp_path) == ["1", "99"]


def test_a_folder_that_cannot_be_made_fails_the_record(tmp_path: Path) -> None:
    (tmp_path / MONTH).write_text("")
    with open_log(tmp_path) as log:
        done = log.append(decision(1))
        log.flush()
        assert isinstance(done.exception(timeout=0), StorageError)


def test_a_clock_that_is_set_back_does_not_reach_a_sealed_month(tmp_path: Path) -> None:
    log_all(tmp_path, decision(1))
    compact(tmp_path, MONTH, is_over=True)
    sealed = (tmp_path / MONTH / "decisions.parquet").read_bytes()
    late, later = decision(2), decision(3, time=datetime(2026, 9, 30, tzinfo=UTC))
    assert log_all(tmp_path, late, later) == ["2026-12", "2026-12"]
    assert (tmp_path / MONTH / "decisions.parquet").read_bytes() == sealed
    assert read_month(tmp_path, "2026-12", ["time"])["time"].to_pylist() == [late.time, later.time]


def test_the_month_is_that_of_the_time_in_utc_and_turns_at_midnight(tmp_path: Path) -> None:
    east = timezone(timedelta(hours=8))
    times = [datetime(2026, 12, 1, 7, 59, tzinfo=east), datetime(2026, 12, 1, 8, 0, tzinfo=east)]
    assert log_all(tmp_path, *(decision(i, time=time) for i, time in enumerate(times))) == [MONTH, "2026-12"]
    assert log_all(tmp_path, decision(9, time=datetime(2026, 12, 31, 23, 59, tzinfo=UTC))) == ["2026-12"]


@pytest.mark.parametrize(
    "change",
    [
        {"score": float("nan")},
        {"curvature": float("inf")},
        {"confidence": 1.1},
        {"request_id": ""},
        {"prompt_sha256": "abc"},
        {"tier": "system3"},
        {"flops": -1},
        {"flops": 2**63},
        {"time": datetime(2026, 11, 5)},  # without a zone
        {"audited": None},
        {"correct": True},
    ],
)
def test_a_decision_that_is_none_is_refused_before_it_is_logged(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        decision("a", **change)


def test_labels_of_a_month_without_traffic_and_unusable_settings_are_errors(tmp_path: Path) -> None:
    with open_log(tmp_path) as log, pytest.raises(TrafficError, match="no traffic of 2026-10"):
        log.label(label(1), "2026-10")
    for batch, interval_s in ((0, 1.0), (1, 0.0), (1, float("nan"))):
        with pytest.raises(TrafficError, match="at least 1"):
            DecisionLog(tmp_path, batch=batch, interval_s=interval_s)


def test_a_damaged_seal_is_an_error_for_the_record_and_not_for_the_log(tmp_path: Path) -> None:
    (tmp_path / "sealed").write_text("yesterday")
    with open_log(tmp_path) as log:
        done = log.append(decision(1))
        log.flush()
        with pytest.raises(TrafficError, match="2026-11"):
            done.result(timeout=0)
        (tmp_path / "sealed").unlink()
        again = log.append(decision(1, time=START))
        log.flush()
        assert again.result(timeout=0) == MONTH
