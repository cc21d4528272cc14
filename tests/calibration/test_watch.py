from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from dualmind.calibration.monitor import Monitor
from dualmind.calibration.watch import Watch, digest_of
from dualmind.errors import CalibrationError
from dualmind.traffic.read import read_month
from dualmind.traffic.schema import Decision, Label
from tests.calibration.traffic import decisions, log_traffic, threshold

MONTH = "2026-10"
START = datetime(2026, 10, 2, tzinfo=UTC)
SERVES = threshold(0.6, "b" * 32)


def bad_month(number: int) -> list[tuple[Decision, Label]]:
    """Every fourth answer is wrong."""
    pairs = decisions(MONTH, number, np.random.default_rng(0))
    return [(own, label.model_copy(update={"correct": i % 4 > 0})) for i, (own, label) in enumerate(pairs)]


def test_looking_often_bets_on_the_same_labels_as_looking_once(tmp_path: Path) -> None:
    pairs = bad_month(600)
    log_traffic(tmp_path, MONTH, pairs)
    batches = read_month(tmp_path, MONTH).to_batches()
    first = Watch.of(None, SERVES, 0.05, START - timedelta(seconds=1))
    often = first
    for minutes in (0, 1, 1, 3, 7, 0, 100):  # the clock is set back as well
        now = START + timedelta(minutes=minutes)
        often = often.after(batches, {"r1#1"}, SERVES, now=now, wait=timedelta(0))
    once = first.after(batches, {"r1#1"}, SERVES, now=START + timedelta(minutes=100), wait=timedelta(0))
    assert often == once
    accepted = [label.correct for own, label in pairs if own.score >= 0.6]
    assert once.monitor == Monitor.start(0.05, 0.05).after(accepted)
    assert once.monitor.alarm


def test_labels_may_come_until_the_wait_is_over(tmp_path: Path) -> None:
    log_traffic(tmp_path, MONTH, bad_month(600))
    batches = read_month(tmp_path, MONTH).to_batches()
    watch = Watch.of(None, SERVES, 0.05, START - timedelta(seconds=1))
    soon = watch.after(batches, {"r1#1"}, SERVES, now=START + timedelta(hours=1), wait=timedelta(hours=2))
    assert soon == watch
    later = watch.after(batches, {"r1#1"}, SERVES, now=START + timedelta(hours=3), wait=timedelta(hours=2))
    assert later.monitor.labels > 100


def test_a_new_threshold_starts_anew_and_the_same_one_goes_on() -> None:
    watch = Watch.of(None, SERVES, 0.05, START)
    told = watch.model_copy(update={"told": True, "monitor": watch.monitor.after([False])})
    assert Watch.of(told, SERVES, 0.05, START + timedelta(days=1)) == told
    other = threshold(0.7, "b" * 32)
    anew = Watch.of(told, other, 0.05, START + timedelta(days=1))
    assert (anew.threshold, anew.monitor.labels, anew.told) == (digest_of(other), 0, False)


def test_the_state_is_kept_in_a_file_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "monitor.json"
    assert Watch.read(path) is None
    watch = Watch.of(None, SERVES, 0.05, START)
    watch.write(path)
    assert Watch.read(path) == watch
    path.write_text("{")
    with pytest.raises(CalibrationError, match="no state of a monitor"):
        Watch.read(path)


def test_months_between_two_looks_are_all_read() -> None:
    watch = Watch.of(None, SERVES, 0.05, datetime(2026, 11, 30, 23, tzinfo=UTC))
    assert watch.months(datetime(2027, 1, 1, tzinfo=UTC)) == ["2026-11", "2026-12", "2027-01", "2027-02"]
