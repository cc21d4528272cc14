import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from flows.ui import main
from tests.flows.test_stopping import ENDLESS, ROOT, is_alive, stage_pid
from tests.tasks.pipelines import make_project


@pytest.mark.parametrize("arguments", [["http"], ["0"], ["65536"], ["-1"], ["4200", "4201"]])
def test_what_is_no_port_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert f"{' '.join(arguments)} is no port" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main([str(port)]) == 2
    assert f"port {port} of 127.0.0.1 is taken" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells dead processes by Linux's /proc")
def test_ctrl_c_ends_stage_flow_and_server(tmp_path: Path) -> None:
    root = make_project(tmp_path, ENDLESS)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ui = subprocess.Popen(
        [sys.executable, "-m", "flows.ui", str(port)], cwd=root, env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        stage = stage_pid(root)
        os.killpg(ui.pid, signal.SIGINT)
        output, _ = ui.communicate(timeout=90)
    finally:
        ui.kill()
    assert ui.returncode == 130, output
    assert "Finished in state Cancelled" in output
    assert not is_alive(stage)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)
