import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmind.errors import GatewayError
from dualmind.memory.entry import Key
from tests.memory.entries import entry

TEXTS = st.lists(st.text(max_size=6), min_size=1, max_size=4)


@given(TEXTS, TEXTS)
def test_keys_are_equal_for_the_same_words_and_commands_alone(one: list[str], other: list[str]) -> None:
    keys = Key.of("household", one[0], one[1:]), Key.of("household", other[0], other[1:])
    assert (keys[0] == keys[1]) == (one == other)
    assert Key.of("reasoning", one[0], one[1:]) != keys[0]


@given(st.lists(st.floats(-1, 1), max_size=30))
def test_usefulness_is_the_mean_gain_with_two_trials_of_one_half_before_it(gains: list[float]) -> None:
    own = entry(0)
    for gain in gains:
        own = own.tried(gain)
    assert own.trials == len(gains)
    assert own.usefulness == pytest.approx(np.mean([0.5, 0.5, *gains]))


def test_what_nobody_checked_replaces_only_its_like() -> None:
    unchecked, checked = entry(0, author="system1", checked_by=None), entry(0)
    assert checked.supersedes(unchecked)
    assert unchecked.supersedes(unchecked)
    assert not unchecked.supersedes(checked)


def test_a_short_thought_replaces_a_long_one_of_other_weights_alone() -> None:
    short, long = entry(0, depth="shallow"), entry(0)
    assert long.supersedes(short)
    assert not short.supersedes(long)
    assert entry(0, depth="shallow", writer="3" * 32).supersedes(long)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"answer": "  "}, "empty answer"),
        ({"reading": np.array([1.0, np.nan], np.float32)}, "no finite vector"),
        ({"reading": np.zeros(0, np.float32)}, "no finite vector"),
        ({"reading": np.zeros((2, 2), np.float32)}, "no finite vector"),
        ({"depth": "deep"}, "depth = 'deep' is not one of shallow, full"),
        ({"author": "bob"}, "author = 'bob'"),
        ({"author": None}, "author = None"),
        ({"checked_by": "system1"}, "checked_by = 'system1' is not one of system2, checker, person"),
    ],
)
def test_what_is_no_entry_is_refused(changes: dict[str, object], match: str) -> None:
    with pytest.raises(GatewayError, match=match):
        entry(0, **changes)


@pytest.mark.parametrize("gain", [float("nan"), 1.5, -2.0])
def test_a_gain_out_of_range_is_refused(gain: float) -> None:
    with pytest.raises(GatewayError, match="give right with it minus right"):
        entry(0).tried(gain)
