"""Synthetic traffic for tests: System 1's answers, right more often the higher their score."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from dualmind.agent.gate import confidence_gate
from dualmind.calibration.bounds import upper_bound
from dualmind.calibration.threshold import Threshold
from dualmind.lineage.keys import open_key
from dualmind.serving.files import ReleaseFiles, Weights
from dualmind.serving.production import Production
from dualmind.serving.store import ServingStore
from dualmind.traffic.log import DecisionLog
from dualmind.traffic.schema import Decision, Label
from tests.traffic.records import decision

WEIGHTS = "a" * 32
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
PARAMS = """
flow: {workers: 1, stage_limit_minutes: 10, lock_wait_minutes: 10}
recalibrate: {alpha: 0.05, delta: 0.1}
release: {name: r1, folder: releases, keys: keys, signer: development, why: test, promote: true}
calibration:
  traffic: traffic
  production: production
  grid_points: 201
  min_labelled: 0.95
  webhook: ""
  drift: {level: 0.01, min_effect: 0.1, max_rows: 100000, seed: 0}
  monitor: {level: 0.05, label_wait_hours: 0}
"""


def decisions(month: str, number: int, rng: np.random.Generator, **changes: object) -> list[tuple[Decision, Label]]:
    """Decisions of a month with their labels; a share of 1 - score**2 of the low half is wrong."""
    start = datetime.fromisoformat(f"{month}-02T00:00:00+00:00")
    found = []
    for i, score in enumerate(rng.uniform(0, 1, number)):
        time = start + timedelta(seconds=i)
        values: dict[str, object] = {
            "time": time,
            "score": float(score),
            "release": "r1#1",
            "tier": "system1" if score >= 0.6 else "full",
            **changes,
        }
        own = decision(f"{month}/{i}", **values)
        correct = bool(rng.random() < 1 - 0.5 * max(0.0, 0.8 - own.score))
        found.append((own, Label(time=time, request_id=own.request_id, correct=correct, source="scorer")))
    return found


def log_traffic(root: Path, month: str, pairs: list[tuple[Decision, Label]], *, labelled: int | None = None) -> None:
    """Log decisions and the labels of the first ``labelled`` (None: of all)."""
    with DecisionLog(root, batch=10**6, interval_s=3600.0) as log:
        waiting = [log.append(own) for own, _ in pairs]
        log.flush()
        waiting += [log.label(label, month) for _, label in pairs[:labelled]]
        log.flush()
        for future in waiting:
            future.result(timeout=60)


def threshold(value: float, gate_digest: str) -> Threshold:
    """A sound one."""
    return Threshold(
        value=value, alpha=0.05, delta=0.1, n=100, errors=1, upper_bound=upper_bound(1, 100, 0.1), system1_share=0.5,
        weights_digest=WEIGHTS, gate_digest=gate_digest, calibration_digest="c" * 32, previous_value=None,
    )  # fmt: skip


def serve(folder: Path, value: float = 0.95, release: str = "r1") -> None:
    """Let a threshold serve."""
    root = folder.parent
    gate, proof = root / "gate.json", root / "threshold.json"
    threshold(value, confidence_gate(WEIGHTS, ["reasoning"]).save(gate)).write(proof)
    files = ReleaseFiles(release, "f" * 64, Weights(root, WEIGHTS), Weights(root, "b" * 32), gate, proof)
    key = open_key(root / "keys", "development", FIRST)
    production = Production(folder, root / "releases/ledger.jsonl", key)
    production.promote(files, gate, proof, who="test", why="the first", time=FIRST)


def store(root: Path) -> ServingStore:
    """What serves in a project of tests."""
    return ServingStore(root / "releases/ledger.jsonl", open_key(root / "keys", "development", FIRST))
