import json
import shutil
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
import yaml
from filelock import FileLock
from prefect.blocks.system import Secret
from prefect.client.orchestration import get_client
from pydantic import SecretStr

from dualmind.errors import PipelineError, ServingError, StorageError, TrafficError
from dualmind.lineage.ledger import Ledger
from dualmind.storage import md5_file, write_json
from flows.calibration import calibration, main
from tasks.calibration import Period
from tests.calibration.traffic import PARAMS, decisions, log_traffic, store
from tests.flows.project import environment, make_calibrated

pytestmark = [
    pytest.mark.usefixtures("server"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # Prefect's own
]
MONTH, BEFORE = "2026-10", "2026-09"


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two months; in the second one scores are worse."""
    root = tmp_path_factory.mktemp("traffic")
    rng = np.random.default_rng(0)
    log_traffic(root, BEFORE, decisions(BEFORE, 1500, rng))
    shifted = [
        (own, label) for own, label in decisions(MONTH, 2500, rng) if own.score < 0.6 or own.request_id[-1] < "5"
    ]
    log_traffic(root, MONTH, shifted)
    return root


@pytest.fixture
def project(tmp_path: Path, traffic: Path) -> Path:
    root = make_calibrated(tmp_path)
    shutil.copytree(traffic, root / "traffic")
    return root


def artifacts(key: str) -> list[str]:
    with get_client(sync_client=True) as client:
        return [str(found.data) for found in client.read_artifacts() if found.key == key]


def test_a_month_proves_a_threshold_that_serves_from_then_on(project: Path) -> None:
    decision = calibration(project, MONTH)
    now = store(project).read(project / "production")
    assert decision.action == "promote", decision.reason
    assert now.threshold == decision.serves
    assert now.threshold.previous_value == 0.95
    assert store(project).history(project / "production")[-1].why == decision.reason
    digest = md5_file(project / f"calibration/data/{MONTH}.parquet")
    assert now.threshold.calibration_digest == digest
    locked = yaml.safe_load((project / "calibration/dvc.lock").read_text())["stages"][f"recalibrate@{MONTH}"]
    assert {"path": f"calibration/data/{MONTH}.parquet", "md5": digest}.items() <= locked["deps"][1].items()
    assert (project / ".dvc/cache/files/md5" / digest[:2] / digest[2:]).exists()
    assert decision.drift is not None
    assert [test.name for test in decision.drift.tests if test.drifted] == ["score"]
    assert any(decision.reason in text for text in artifacts("calibration-decision"))
    assert any("<svg" in text and "| threshold |" in text for text in artifacts("risk-curve"))
    again = calibration(str(project), MONTH)
    assert (again.action, again.serves) == ("keep", now.threshold)
    assert "is confirmed" in again.reason


def test_months_that_prove_nothing_keep_the_old_threshold_and_say_why(tmp_path: Path) -> None:
    root = make_calibrated(tmp_path)
    rng = np.random.default_rng(0)
    log_traffic(root / "traffic", "2026-07", decisions("2026-07", 5, rng, release="r0"))
    log_traffic(root / "traffic", "2026-08", decisions("2026-08", 200, rng), labelled=20)
    log_traffic(root / "traffic", "2026-09", decisions("2026-09", 200, rng), labelled=0)
    chosen = [
        (own.model_copy(update={"audited": own.score >= 0.6}), label) for own, label in decisions(MONTH, 200, rng)
    ]
    log_traffic(root / "traffic", MONTH, chosen)
    before = store(root).read(root / "production").threshold
    reasons = {}
    for month in ("2026-06", "2026-07", "2026-08", "2026-09", MONTH):
        decision = calibration(root, month)
        assert (decision.action, decision.serves) == ("keep", before)
        reasons[month] = decision.reason
    assert reasons["2026-06"] == "no traffic of 2026-06"
    assert reasons["2026-07"].startswith("2026-07 has 5 decisions of r0, none of the weights and the gate of r1")
    assert reasons["2026-08"].startswith("only 20 of the 200 decisions that the audit drew are labelled, not 95%")
    assert reasons["2026-09"] == "none of the 200 decisions of 2026-09 has a label of the audit"
    assert "of the 117 others: that is no uniform sample" in reasons[MONTH]
    kept = store(root).history(root / "production")[1:]
    assert [(change.kind, change.why) for change in kept] == [("keep", f"{m}: {why}") for m, why in reasons.items()]


def test_three_rows_keep_the_old_threshold_in_the_words_of_the_proof(tmp_path: Path) -> None:
    root = make_calibrated(tmp_path)
    log_traffic(root / "traffic", MONTH, decisions(MONTH, 3, np.random.default_rng(0)))
    decision = calibration(root, MONTH)
    assert decision.action == "keep"
    assert decision.reason == (
        "no valid threshold at alpha = 0.05, delta = 0.1 with n = 3: "
        "at least 45 accepted answers without an error are needed"
    )
    assert decision.drift is None


def test_a_gate_of_other_weights_fails_and_changes_nothing(project: Path) -> None:
    before = (project / "production/current.json").read_bytes()
    kept = store(project).read(project / "production").gate_path
    write_json(kept, {"weights_digest": "d" * 32})
    with pytest.raises(ServingError, match="holds other bytes"):
        calibration(project, MONTH)
    assert (project / "production/current.json").read_bytes() == before


def test_a_truncated_traffic_file_fails_and_changes_nothing(project: Path) -> None:
    before = (project / "production/current.json").read_bytes()
    path = next((project / "traffic" / MONTH).glob("decisions-*.jsonl"))
    path.write_bytes(path.read_bytes()[:5000].replace(b"score", b"\x00core", 1) + b"\n")
    with pytest.raises(TrafficError):
        calibration(project, MONTH)
    assert (project / "production/current.json").read_bytes() == before


def test_of_two_calibrations_at_once_the_second_ends_with_a_clear_message(project: Path) -> None:
    before = (project / "production/current.json").read_bytes()
    with FileLock(project / "calibration/.lock"), pytest.raises(PipelineError, match="another calibration is running"):
        calibration(project, MONTH)
    assert (project / "production/current.json").read_bytes() == before


def test_whoever_is_to_be_notified_is_told_and_a_webhook_that_fails_changes_nothing(tmp_path: Path) -> None:
    root = make_calibrated(tmp_path)
    told: list[str] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(500 if "2026-05" in told[-1] else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    hook = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=hook.serve_forever)
    thread.start()
    (root / "params.yaml").write_text(PARAMS.replace('webhook: ""', "webhook: calibration-webhook"))
    try:
        assert calibration(root, "2026-04").action == "keep"  # there is no such block
        assert told == []
        Secret(value=SecretStr(f"http://127.0.0.1:{hook.server_port}")).save("calibration-webhook", overwrite=True)
        assert calibration(root, "2026-05").action == "keep"
        assert calibration(root, "2026-06").action == "keep"
    finally:
        hook.shutdown()
        thread.join()
        hook.server_close()
    assert told == [f"calibration on {month}: keep: no traffic of {month}" for month in ("2026-05", "2026-06")]


CHILD = """
import os, signal, sys
import flows.calibration
import {module} as target
real = target.{name}
def die(*arguments, **named):
    if {after}:
        real(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
target.{name} = die
flows.calibration.calibration({root!r}, {month!r})
"""


@pytest.mark.parametrize(
    ("module", "name", "after"),
    [
        pytest.param("tasks.calibration", "compact", True, id="compacted", marks=pytest.mark.slow),
        pytest.param("tasks.calibration", "freeze", True, id="frozen"),
        pytest.param("tasks.calibration", "validate", True, id="validated", marks=pytest.mark.slow),
        pytest.param("tasks.calibration", "write_text", True, id="period-listed", marks=pytest.mark.slow),
        pytest.param("tasks.dvc", "add", True, id="under-dvc", marks=pytest.mark.slow),
        pytest.param("tasks.stage", "reproduce", True, id="calibrated", marks=pytest.mark.slow),
        pytest.param(
            "dualmind.serving.store", "Production.promote", False, id="before-promotion", marks=pytest.mark.slow
        ),
        pytest.param("dualmind.serving.store", "Production.promote", True, id="promoted"),
    ],
)
def test_a_run_killed_at_any_step_leaves_the_old_or_the_new_threshold_and_the_next_one_heals(
    project: Path, module: str, name: str, after: bool
) -> None:
    code = CHILD.format(module=module, name=name, after=after, root=str(project), month=MONTH)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = store(project).read(project / "production")
    promoted = name == "Production.promote" and after
    assert (left.threshold.value == 0.95) == (not promoted)
    decision = calibration(project, MONTH)
    assert decision.action == ("keep" if promoted else "promote"), decision.reason
    now = store(project).read(project / "production")
    assert now.threshold == decision.serves
    assert [change.kind for change in store(project).history(project / "production")].count("promote") == 2
    assert not list((project / "calibration").rglob("*.tmp"))


@pytest.mark.parametrize(
    "full",
    [
        pytest.param("tasks.calibration.freeze", id="frozen"),
        pytest.param("tasks.calibration.write_text", id="period-listed", marks=pytest.mark.slow),
        pytest.param("dualmind.serving.production.write_json", id="promoted", marks=pytest.mark.slow),
    ],
)
def test_a_full_disk_leaves_the_old_threshold_and_the_next_run_heals(
    project: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    def no_space(*_: object, **__: object) -> None:
        raise StorageError("no space left; free some and run again")

    with monkeypatch.context() as patch:
        patch.setattr(full, no_space)
        with pytest.raises(StorageError, match="no space left"):
            calibration(project, MONTH)
    assert store(project).read(project / "production").threshold.value == 0.95
    assert calibration(project, MONTH).action == "promote"


def test_without_the_prefect_server_nothing_changes_and_the_message_says_so(project: Path) -> None:
    before = (project / "production/current.json").read_bytes()
    nobody = {**environment(), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    done = subprocess.run(
        [sys.executable, "-m", "flows.calibration", MONTH],
        cwd=project, env=nobody, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1
    assert "the old threshold serves: Failed to reach API at http://127.0.0.1:9/api" in done.stderr
    assert "Traceback" not in done.stderr
    assert (project / "production/current.json").read_bytes() == before


def test_a_clock_that_was_set_back_promotes_in_the_order_of_the_ledger(project: Path) -> None:
    """The first promotion stands in the ledger with a later time than this machine's clock says now."""
    own = store(project)
    later = datetime.now(UTC) + timedelta(days=400)
    own.keep(project / "production", who="test", why="by a clock that was ahead", time=later)
    decision = calibration(project, MONTH)
    assert decision.action == "promote"
    assert own.read(project / "production").threshold == decision.serves
    ledger = Ledger.read(project / "releases/ledger.jsonl")
    assert [entry.kind for entry in ledger.entries][-2:] == ["keep", "promote"]
    assert any("a clock was set back" in flag for flag in ledger.verify().flags)


def test_the_command_line_calibrates_and_rolls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_calibrated(tmp_path)
    monkeypatch.chdir(root)
    assert main(["2026-04"]) == 0
    assert "keep: no traffic of 2026-04" in capsys.readouterr().out
    assert main(["--rollback", "too strict"]) == 1
    assert "nothing served before" in capsys.readouterr().err
    gate = md5_file(root / "gate.json")
    new = store(root).read(root / "production").threshold.model_copy(update={"value": 0.5, "gate_digest": gate})
    when = store(root).history(root / "production")[0].time
    store(root).promote(root / "production", new, who="test", why="looser", time=when)
    assert main(["--rollback", "too loose"]) == 0
    assert "threshold 0.95 serves again" in capsys.readouterr().out
    assert store(root).history(root / "production")[-1].why == "too loose"


@pytest.mark.parametrize(
    ("now", "month", "expected"),
    [
        ("2026-12-01T03:00:00+00:00", None, Period("2026-11", "2026-11", is_over=True)),
        ("2026-01-01T03:00:00+00:00", None, Period("2025-12", "2025-12", is_over=True)),
        ("2026-11-30T23:30:00-02:00", None, Period("2026-11", "2026-11", is_over=True)),  # December in UTC
        ("2026-12-15T03:00:00+00:00", "current", Period("2026-12-until-15T0300", "2026-12", is_over=False)),
        ("2026-12-15T03:00:00+00:00", "2026-03", Period("2026-03", "2026-03", is_over=True)),
    ],
)
def test_the_month_is_the_last_one_that_is_over_unless_another_is_named(
    now: str, month: str | None, expected: Period
) -> None:
    assert Period.of(month, datetime.fromisoformat(now)) == expected


def test_a_name_that_is_no_month_is_refused(tmp_path: Path) -> None:
    root = make_calibrated(tmp_path)
    with pytest.raises(TrafficError, match="'last' is no month"):
        calibration(root, "last")
