import re
from pathlib import Path

import pytest

from dualmind.learning.channels import ChannelParams, Channels, Visit
from dualmind.learning.skipped import Skipped
from tests.learning.demonstrations import demonstrations

ROWS = demonstrations()


def channels(confidence: float = 0.6, capacity: int = 100) -> Channels:
    return Channels(ChannelParams(confidence=confidence, capacity=capacity))


def test_sure_decisions_go_to_system1_and_unsure_ones_to_system2() -> None:
    both = channels()
    assert both.add([Visit(ROWS[0], 0.6), Visit(ROWS[1], 0.59), Visit(ROWS[2], 1.0)]) == {"system1": 2, "system2": 1}
    assert both.rows("system1") == [ROWS[0], ROWS[2]]
    assert both.rows("system2") == [ROWS[1]]


def test_a_state_stands_once_and_the_oldest_make_room() -> None:
    both = channels(capacity=2)
    both.add([Visit(ROWS[0], 1.0), Visit(ROWS[1], 1.0), Visit(ROWS[0], 0.9), Visit(ROWS[2], 1.0)])
    assert both.rows("system1") == [ROWS[0], ROWS[2]]


@pytest.mark.parametrize(
    ("confidences", "channel", "reason"),
    [
        ([], "system1", "both replay channels are empty"),
        ([0.1, 0.2], "system1", "no decision of System 1 reached the confidence 0.6.*lower channels.confidence"),
        ([0.9], "system2", "all decisions of System 1 reached the confidence 0.6.*raise channels.confidence"),
    ],
)
def test_an_empty_channel_says_why(confidences: list[float], channel: str, reason: str) -> None:
    both = channels()
    both.add([Visit(row, own) for row, own in zip(ROWS, confidences, strict=False)])
    found = both.rows("system1" if channel == "system1" else "system2")
    assert isinstance(found, Skipped)
    assert re.search(reason, found.reason)


def test_what_system2_gets_right_is_handed_down_once() -> None:
    both = channels()
    both.add([Visit(row, 0.0) for row in ROWS[:4]])
    assert both.hand_down(lambda rows: [row in ROWS[:2] for row in rows]) == 2
    assert both.rows("system1") == list(ROWS[:2])
    asked: list[str] = []
    assert both.hand_down(lambda rows: [bool(asked.append(row.example_id)) for row in rows]) == 0  # type: ignore[func-returns-value]  # append gives None
    assert asked == [row.example_id for row in ROWS[2:4]]
    assert channels().hand_down(lambda rows: [True] * len(rows)) == 0


def test_stored_channels_come_back_in_order_and_give_the_same_bytes(tmp_path: Path) -> None:
    both = channels()
    both.add([Visit(row, i / 20) for i, row in enumerate(ROWS[:20])])
    both.hand_down(lambda rows: [True] * len(rows))
    both.save(tmp_path / "a.parquet")
    again = channels()
    again.restore(tmp_path / "a.parquet")
    again.save(tmp_path / "b.parquet")
    assert (again.rows("system1"), again.rows("system2")) == (both.rows("system1"), both.rows("system2"))
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
