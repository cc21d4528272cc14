from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

import flows.monitor
from dualmind.calibration.watch import Watch
from dualmind.errors import PipelineError
from dualmind.traffic.schema import month_of
from flows.monitor import EVENT, look, monitor
from stages.params import load_params
from tasks.calibration import CalibrationParams
from tests.calibration.traffic import decisions, log_traffic, serve
from tests.flows.project import make_calibrated

pytestmark = [
    pytest.mark.usefixtures("server"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # Prefect's own
]


def make_bad(root: Path) -> Path:
    """A project whose threshold lets wrong answers through, and whose monitor has looked once, before them."""
    make_calibrated(root)
    serve(root / "production", 0.2)
    params = load_params(CalibrationParams, "calibration", root / "params.yaml")
    now = datetime.now(UTC)
    look(root, params, root / "calibration/monitor.json", now - timedelta(hours=2))
    pairs = decisions(month_of(now), 400, np.random.default_rng(0))
    recent = [
        (own.model_copy(update={"time": now - timedelta(minutes=100) + timedelta(seconds=i)}), label)
        for i, (own, label) in enumerate(pairs)
    ]
    log_traffic(root / "traffic", month_of(recent[0][0].time), recent)
    return root


def test_an_error_above_its_bound_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_bad(tmp_path)
    sent: list[tuple[str, str]] = []

    def emit(event: str, resource: dict[str, str], payload: dict[str, object]) -> object:
        assert payload["alpha"] == 0.05
        sent.append((event, resource["prefect.resource.id"]))
        return None if len(sent) == 1 else object()  # Prefect gives nothing where it cannot send

    monkeypatch.setattr(flows.monitor, "emit_event", emit)
    first = monitor(root)
    assert first.monitor.alarm
    assert not first.told
    assert monitor(str(root)).told
    assert monitor(root).told
    assert sent == [(EVENT, f"dualmind.threshold.{first.threshold}")] * 2
    state = Watch.read(root / "calibration/monitor.json")
    assert state is not None
    assert state.monitor == first.monitor  # no label was bet on twice


def test_a_threshold_that_keeps_its_promise_raises_no_alarm(tmp_path: Path) -> None:
    root = make_bad(tmp_path)
    serve(root / "production", 0.9)
    path = root / "calibration/monitor.json"
    params = load_params(CalibrationParams, "calibration", root / "params.yaml")
    path.unlink()
    look(root, params, path, datetime.now(UTC) - timedelta(hours=2))
    found = monitor(root).monitor
    assert found.labels > 20
    assert not found.alarm


def test_while_a_calibration_runs_the_monitor_does_not_look(tmp_path: Path) -> None:
    root = make_calibrated(tmp_path)
    with FileLock(root / "calibration/.lock"), pytest.raises(PipelineError, match="another calibration is running"):
        monitor(root)
