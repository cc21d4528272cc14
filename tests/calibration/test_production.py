from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.calibration import production
from dualmind.errors import CalibrationError, ThresholdMismatch
from dualmind.storage import md5_file
from tests.calibration.traffic import serve, threshold

NOW = datetime(2026, 11, 1, 3, tzinfo=UTC)
RECORD = {"who": "test", "why": "because", "time": NOW}


@settings(max_examples=20, deadline=None)
@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from(["keep", "rollback"])), max_size=12))
def test_what_serves_is_what_a_stack_says(tmp_path_factory: pytest.TempPathFactory, steps: list[float | str]) -> None:
    folder = tmp_path_factory.mktemp("production")
    serve(folder, 0.5)
    gate = md5_file(folder / "gate.json")
    stack = [0.5]
    for step in steps:
        if step == "keep":
            production.keep(folder, **RECORD)
        elif step == "rollback":
            if len(stack) > 1:
                stack.pop()
                production.rollback(folder, **RECORD)
            else:
                with pytest.raises(CalibrationError, match="nothing to go back to"):
                    production.rollback(folder, **RECORD)
        else:
            assert isinstance(step, float)
            stack.append(step)
            production.promote(folder, threshold(step, gate), **RECORD)
        assert production.read(folder).threshold.value == stack[-1]


def test_every_change_is_recorded_with_who_and_why(tmp_path: Path) -> None:
    serve(tmp_path, 0.5)
    production.promote(tmp_path, threshold(0.7, md5_file(tmp_path / "gate.json")), **RECORD)
    production.rollback(tmp_path, who="operator", why="too strict", time=NOW)
    found = [
        (change.kind, change.who, change.why, change.threshold.value) for change in production.read(tmp_path).changes
    ]
    assert found == [
        ("start", "test", "the first", 0.5),
        ("promote", "test", "because", 0.7),
        ("rollback", "operator", "too strict", 0.5),
    ]


def test_a_threshold_of_another_gate_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    serve(tmp_path, 0.5)
    before = (tmp_path / "current.json").read_bytes()
    with pytest.raises(ThresholdMismatch, match="calibrated for the gate"):
        production.promote(tmp_path, threshold(0.7, "d" * 32), **RECORD)
    assert (tmp_path / "current.json").read_bytes() == before


def test_where_nothing_serves_or_the_file_is_damaged_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="nothing serves"):
        production.read(tmp_path)
    (tmp_path / "current.json").write_text("{}")
    with pytest.raises(CalibrationError, match="does not say what serves"):
        production.read(tmp_path)
