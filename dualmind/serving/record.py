"""Writes what was decided: the decision to the traffic log and, if that is wanted, its prompt beside it."""

import hashlib
import json
import math
from datetime import datetime
from pathlib import Path

from dualmind.agent.agent import Reply, Request
from dualmind.traffic.layout import append_lines, locked
from dualmind.traffic.schema import Decision

PROMPTS = "prompts"  # folder in the folder of the traffic


def as_decision(name: str, request: Request, reply: Reply, *, time: datetime, audited: bool, label: str) -> Decision:
    """A decision as the log holds it; a signal that is no number is left out, and such a confidence is none."""
    confidence = reply.confidence if math.isfinite(reply.confidence) else 0.0
    return Decision(
        time=time,
        request_id=name,
        domain=request.domain,
        prompt_sha256=hash_prompt(request.prompt),
        confidence=min(max(confidence, 0.0), 1.0),  # rounding may lead past either end
        difficulty=_finite(reply.difficulty),
        curvature=_finite(reply.curvature),
        score=reply.score,
        monitor=_finite(reply.monitor),
        tier=reply.tier,
        flops=reply.flops,
        latency_ms=reply.latency_ms,
        answer=reply.answer,
        system1_answer=reply.system1_answer,
        audited=audited,
        release=label,
    )


def hash_prompt(prompt: str) -> str:
    """What the log holds in place of the prompt."""
    return hashlib.sha256(prompt.encode()).hexdigest()


def keep_prompts(root: Path, month: str, decided: list[tuple[str, Request]]) -> None:
    """Append prompts to ``traffic/prompts/2026-11.jsonl`` by the ids of their requests, and wait for the disk.

    Raises:
        StorageError: the disk is full; none of them is there.
    """
    lines = [
        json.dumps(
            {
                "request_id": name,
                "domain": request.domain,
                "prompt": request.prompt,
                "candidates": request.candidates,
                "tried": request.tried,
            }
        )
        for name, request in decided
    ]
    folder = root / PROMPTS
    with locked(folder / ".lock"):
        append_lines(folder / f"{month}.jsonl", "".join(f"{line}\n" for line in lines).encode())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
