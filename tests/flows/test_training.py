import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.sorting import ArtifactSort

from dualmind.errors import ParamsError, PipelineError
from flows.training import training
from tests.tasks.pipelines import make_project

pytestmark = [
    pytest.mark.usefixtures("server"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # Prefect's own
]
ROOT = Path(__file__).resolve().parents[2]


def test_flow_runs_the_graph_and_passes_references_by_content(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    refs = training(root)
    assert list(refs) == ["first", "second"]
    assert refs["second"].deps[0] == refs["first"].out("one.json")
    with get_client(sync_client=True) as client:
        artifacts = {
            a.key: json.loads(str(a.data))
            for a in reversed(client.read_artifacts(sort=ArtifactSort.CREATED_DESC))
            if a.type == "table"
        }
    assert {row["output"] for row in artifacts["stage-outputs"]} == {"one.json", "score.yaml", "two.txt"}
    assert artifacts["metrics"] == [{"stage": "first", "metric": "won.share", "value": 0.5}]


def test_flow_stops_where_it_is_told(tmp_path: Path) -> None:
    root = make_project(tmp_path)
    assert list(training(root, until="first")) == ["first"]
    assert not (root / "two.txt").exists()
    assert list(training(root, only="second")) == ["second"]
    with pytest.raises(PipelineError, match="no stage 'third'"):
        training(root, until="third")


def test_a_stage_killed_by_sigkill_makes_the_flow_failed(tmp_path: Path) -> None:
    root = make_project(tmp_path, "kill -9 $$")
    state = training(root, return_state=True)
    assert state.is_failed()
    with get_client(sync_client=True) as client:
        tasks = {(run.name.rsplit("-", 1)[0], run.state_name) for run in client.read_task_runs()}
    assert ("second", "Failed") in tasks
    with pytest.raises(PipelineError, match="killed by SIGKILL"):
        state.result()


def test_folder_may_be_text_as_deployments_give_it_and_limits_are_params(tmp_path: Path) -> None:
    root = make_project(tmp_path, "sleep 600")
    params = "{x: 1, flow: {workers: 1, stage_limit_minutes: 0.05, lock_wait_minutes: 1}}"
    (root / "params.yaml").write_text("{x: 1, flow: {workers: 0, stage_limit_minutes: 1, lock_wait_minutes: 1}}")
    with pytest.raises(ParamsError, match=r"flow\.workers = 0"):
        training(str(root))
    (root / "params.yaml").write_text(params.replace("0.05", "1"))
    assert list(training(str(root), only="first")) == ["first"]
    (root / "params.yaml").write_text(params)
    with pytest.raises(PipelineError, match=r"limit of a stage, 3 s"):
        training(str(root), only="second")


def test_command_line_exits_with_one_where_a_stage_fails(tmp_path: Path) -> None:
    root = make_project(tmp_path, "exit 4")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "flows.training"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 1
    assert "training failed: stage second failed" in done.stderr
