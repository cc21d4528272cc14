"""A server whose clock runs through a month in minutes, and the visitors who ask it.

    python -m flows.replay MONTH SHIFTED PORT   # the server, in the folder of a project that flows/demo.py made

All is as in production but for three things: the clock, the domain's scorer as the audit's labeller, since the truth of
these questions is known, and an audit of every request, since a month of a demonstration is small.
"""

import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from dualmind.domains.household.generate import generate_games
from dualmind.errors import PipelineError
from dualmind.models.checkpoint import Checkpoint
from dualmind.serving.clock import SteppingClock
from dualmind.serving.files import ReleaseFiles, Weights
from dualmind.serving.loading import load
from dualmind.serving.production import read_state
from dualmind.serving.replay import Asked, Scorer
from dualmind.serving.server import Settings, serve
from dualmind.traffic.schema import check_month
from flows.serve import ServeParams
from flows.ui import end
from stages.params import RunParams, load_params

RELEASE, DIGEST = "demo", "0" * 64  # of no bundle: the demonstration has no signature
REQUESTS = 2000  # of a month
_READINGS = 4  # of the clock a request at most: its decision, its label and its feedback, and one to spare
_CLIENTS = 32
_START_LIMIT_S, _LABEL_LIMIT_S, _SWAP_LIMIT_S = 180.0, 120.0, 60.0
_TELLS_RIGHT, _TELLS_WRONG = 0.02, 0.1  # shares of answers on which a visitor says something, unasked


@dataclass(frozen=True, slots=True)
class Replayed:
    """What visitors saw of a month."""

    tiers: Mapping[str, int]  # answers by who gave them
    feedback: int  # verdicts that they gave unasked
    seconds: float

    def __str__(self) -> str:
        number = sum(self.tiers.values())
        mix = ", ".join(f"{count} {tier}" for tier, count in sorted(self.tiers.items()))
        return f"{number} answers in {self.seconds:.0f} s ({mix}), {self.feedback} verdicts of visitors"


def free_port() -> int:
    """A port of 127.0.0.1 at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def files_of(project: Path) -> ReleaseFiles:
    """The pair that the project serves."""
    one, two = (
        Weights(path, Checkpoint.open(path).digest)
        for path in (project / "artifacts/pretrain/system1", project / "artifacts/pretrain/system2")
    )
    own = project / "artifacts/calibrate"
    return ReleaseFiles(RELEASE, DIGEST, one, two, gate=own / "gate.json", threshold=own / "threshold.json")


def asked_in(month: str, *, shifted: bool) -> Asked:
    """The month's questions."""
    return Asked(REQUESTS, shifted=shifted, seed=int(check_month(month).replace("-", "")))


def run_server(project: Path, month: str, *, shifted: bool, port: int) -> None:
    """Serve until SIGTERM.

    Raises:
        DualmindError: what production names cannot be served, or the log cannot be written.
    """
    import torch

    torch.set_num_threads(load_params(RunParams, "run", project / "params.yaml").threads)
    params = load_params(ServeParams, "serve", project / "params.yaml")
    state = read_state(project / params.production)
    if state is None:
        raise PipelineError(f"nothing serves in {project}; make the project first")
    files, scorer = files_of(project), Scorer(asked_in(month, shifted=shifted))
    served = load(state, project / params.production, lambda _: files)
    values: dict[str, Any] = {name: getattr(params, name) for name in Settings.__dataclass_fields__}
    values |= {"port": port, "audit_rate": 1.0, "poll_ms": 200.0}
    values |= {"production": project / params.production, "traffic": project / params.traffic}
    begin = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    serve(
        Settings(**values),
        served,
        lambda _: files,
        generate_games({"valid_unseen": 1}, seed=0),
        labeller=lambda _: scorer,
        clock=SteppingClock(begin, timedelta(days=27) / (REQUESTS * _READINGS)),
    )


@contextmanager
def server(project: Path, root: Path, month: str, *, shifted: bool, port: int) -> Iterator[httpx.Client]:
    """The server as a process of its own; a client of it.

    Raises:
        PipelineError: it does not start.
    """
    command = [sys.executable, "-m", "flows.replay", str(project), month, str(int(shifted)), str(port)]
    with (project / f"serve-{month}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=root, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    limits = httpx.Limits(max_connections=_CLIENTS, keepalive_expiry=2.0)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, limits=limits, trust_env=False) as client:
            deadline = time.monotonic() + _START_LIMIT_S
            while not _answers(client):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise PipelineError(f"the server did not start; {project}/serve-{month}.log says why")
                time.sleep(0.2)
            yield client
    finally:
        end(process)


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").is_success
    except httpx.TransportError:
        return False


def replay(client: httpx.Client, month: str, *, shifted: bool) -> Replayed:
    """Ask a month's questions, give some feedback, and wait until the audit has labelled what it drew.

    Raises:
        PipelineError: the server refuses, or the labels do not come.
    """
    asked, begun = asked_in(month, shifted=shifted), time.monotonic()
    with ThreadPoolExecutor(_CLIENTS) as pool:
        seen = list(pool.map(lambda text: _ask(client, asked, text), asked.texts))
    deadline = time.monotonic() + _LABEL_LIMIT_S
    labelled = f'dualmind_labels_total{{source="{Scorer.source}"}} {float(len(seen))}'
    while labelled not in client.get("/metrics").text:
        if time.monotonic() > deadline:
            raise PipelineError(f"the audit's labels of {month} did not come within {_LABEL_LIMIT_S:g} s")
        time.sleep(0.2)
    tiers = Counter(tier for tier, _ in seen)
    return Replayed(tiers, sum(told for _, told in seen), time.monotonic() - begun)


def _ask(client: httpx.Client, asked: Asked, text: str) -> tuple[str, bool]:
    """Who answered, and whether the visitor gave a verdict: five times as often on a wrong answer."""
    while (answer := client.post("/act", json={"domain": "reasoning", "text": text})).status_code == 429:
        time.sleep(float(answer.headers["retry-after"]))
    if not answer.is_success:
        raise PipelineError(f"the server answered {answer.status_code}: {answer.text[:200]}")
    found = answer.json()
    right = asked.is_right_text(text, found["answer"])
    told = random.Random(text).random() < (_TELLS_RIGHT if right else _TELLS_WRONG)
    if told:
        client.post("/feedback", json={"request_id": found["request_id"], "correct": right}).raise_for_status()
    return str(found["tier"]), told


def wait_for_threshold(client: httpx.Client, value: float) -> int:
    """Wait until the running server serves a threshold; returns the number of its state.

    Raises:
        PipelineError: it does not.
    """
    deadline = time.monotonic() + _SWAP_LIMIT_S
    while (serves := client.get("/release").json())["threshold"] != value:
        if time.monotonic() > deadline:
            raise PipelineError(f"the server still serves {serves['threshold']}, not {value}")
        time.sleep(0.1)
    return int(serves["state"])


if __name__ == "__main__":
    run_server(Path(sys.argv[1]), sys.argv[2], shifted=sys.argv[3] == "1", port=int(sys.argv[4]))
