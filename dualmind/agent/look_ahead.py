"""Looks several steps ahead before each step: alternatives are written on, scored, and the first step of the best kept.

:func:`dualmind.agent.stepwise.think` judges a step as it stands. Here each candidate is written some steps further, all
in one batch, and is as good as the worst step on its way, so that one that leads nowhere is seen before it is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dualmind.agent.stepwise import (
    NUM_CANDIDATES,
    Candidate,
    Chain,
    StepScorer,
    Writer,
    before_step,
    ended_in_answer,
    write_answer,
)
from dualmind.domains.reasoning.question import MAX_HOPS, parse_output
from dualmind.errors import LearningError
from dualmind.models.decoding import Written
from dualmind.models.system2 import ANSWER


@dataclass(frozen=True, slots=True)
class Way:
    """A candidate with what was written after it.

    Attributes:
        steps: values, the candidate first; at least one.
        last: does the answer follow (True), or another step (False)? None where it is cut short.
        log_probability: of all of it, in nats.
    """

    steps: tuple[str, ...]
    last: bool | None
    log_probability: float


def look_ahead(
    writer: Writer,
    prompt: str,
    scorer: StepScorer,
    *,
    depth: int,
    generator: torch.Generator | None,
    num_candidates: int = NUM_CANDIDATES,
    temperature: float = 1.0,
    max_steps: int = MAX_HOPS,
    max_words: int = 96,
) -> Chain:
    """Write a chain, each step the beginning of the best of several ways; the answer follows greedily.

    Args:
        writer: writes the ways.
        prompt: what is asked.
        scorer: judges each step of each way; the worst one counts.
        depth: steps that are looked at, the candidate counted, >= 1.
        generator: source of the draws.
        num_candidates: ways a step.
        temperature: of the draws.
        max_steps: steps at most.
        max_words: words of the whole chain at most.

    Raises:
        LearningError: the depth is below 1.
    """
    if depth < 1:
        raise LearningError(f"depth = {depth}: give the number of steps to look at, at least 1")
    steps: list[str] = []
    total, last = 0.0, False
    while not last and len(steps) < max_steps:
        prefix = before_step(steps)
        if len(prefix.split()) >= max_words:
            return Chain(tuple(steps), "", total)
        (rows,) = writer.write(
            [prompt], max_words=max_words, copies=num_candidates, prefix=prefix,
            stop=_stops(len(steps), depth), temperature=temperature, generator=generator,
        )  # fmt: skip
        ways = [way for own in rows if (way := _way(writer, own, len(steps))) is not None]
        if not ways:
            return Chain(tuple(steps), "", total)
        best = max(
            ways, key=lambda way: (way.last is not None, _worst(scorer, prompt, steps, way), way.log_probability)
        )
        total += best.log_probability / len(best.steps)  # of a step on the way, as its own is not known apart
        if best.last is None and len(best.steps) == 1:
            return Chain(tuple(steps), "", total)
        steps.append(best.steps[0])
        last = bool(best.last) and len(best.steps) == 1
    answer, log_probability = write_answer(writer, prompt, steps, max_words)
    return Chain(tuple(steps), answer, total + log_probability)


def _stops(num_kept: int, depth: int) -> list[str]:
    """What ends a way: the answer, and every number but those of the steps that are looked at."""
    open_ = range(num_kept + 2, num_kept + depth + 1)
    return [*(f"#{number}" for number in range(1, MAX_HOPS + 2) if number not in open_), ANSWER]


def _way(writer: Writer, written: Written, num_kept: int) -> Way | None:
    """What was written after the number of a step; None where that is nothing."""
    steps = parse_output(writer.text(written))[0][num_kept:]
    if not steps or not all(steps):
        return None
    return Way(steps, ended_in_answer(writer, written, num_kept + len(steps)), written.log_probability)


def _worst(scorer: StepScorer, prompt: str, kept: Sequence[str], way: Way) -> float:
    """Score of the worst step on the way."""
    before = list(kept)
    scores = []
    for number, step in enumerate(way.steps, start=1):
        last = way.last if number == len(way.steps) else False
        scores += scorer.score(prompt, before, [Candidate(step, last, way.log_probability / len(way.steps))])
        before.append(step)
    return min(scores)
