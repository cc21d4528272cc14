"""The deployments on a real local Prefect server, made from a clean checkout, with one real firing of the schedule."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.ui import end, wait_for_server
from tests.calibration.traffic import serve, store
from tests.serving.running import free_port

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
PREFECT = [sys.executable, "-m", "prefect", "--no-prompt"]
INTERVAL_S, LIMIT_S = 15, 400.0


@contextmanager
def background(
    command: list[str], root: Path, environment: dict[str, str], log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=root, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        end(process)


def post(url: str, path: str, body: Any) -> Any:
    answer = httpx.post(f"{url}{path}", json=body, timeout=30, trust_env=False)
    answer.raise_for_status()
    return answer.json()


def test_a_clean_checkout_is_scheduled_for_the_first_of_the_month_and_a_schedule_fires_by_itself(
    tmp_path: Path,
) -> None:
    root = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(root)], check=True)
    serve(root / "production")  # what a calibration needs, and a checkout does not have
    port = str(free_port())
    url = f"http://127.0.0.1:{port}/api"
    environment = {
        **os.environ, "PREFECT_API_URL": url, "PREFECT_HOME": str(tmp_path / "home"), "PWD": str(root),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1",
    }  # fmt: skip
    command = [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", port]
    with background(command, root, environment, tmp_path / "server.log") as server:
        assert wait_for_server(url, server) is None, (tmp_path / "server.log").read_text()
        for arguments in (["work-pool", "create", "--type", "process", "local"], ["deploy", "--all"]):
            done = subprocess.run(
                [*PREFECT, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
        deployed = httpx.get(f"{url}/deployments/name/calibration/calibration", timeout=30, trust_env=False).json()
        post(url, f"/deployments/{deployed['id']}/schedule", {"min_runs": 3})
        runs = find_runs(url, deployed["id"])
        times = sorted(datetime.fromisoformat(run["expected_start_time"]).astimezone(UTC) for run in runs)
        assert len(times) >= 3
        assert {(own.day, own.hour, own.minute) for own in times} == {(1, 3, 0)}
        monthly = {run["id"] for run in runs}
        soon = (datetime.now(UTC) + timedelta(seconds=5)).isoformat()
        often = {"interval": INTERVAL_S, "anchor_date": soon}
        post(url, f"/deployments/{deployed['id']}/schedules", [{"schedule": often, "active": True}])
        worker = [*PREFECT, "worker", "start", "--pool", "local", "--limit", "1"]
        with background(worker, root, environment, tmp_path / "worker.log"):
            fired = wait_for_firing(url, deployed["id"], monthly, tmp_path / "worker.log")
    assert fired["auto_scheduled"]
    assert fired["state"]["type"] == "COMPLETED", fired["state"]
    assert "no traffic of" in store(root).history(root / "production")[-1].why


def find_runs(url: str, deployment: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = post(url, "/flow_runs/filter", {"deployments": {"id": {"any_": [deployment]}}})
    return found


def wait_for_firing(url: str, deployment: str, known: set[str], log: Path) -> dict[str, Any]:
    """The first run of the short interval that ended."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        over = [
            run
            for run in find_runs(url, deployment)
            if run["id"] not in known and run["state"]["type"] in {"COMPLETED", "FAILED", "CRASHED"}
        ]
        if over:
            return over[0]
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(1)
