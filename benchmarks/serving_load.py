"""Load on the real server, closed and open loop, and its latency against System 2 alone.

    python -m benchmarks.serving_load [--artifacts ARTIFACTS] [--seconds 60]

Needs what ``make repro`` made. The client runs on the same machine and takes its share of the cores.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from scipy.stats import quantile_test

from benchmarks.results_file import Row, write_rows
from dualmind.agent.gate import Gate
from dualmind.calibration.threshold import Threshold
from dualmind.domains.household.generate import generate_games
from dualmind.domains.reasoning.generate import Mix, generate_questions
from dualmind.evaluation.intervals import Interval
from dualmind.lineage.keys import make_key
from dualmind.models.checkpoint import Checkpoint
from dualmind.serving.files import ReleaseFiles, Weights
from dualmind.serving.loading import load
from dualmind.serving.production import Production, read_state
from dualmind.serving.server import Settings, serve
from stages.calibrate import SOURCE

NAME = "serving_load"
TIME_LIMIT_MS, BATCH_SIZE, QUEUE = 5000.0, 32, 256
MIX = Mix(easy_share=0.85, max_hops=8)  # params' traffic_mix: mostly easy
LOADS = (1, 2, 4)  # times capacity
START_LIMIT_S = 400.0  # importing torch takes minutes on a machine that is busy
ABOVE_ALL = 2.0  # a score that no gate gives


@dataclass
class Seen:
    """What a client saw."""

    latencies: list[float] = field(default_factory=list)  # seconds, of accepted requests
    ids: list[str] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)


def open_artifacts(artifacts: Path) -> ReleaseFiles:
    """The artifacts as a release without a signature."""
    one, two = (
        Weights(path, Checkpoint.open(path).digest)
        for path in (artifacts / SOURCE.name / name for name in ("system1", "system2"))
    )
    own = artifacts / "calibrate"
    return ReleaseFiles("bench", "bench", one, two, own / "gate.json", own / "threshold.json")


def child(artifacts: Path, root: Path, port: int) -> None:
    """The server."""
    torch.set_num_threads(1)
    state = read_state(root / "production")
    assert state is not None
    served = load(state, root / "production", lambda _: open_artifacts(artifacts))
    settings = Settings(
        host="127.0.0.1", port=port, batch_size=BATCH_SIZE, gather_ms=4.0, queue=QUEUE, time_limit_ms=TIME_LIMIT_MS,
        audit_rate=0.0, store_prompts=False, production=root / "production", traffic=root / "traffic", max_games=10,
        game_expiry_s=60.0, poll_ms=100.0,
    )  # fmt: skip
    serve(settings, served, lambda _: open_artifacts(artifacts), generate_games({"valid_unseen": 1}, seed=0))


async def ask(client: httpx.AsyncClient, text: str, seen: Seen) -> None:
    start = time.perf_counter()
    try:
        answer = await client.post("/act", json={"domain": "reasoning", "text": text})
    except httpx.TransportError:  # no answer at all, so nothing was acknowledged
        seen.codes[0] += 1
        return
    seen.codes[answer.status_code] += 1
    if answer.status_code == 200:
        seen.latencies.append(time.perf_counter() - start)
        seen.ids.append(answer.json()["request_id"])


async def closed_loop(client: httpx.AsyncClient, texts: Sequence[str], seconds: float, clients: int) -> Seen:
    """Each of so many clients asks again as soon as it has its answer."""
    seen, end = Seen(), time.perf_counter() + seconds

    async def one(first: int) -> None:
        turn = first
        while time.perf_counter() < end:
            before = seen.codes[429]
            await ask(client, texts[turn % len(texts)], seen)
            turn += clients
            if seen.codes[429] > before:
                await asyncio.sleep(0.1)  # a polite client

    await asyncio.gather(*(one(i) for i in range(clients)))
    return seen


async def open_loop(client: httpx.AsyncClient, texts: Sequence[str], seconds: float, rate: float) -> Seen:
    """Requests come at random times (Poisson), whether or not those before are answered."""
    rng, seen = np.random.default_rng(0), Seen()
    begun, at = time.perf_counter(), 0.0
    asked: list[asyncio.Task[None]] = []
    while at < seconds:
        await asyncio.sleep(max(0.0, begun + at - time.perf_counter()))
        asked.append(asyncio.create_task(ask(client, texts[len(asked) % len(texts)], seen)))
        at += rng.exponential(1 / rate)
    await asyncio.gather(*asked)
    return seen


async def one_by_one(client: httpx.AsyncClient, texts: Sequence[str]) -> list[float]:
    """Seconds of each request, without any load."""
    seen = Seen()
    for text in texts:
        await ask(client, text, seen)
    assert len(seen.latencies) == len(texts), seen.codes
    return seen.latencies


async def measure(url: str, texts: Sequence[str], seconds: float) -> dict[str, Seen]:
    """All loads; capacity is what a closed loop of as many clients as a batch has room for gets through."""
    # an idle connection is given up before the server does so, which takes 5 s: else a request could cross its end
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=4 * BATCH_SIZE, keepalive_expiry=2.0)
    found = {}
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits, trust_env=False) as client:
        for times in LOADS:
            name = f"closed loop, {times} x capacity"
            found[name] = await closed_loop(client, texts, seconds, times * BATCH_SIZE)
            print(name, dict(found[name].codes), flush=True)
        capacity = len(found["closed loop, 1 x capacity"].ids) / seconds
        for times in LOADS:
            name = f"open loop, {times} x capacity"
            found[name] = await open_loop(client, texts, seconds, times * capacity)
            print(f"{name} ({times * capacity:.0f}/s)", dict(found[name].codes), flush=True)
    return found


async def compare(url: str, texts: Sequence[str], change: Callable[[], Awaitable[None]]) -> Interval:
    """Mean latency as it serves over that of System 2 alone, on the same questions; pairs are resampled together."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        await one_by_one(client, texts[:20])  # warm
        ours = np.array(await one_by_one(client, texts))
        await change()
        theirs = np.array(await one_by_one(client, texts))
    rng = np.random.default_rng(0)
    picks = rng.integers(len(ours), size=(10_000, len(ours)))
    ratios = ours[picks].mean(1) / theirs[picks].mean(1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return Interval(float(ours.mean() / theirs.mean()), float(low), float(high))


def only_system2(files: ReleaseFiles, folder: Path) -> tuple[Path, Path]:
    """A gate and a threshold with which all of System 2 answers all."""
    gate = Gate.load(files.gate, files.system1.digest)
    folder.mkdir()
    digest = Gate.of(gate.file.model_copy(update={"deep": ABOVE_ALL})).save(folder / "gate.json")
    threshold = Threshold.read(files.threshold).model_copy(update={"value": ABOVE_ALL, "gate_digest": digest})
    threshold.write(folder / "threshold.json")
    return folder / "gate.json", folder / "threshold.json"


def p99(latencies: Sequence[float]) -> Interval | None:
    """In milliseconds, with the interval of order statistics; None where nothing was accepted."""
    if not latencies:
        return None
    sample = 1e3 * np.array(latencies)
    bounds: Any = quantile_test(sample, q=float(np.median(sample)), p=0.99).confidence_interval(0.95)
    high = bounds.high if np.isfinite(bounds.high) else sample.max()
    low = bounds.low if np.isfinite(bounds.low) else sample.min()
    return Interval(float(np.quantile(sample, 0.99)), float(low), float(high))


def lost_or_repeated(traffic: Path, told: Sequence[str]) -> int:
    """Acknowledged decisions that are not in the log, and ids that stand there twice."""
    lines = [line for path in traffic.glob("????-??/decisions-*.jsonl") for line in path.read_text().splitlines()]
    names = Counter(json.loads(line)["request_id"] for line in lines)
    return sum(name not in names for name in told) + sum(number - 1 for number in names.values())


def start(artifacts: Path, root: Path) -> tuple["subprocess.Popen[bytes]", str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.serving_load", "--child", str(root), str(port)]
    process = subprocess.Popen([*command, "--artifacts", str(artifacts)], env={**os.environ, "OMP_NUM_THREADS": "1"})
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx.get(f"{url}/health", timeout=5, trust_env=False)
        except httpx.TransportError:
            time.sleep(0.2)
        else:
            return process, url
    process.kill()
    raise SystemExit("the server did not start; its output above says why")


def main(artifacts: Path, seconds: float, questions: int) -> None:
    """Run all loads and write the rows."""
    begun = time.monotonic()
    texts = [own.text for own in generate_questions({"valid_unseen": questions}, MIX, seed=11)]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = open_artifacts(artifacts)
        production = Production(root / "production", root / "ledger.jsonl", make_key(root / "keys", "bench"))
        production.promote(files, files.gate, files.threshold, who="benchmark", why="default")
        process, url = start(artifacts, root)

        async def change() -> None:
            state = production.promote(files, *only_system2(files, root / "only"), who="benchmark", why="baseline")
            async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
                async with asyncio.timeout(START_LIMIT_S):
                    while (await client.get("/release")).json()["state"] != state.number:
                        await asyncio.sleep(0.05)

        try:
            found = asyncio.run(measure(url, texts, seconds))
            ratio = asyncio.run(compare(url, texts, change))
        finally:
            process.terminate()
            process.wait(timeout=60)
        told = [name for seen in found.values() for name in seen.ids]
        wrong = lost_or_repeated(root / "traffic", told)
    write_rows(NAME, rows(found, ratio, wrong, len(told), begun, seconds))


def rows(found: dict[str, Seen], ratio: Interval, wrong: int, told: int, begun: float, seconds: float) -> list[Row]:
    command = f"python -m benchmarks.serving_load --seconds {seconds:g}"
    lost = Row.of(
        Interval(wrong, wrong, wrong), target=0, at_most=True, begun=begun, claim="lost or duplicated decisions",
        unit="decisions", baseline=f"{told} answers under six loads, and a stop", seeds=1, command=command,
    )  # fmt: skip
    late = [
        Row.of(
            p99(seen.latencies), target=TIME_LIMIT_MS, at_most=True, begun=begun,
            claim=f"p99 of accepted requests, {name}", unit="ms",
            baseline=f"{len(seen.ids) / seconds:.1f} answers/s; "
            + ", ".join(f"{number} x HTTP {code}" for code, number in sorted(seen.codes.items())),
            seeds=1, command=command,
        )
        for name, seen in found.items()
    ]  # fmt: skip
    share = Row.of(
        ratio, target=0.33, at_most=True, begun=begun, claim="mean latency at the default mix / System 2 alone",
        unit="ratio", baseline="System 2 alone, same questions, same server", seeds=1, command=command,
    )  # fmt: skip
    done = [lost, *late, share]
    for row in done:
        print(f"{row.claim}: {row.value} {row.unit} [{row.low}, {row.high}], reached: {row.reached} ({row.baseline})")
    return done


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving_load")
    parser.add_argument("--artifacts", type=Path, default=Path("artifacts"))
    parser.add_argument("--seconds", type=float, default=60.0, help="of each of the six loads")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--child", nargs=2, metavar=("ROOT", "PORT"), help="used by the benchmark itself")
    given = parser.parse_args()
    if given.child:
        child(given.artifacts, Path(given.child[0]), int(given.child[1]))
    else:
        main(given.artifacts, given.seconds, given.questions)
