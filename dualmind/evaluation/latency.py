"""Latency and throughput of a command model on recorded decisions."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dualmind.evaluation.playing import CommandModel

_WARM_UP = 20  # calls before the first one that counts: allocator and caches settle


@dataclass(frozen=True, slots=True)
class Latency:
    """Wall time of single decisions."""

    p50_ms: float
    p99_ms: float


def latency(model: CommandModel, decisions: Sequence[tuple[str, Sequence[str]]]) -> Latency:
    """Time one decision a call (batch 1), text in and log-probabilities out.

    Args:
        model: scores the commands.
        decisions: (prompt, candidates) pairs; each is timed once, after a short warm-up.
    """
    for prompt, candidates in decisions[:_WARM_UP]:
        model.score([prompt], [candidates])
    times_ms = []
    for prompt, candidates in decisions:
        start = time.perf_counter()
        model.score([prompt], [candidates])
        times_ms.append(1e3 * (time.perf_counter() - start))
    p50, p99 = np.percentile(times_ms, [50, 99])
    return Latency(float(p50), float(p99))


def throughput(model: CommandModel, decisions: Sequence[tuple[str, Sequence[str]]], batch_size: int) -> float:
    """Decisions per second in batches of ``batch_size``."""
    batches = [decisions[i : i + batch_size] for i in range(0, len(decisions), batch_size)]
    prompts, candidates = zip(*batches[0], strict=True)
    model.score(prompts, candidates)
    start = time.perf_counter()
    for batch in batches:
        prompts, candidates = zip(*batch, strict=True)
        model.score(prompts, candidates)
    return len(decisions) / (time.perf_counter() - start)
