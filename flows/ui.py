"""A local Prefect server with the training flow on it, until Ctrl-C.

python -m flows.ui [PORT]
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import FrameType

_START_LIMIT_S = 120.0
_END_LIMIT_S = 30.0  # the flow records how it ended, and the server writes its database


def main(arguments: list[str]) -> int:
    """Start the server, run the flow against it, and serve until interrupted.

    Returns:
        The flow's exit code, 130 if it was interrupted before its end; 2 for a port that cannot be used, 1 if the
        server does not start.
    """
    if len(arguments) > 1 or not all(text.isdecimal() and 0 < int(text) < 65536 for text in arguments):
        print(f"{' '.join(arguments)} is no port; give a number below 65536: python -m flows.ui 4300", file=sys.stderr)
        return 2
    port = int(arguments[0]) if arguments else 4200
    if not is_free(port):
        print(
            f"port {port} of 127.0.0.1 is taken; stop what listens there, or take another one: make ui PORT={port + 1}",
            file=sys.stderr,
        )
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    return _serve(port)


def _serve(port: int) -> int:
    environment = {
        "PREFECT_HOME": str(Path.cwd() / ".prefect"),
        **os.environ,
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",  # set before the server starts, or its pages ask elsewhere
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    # both in groups of their own: a terminal would send Ctrl-C to all at once, and the flow needs the server to end
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    flow: subprocess.Popen[bytes] | None = None
    code = 128 + signal.SIGINT
    try:
        problem = wait_for_server(environment["PREFECT_API_URL"], server)
        if problem is not None:
            print(problem, file=sys.stderr)
            return 1
        flow = subprocess.Popen([sys.executable, "-m", "flows.training"], env=environment, start_new_session=True)
        code = flow.wait()
        print(f"the runs are at http://127.0.0.1:{port} ; stop with Ctrl-C", flush=True)
        server.wait()
    except KeyboardInterrupt:
        print("stopping the flow and the server", flush=True)
    finally:
        if flow is not None:
            end(flow)
        end(server)
    return code


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def is_free(port: int) -> bool:
    """Whether a server can listen at the port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # else a port is taken for minutes after its end
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_for_server(url: str, server: subprocess.Popen[bytes]) -> str | None:
    """Wait until the server answers; what is wrong if it does not."""
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):  # noqa: S310  # our own server on 127.0.0.1
                answers = True
        except (urllib.error.URLError, OSError):
            answers = False
        if server.poll() is not None:  # asked last: another process may have taken the port and answered
            return f"the Prefect server at {url} ended with code {server.returncode}; its output above says why"
        if answers:
            return None
        time.sleep(0.5)
    return f"the Prefect server did not answer at {url} within {_START_LIMIT_S:.0f} s"


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, then kill its group."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=_END_LIMIT_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):  # or a second Ctrl-C
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
