"""Traffic that nobody asked for, to show and to try a calibration with.

System 1 is right the more often the higher its score, until a month in which people ask in a new way: it is as sure as
before, and more often wrong.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dualmind.traffic.log import DecisionLog
from dualmind.traffic.schema import Decision, Label, check_month

_SHIFTED_SHARE = 0.5  # of the requests are of the new kind
_SYSTEM1_FLOPS, _SYSTEM2_FLOPS = 10**7, 10**9


def decide(
    number: int, rng: np.random.Generator, *, shifted: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Scores (N,), whether System 1 is right (N,), and which requests are of the new kind (N,)."""
    scores = rng.beta(4, 2, number)
    new = (rng.random(number) < _SHIFTED_SHARE) & shifted
    wrong = 0.4 * np.maximum(0, 0.9 - scores) + 0.6 * new * np.maximum(0, 0.92 - scores)
    return scores, rng.random(number) >= wrong, new


def replay(
    root: Path, month: str, number: int, *, threshold: float, label: str, shifted: bool, rng: np.random.Generator
) -> None:
    """Log a month of decisions, of each of which System 1's answer is audited.

    Args:
        root: the folder ``traffic``.
        month: as in ``2026-11``.
        number: of decisions.
        threshold: System 1 answers from this score on.
        label: of what serves, for the column ``release``.
        shifted: whether half of the requests are of the new kind.
        rng: draws.

    Raises:
        TrafficError: the month is none, or is sealed.
        StorageError: the disk is full.
    """
    begin = datetime.strptime(check_month(month), "%Y-%m").replace(tzinfo=UTC)
    scores, right, new = decide(number, rng, shifted=shifted)
    gap = timedelta(days=27) / number
    with DecisionLog(root, batch=10_000, interval_s=0.05) as log:
        decided = []
        for i, score in enumerate(scores.tolist()):
            accepted = score >= threshold
            name = f"{month}-{i:06}"
            decided.append(
                log.append(
                    Decision(
                        time=begin + gap * i,
                        request_id=name,
                        domain="new phrasing" if new[i] else "reasoning",
                        prompt_sha256=hashlib.sha256(name.encode()).hexdigest(),
                        confidence=score,
                        difficulty=None,
                        curvature=None,
                        score=score,
                        monitor=0.0,
                        tier="system1" if accepted else "full",
                        flops=_SYSTEM1_FLOPS if accepted else _SYSTEM2_FLOPS,
                        latency_ms=3.0 if accepted else 30.0,
                        answer="yes",
                        system1_answer="yes",
                        audited=True,
                        release=label,
                    )
                )
            )
        for done in decided:
            done.result()
        labels = [
            log.label(
                Label(time=begin + gap * i, request_id=f"{month}-{i:06}", correct=bool(right[i]), source="scorer"),
                month,
            )
            for i in range(number)
        ]
        for done in labels:
            done.result()
