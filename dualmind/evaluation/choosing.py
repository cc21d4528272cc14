"""Commands that System 2 chooses, judged against an expert's."""

from collections.abc import Sequence

from dualmind.data.decisions import DecisionRow
from dualmind.models.system2 import System2

_BATCH = 128


def share_chosen(system2: System2, rows: Sequence[DecisionRow]) -> float:
    """Share of decisions with commands, at least one, at which System 2 chooses as the expert did."""
    hits = 0
    for start in range(0, len(rows), _BATCH):
        own = rows[start : start + _BATCH]
        thoughts = system2.choose([row.prompt for row in own], [row.candidates for row in own])
        hits += sum(thought.answer == row.target for thought, row in zip(thoughts, own, strict=True))
    return hits / len(rows)
