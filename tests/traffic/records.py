"""Decisions and labels for tests."""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dualmind.traffic.log import DecisionLog
from dualmind.traffic.schema import Decision, Label

MONTH = "2026-11"
START = datetime(2026, 11, 5, 12, tzinfo=UTC)


def decision(name: str | int, **changes: Any) -> Decision:
    """A decision with the id ``name``; a number also sets the second."""
    second = name if isinstance(name, int) else 0
    fields: dict[str, Any] = {
        "time": START + timedelta(seconds=second),
        "request_id": str(name),
        "domain": "household",
        "prompt_sha256": hashlib.sha256(str(name).encode()).hexdigest(),
        "confidence": 0.75,
        "difficulty": None,
        "curvature": -0.5,
        "score": 0.8,
        "monitor": 0.0,
        "tier": "system1",
        "flops": 10**9,
        "latency_ms": 1.5,
        "answer": "go to drawer 1",
        "system1_answer": "go to drawer 1",
        "audited": True,
        "release": "r1",
    }
    return Decision(**{**fields, **changes})


def label(name: str | int, correct: bool = True, source: Any = "scorer", given: bool | None = None) -> Label:
    time = START + timedelta(days=1)
    return Label(time=time, request_id=str(name), correct=correct, answer_correct=given, source=source)


def open_log(root: Path) -> DecisionLog:
    """A log that writes only when it is told to."""
    return DecisionLog(root, batch=10**6, interval_s=3600.0)


def log_all(root: Path, *records: Decision | Label, month: str = MONTH) -> list[str]:
    """Log decisions and labels, in order, and wait until they are acknowledged; returns where they went."""
    with open_log(root) as log:
        done = []
        for record in records:
            if isinstance(record, Decision):
                done.append(log.append(record))
                log.flush()
            else:
                done.append(log.label(record, month))
        log.flush()
        return [future.result(timeout=60) for future in done]
