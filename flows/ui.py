"""A local Prefect server with the training flow on it, until Ctrl-C.

python -m flows.ui [PORT]
"""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

_START_LIMIT_S = 120.0


def main(port: int) -> int:
    """Start the server, run the flow against it, and serve until interrupted; returns the flow's exit code."""
    url = f"http://127.0.0.1:{port}/api"
    environment = {
        "PREFECT_HOME": str(Path.cwd() / ".prefect"),
        **os.environ,
        "PREFECT_API_URL": url,  # set before the server starts, or its pages ask the wrong port
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, env=environment)
    try:
        _wait(url, server)
        code = subprocess.run([sys.executable, "-m", "flows.training"], env=environment, check=False).returncode
        print(f"the runs are at http://127.0.0.1:{port} ; stop with Ctrl-C", flush=True)
        server.wait()
    except KeyboardInterrupt:
        code = 0
    finally:
        server.terminate()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
    return code


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise SystemExit(f"the Prefect server ended with code {server.returncode}; is the port taken?")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):  # noqa: S310  # our own server on 127.0.0.1
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise SystemExit(f"the Prefect server did not answer at {url} within {_START_LIMIT_S:.0f} s")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 4200))
