import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.flows import load_flow_from_entrypoint
from prefect.settings import get_current_settings

from flows.training import training

pytestmark = [
    pytest.mark.usefixtures("server"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # Prefect's own
]
ROOT = Path(__file__).resolve().parents[2]


def test_prefect_deploys_what_prefect_yaml_declares() -> None:
    settings = get_current_settings().to_environment_variables(exclude_unset=True)
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="local", type="process"))
        done = subprocess.run(
            [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--name", "training"],
            cwd=ROOT, env={**os.environ, **settings, "PWD": str(ROOT)},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        deployed = client.read_deployment_by_name("training/training")
    assert deployed.entrypoint == "flows/training.py:training"
    assert deployed.parameters == {"root": "."}
    assert deployed.schedules == []
    assert deployed.work_pool_name == "local"
    assert deployed.pull_steps == [{"prefect.deployments.steps.set_working_directory": {"directory": str(ROOT)}}]


def test_entrypoint_is_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (declared,) = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    loaded: Flow[..., Any] = load_flow_from_entrypoint(declared["entrypoint"])
    assert loaded.name == training.name
    assert set(declared["parameters"]) <= set(loaded.parameters.properties)
