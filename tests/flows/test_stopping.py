import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.states import Cancelling

from flows.training import training
from tests.tasks.pipelines import make_project

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # Prefect's own
ROOT = Path(__file__).resolve().parents[2]
ENDLESS = "echo $$ > pid && exec sleep 3000"


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def stage_pid(root: Path) -> int:
    """That of the endless stage, once it runs."""
    path = root / "pid"
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Programs that are started from here on heed Ctrl-C, even where a shell in the background has turned that off."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells dead processes by Linux's /proc")
@pytest.mark.parametrize(
    ("number", "send", "code"),
    [(signal.SIGINT, os.killpg, 130), (signal.SIGTERM, os.kill, 143)],  # as a terminal does, as a supervisor does
    ids=["ctrl-c", "sigterm"],
)
def test_a_signal_ends_the_flow_its_stage_and_its_server(
    tmp_path: Path, number: signal.Signals, send: Callable[[int, int], None], code: int
) -> None:
    root = make_project(tmp_path, ENDLESS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "flows.training"], cwd=root, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as flow:  # fmt: skip
        try:
            stage = stage_pid(root)
            send(flow.pid, number)
            output, _ = flow.communicate(timeout=60)  # long before the stage would end
        finally:
            flow.kill()
    assert flow.returncode == code, output
    assert f"Finished in state Cancelled('stopped by {number.name}')" in output
    assert f"training was stopped by {number.name}" in output
    assert not is_alive(stage)
    port = re.search(r"Starting temporary server on http://127\.0\.0\.1:(\d+)", output)
    assert port, output
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port[1])), timeout=10)


@pytest.mark.usefixtures("server")
def test_cancelling_the_run_in_prefect_kills_its_stage(tmp_path: Path) -> None:
    root = make_project(tmp_path, ENDLESS)

    def cancel() -> None:
        stage_pid(root)
        with get_client(sync_client=True) as client:
            running = [run for run in client.read_flow_runs(limit=200) if run.state_name == "Running"]
            run = max(running, key=lambda own: str(own.start_time))  # one that another test killed is "Running" as well
            client.set_flow_run_state(run.id, Cancelling(), force=True)

    thread = threading.Thread(target=cancel)
    thread.start()
    state = training(root, return_state=True)
    thread.join()
    assert state.is_cancelled()
    assert state.message == "cancelled in Prefect"
    assert not is_alive(stage_pid(root))
