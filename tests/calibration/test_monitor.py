import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.calibration.monitor import Monitor, log_wealth_paths
from dualmind.errors import CalibrationError

ALPHA, LEVEL = 0.05, 0.05
ALARM = math.log(1 / LEVEL)


def wrong(seed: int, streams: int, rates: list[tuple[int, float]]) -> np.ndarray:
    """Streams whose error rate changes: (labels, rate) one after the other."""
    rate = np.concatenate([np.full(labels, value) for labels, value in rates])
    return np.random.default_rng(seed).random((streams, len(rate))) < rate


@pytest.mark.parametrize("rate", [0.05, 0.04, 0.02])
def test_false_alarms_stay_below_the_level_over_long_streams_looked_at_after_every_label(rate: float) -> None:
    paths = log_wealth_paths(wrong(0, 1000, [(4000, rate)]), ALPHA)
    assert (paths.max(axis=1) >= ALARM).mean() <= LEVEL


@pytest.mark.parametrize(("rate", "share"), [(0.10, 0.85), (0.125, 0.98), (0.15, 0.99)])
def test_too_many_errors_from_the_start_are_seen_within_500_labels(rate: float, share: float) -> None:
    paths = log_wealth_paths(wrong(1, 500, [(500, rate)]), ALPHA)
    assert (paths.max(axis=1) >= ALARM).mean() >= share


@pytest.mark.parametrize(("rate", "share"), [(0.10, 0.7), (0.125, 0.95), (0.15, 0.99)])
def test_a_shift_after_a_quiet_year_is_seen_within_500_labels(rate: float, share: float) -> None:
    paths = log_wealth_paths(wrong(2, 300, [(6000, 0.03), (500, rate)]), ALPHA)
    assert (paths[:, 6000:].max(axis=1) >= ALARM).mean() >= share


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.floats(0, 0.05)), min_size=1, max_size=12))
def test_expected_wealth_never_grows_while_the_promise_is_kept(history: list[tuple[bool, float]]) -> None:
    """The supermartingale property itself: over both outcomes of the next label, at any state and any rate <= alpha."""
    state = Monitor.start(ALPHA, LEVEL)
    for is_wrong, rate in history:
        after = [math.exp(state.after([right]).log_wealth) for right in (True, False)]
        assert (1 - rate) * after[0] + rate * after[1] <= math.exp(state.log_wealth) * (1 + 1e-12)
        state = state.after([not is_wrong])


def test_one_monitor_goes_the_same_way_as_many_at_once() -> None:
    stream = wrong(3, 1, [(200, 0.03), (300, 0.2)])
    path = log_wealth_paths(stream, ALPHA)[0]
    state = Monitor.start(ALPHA, LEVEL).after(list(~stream[0]))
    assert state.log_wealth == pytest.approx(path[-1])
    assert state.alarm_at == int(np.argmax(path >= ALARM)) + 1
    assert (state.labels, state.errors) == (500, int(stream.sum()))


def test_a_state_that_was_written_and_read_goes_on_as_if_nothing_had_happened() -> None:
    labels = list(~wrong(4, 1, [(400, 0.1)])[0])
    whole = Monitor.start(ALPHA, LEVEL).after(labels)
    half = Monitor.start(ALPHA, LEVEL).after(labels[:123])
    assert Monitor.from_json(half.model_dump_json()).after(labels[123:]) == whole


def test_an_alarm_stays() -> None:
    state = Monitor.start(ALPHA, LEVEL).after([False] * 20)
    assert state.alarm
    assert state.after([True] * 1000).alarm_at == state.alarm_at


@pytest.mark.parametrize("label", [None, 1, 0.0, "yes"])
def test_what_is_no_label_is_an_error(label: Any) -> None:
    with pytest.raises(CalibrationError, match="True"):
        Monitor.start(ALPHA, LEVEL).after([True, label])


@pytest.mark.parametrize("text", ["", "{}", '{"alpha": 0.05}'])
def test_a_broken_state_is_an_error(text: str) -> None:
    with pytest.raises(CalibrationError, match="start a new one"):
        Monitor.from_json(text)


@pytest.mark.parametrize(("alpha", "level"), [(0.0, 0.1), (0.05, 1.0), (math.nan, 0.1)])
def test_levels_are_checked(alpha: float, level: float) -> None:
    with pytest.raises(CalibrationError, match="above 0"):
        Monitor.start(alpha, level)
