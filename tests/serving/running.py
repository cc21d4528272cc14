"""Starts a real server for tests."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from dualmind.lineage.keys import SigningKey, make_key
from dualmind.serving.production import Production
from tests.serving.tiny import make_release

REPOSITORY = Path(__file__).resolve().parents[2]
_START_LIMIT_S = 300.0  # importing torch takes two minutes on a machine that is busy


@dataclass(frozen=True)
class Server:
    root: Path
    url: str
    process: "subprocess.Popen[bytes]"

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, trust_env=False)


def make_root(root: Path, key: SigningKey | None = None) -> Production:
    """A folder with one tiny release that production names."""
    files = make_release(root / "releases" / "r1")
    own = production(root, key or make_key(root / "keys", "release"))
    own.promote(files, files.gate, files.threshold, who="Ann", why="first")
    return own


def production(root: Path, key: SigningKey) -> Production:
    return Production(root / "production", root / "releases" / "ledger.jsonl", key)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(root: Path, **changes: Any) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", "tests.serving.child", str(root), json.dumps({"port": port, **changes})]
    with (root / "server.log").open("ab") as out:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=out, stderr=out)
    server = Server(root, f"http://127.0.0.1:{port}", process)
    try:
        _wait(server)
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=60)


def _wait(server: Server) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise AssertionError((server.root / "server.log").read_text())
        try:
            httpx.get(f"{server.url}/health", timeout=5, trust_env=False)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError((server.root / "server.log").read_text())
