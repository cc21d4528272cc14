import asyncio
import os
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectAlreadyExists
from prefect.flows import load_flow_from_entrypoint

from tests.calibration.traffic import decisions, log_traffic, store
from tests.flows.project import environment, make_calibrated

pytestmark = [
    pytest.mark.usefixtures("server"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # Prefect's own
]
ROOT = Path(__file__).resolve().parents[2]
DECLARED = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]


@pytest.fixture(scope="module")
def client(server: None) -> SyncPrefectClient:  # noqa: ARG001  # it must run
    """A client of a server to which all that prefect.yaml declares was deployed."""
    client = get_client(sync_client=True)
    with suppress(ObjectAlreadyExists):
        client.create_work_pool(WorkPoolCreate(name="local", type="process"))
    done = subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"],
        cwd=ROOT, env={**environment(), "PWD": str(ROOT)}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return client


@pytest.mark.parametrize(("name", "cron"), [("training", None), ("calibration", "0 3 1 * *"), ("monitor", "0 * * * *")])
def test_prefect_deploys_what_prefect_yaml_declares(client: SyncPrefectClient, name: str, cron: str | None) -> None:
    deployed = client.read_deployment_by_name(f"{name}/{name}")
    assert deployed.entrypoint == f"flows/{name}.py:{name}"
    assert deployed.parameters == {"root": "."}
    schedules = [own.schedule for own in deployed.schedules]
    found = [(own.cron, own.timezone) for own in schedules if isinstance(own, CronSchedule)]
    assert len(found) == len(schedules)
    assert found == ([] if cron is None else [(cron, "UTC")])
    assert deployed.work_pool_name == "local"
    assert deployed.pull_steps == [{"prefect.deployments.steps.set_working_directory": {"directory": str(ROOT)}}]


def test_calibrations_are_scheduled_for_the_first_of_each_month_at_three(client: SyncPrefectClient) -> None:
    deployed = client.read_deployment_by_name("calibration/calibration")
    client.request("POST", "/deployments/{id}/schedule", path_params={"id": deployed.id}, json={"min_runs": 3})
    runs = client.read_flow_runs(deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployed.id])))
    times = sorted(run.expected_start_time.astimezone(UTC) for run in runs if run.expected_start_time)
    assert len(times) >= 3
    assert {(own.day, own.hour, own.minute) for own in times} == {(1, 3, 0)}
    now = datetime.now(UTC)
    months = [own.year * 12 + own.month for own in times]
    assert months[0] - (now.year * 12 + now.month) in {0, 1}
    assert months == list(range(months[0], months[0] + len(months)))


def test_the_monitors_event_starts_a_calibration_on_this_month(client: SyncPrefectClient) -> None:
    async def find() -> list[object]:
        async with get_client() as own:
            return list(await own.read_automations_by_name("calibration/error above bound")) or list(
                await own.read_automations_by_name("error above bound")
            )

    (found,) = asyncio.run(find())
    body = found.model_dump(mode="json")  # type: ignore[attr-defined]  # Prefect's own class of automations
    deployed = client.read_deployment_by_name("calibration/calibration")
    assert body["enabled"]
    assert body["trigger"]["expect"] == ["dualmind.error-above-bound"]
    assert body["trigger"]["match"] == {"prefect.resource.id": "dualmind.threshold.*"}
    (action,) = body["actions"]
    assert (action["type"], action["deployment_id"]) == ("run-deployment", str(deployed.id))
    assert action["parameters"] == {"month": "current"}


def test_a_calibration_runs_by_name_in_a_process_worker(client: SyncPrefectClient, tmp_path: Path) -> None:
    root = make_calibrated(tmp_path)
    log_traffic(root / "traffic", "2026-10", decisions("2026-10", 3, np.random.default_rng(0), release="r0"))
    run = run_deployment(
        "calibration/calibration", parameters={"root": str(root), "month": "2026-10"}, timeout=0, as_subflow=False
    )
    assert isinstance(run, FlowRun)
    worker = subprocess.Popen(
        [sys.executable, "-m", "prefect", "worker", "start", "--pool", "local", "--run-once"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = worker.communicate(timeout=300)
    finally:
        if worker.poll() is None:
            os.killpg(worker.pid, 9)
    deadline = time.monotonic() + 60
    while not (state := client.read_flow_run(run.id).state) or not state.is_final():
        assert time.monotonic() < deadline, output
        time.sleep(0.5)
    assert state.is_completed(), output
    assert "none of the weights and the gate of r1" in store(root).history(root / "production")[-1].why


@pytest.mark.parametrize("declared", DECLARED, ids=lambda own: own["name"])
def test_entrypoint_is_the_flow(monkeypatch: pytest.MonkeyPatch, declared: dict[str, object]) -> None:
    monkeypatch.chdir(ROOT)
    loaded: Flow[Any, Any] = load_flow_from_entrypoint(str(declared["entrypoint"]))
    assert loaded.name == declared["name"]
    assert set(declared["parameters"]) <= set(loaded.parameters.properties)  # type: ignore[call-overload]  # YAML's values
