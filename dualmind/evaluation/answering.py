"""Answers to questions in free text, judged by hops."""

from collections import defaultdict
from collections.abc import Sequence

from dualmind.data.decisions import DecisionRow
from dualmind.models.system1 import System1
from dualmind.models.system2 import ANSWER, System2

MAX_ANSWER_WORDS = 16
MAX_RATIONALE_WORDS = 96
_BATCH = 128


def answers(system: System1 | System2, prompts: Sequence[str], *, direct: bool = False) -> list[str]:
    """The answer to each prompt, without steps.

    Args:
        system: who answers; System 1 at once, System 2 after its steps.
        prompts: what is asked.
        direct: let System 2 answer without writing steps.
    """
    found: list[str] = []
    for start in range(0, len(prompts), _BATCH):
        batch = prompts[start : start + _BATCH]
        if isinstance(system, System1):
            written = system.write(batch, max_words=MAX_ANSWER_WORDS)
        elif direct:
            written = system.write(batch, max_words=MAX_ANSWER_WORDS, prefix=ANSWER)
        else:
            written = system.write(batch, max_words=MAX_RATIONALE_WORDS)
        found += [answer_of(system.text(own[0])) for own in written]
    return found


def answer_of(text: str) -> str:
    """What stands after the last "=", or all where there is none."""
    return text.rpartition(ANSWER)[2].strip()


def share_right(system: System1 | System2, rows: Sequence[DecisionRow]) -> dict[str, float]:
    """Share of questions that are answered right, by hops and overall."""
    by_hops: dict[int, list[bool]] = defaultdict(list)
    for row, answer in zip(rows, answers(system, [row.prompt for row in rows]), strict=True):
        by_hops[row.hops].append(answer == row.target)
    everything = [right for own in by_hops.values() for right in own]
    shares = {f"answers_right_hops_{hops}": sum(own) / len(own) for hops, own in sorted(by_hops.items())}
    return {"answers_right": sum(everything) / len(everything), **shares}
