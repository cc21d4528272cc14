"""Answers to questions in free text, judged by hops."""

from collections import defaultdict
from collections.abc import Sequence

from dualmind.data.decisions import DecisionRow
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2

_BATCH = 128


def answers(system: System1 | System2, prompts: Sequence[str]) -> list[str]:
    """The answer to each prompt: System 1's at once, System 2's after its steps."""
    found: list[str] = []
    for start in range(0, len(prompts), _BATCH):
        batch = prompts[start : start + _BATCH]
        if isinstance(system, System1):
            found += [first.answer for first in system.answer(batch, [()] * len(batch))]
        else:
            found += [thinking.answer for thinking in system.answer(batch)]
    return found


def share_right(system: System1 | System2, rows: Sequence[DecisionRow]) -> dict[str, float]:
    """Share of questions that are answered right, by hops and overall."""
    by_hops: dict[int, list[bool]] = defaultdict(list)
    for row, answer in zip(rows, answers(system, [row.prompt for row in rows]), strict=True):
        by_hops[row.hops].append(answer == row.target)
    everything = [right for own in by_hops.values() for right in own]
    shares = {f"answers_right_hops_{hops}": sum(own) / len(own) for hops, own in sorted(by_hops.items())}
    return {"answers_right": sum(everything) / len(everything), **shares}
