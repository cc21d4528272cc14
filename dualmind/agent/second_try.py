"""Self-correction: System 2 writes a chain, looks it over, and writes it anew from the first step that it doubts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from dualmind.agent.stepwise import Chain, Writer, before_step, majority_of, whole_chains
from dualmind.domains.reasoning.question import parse_output
from dualmind.symbolic.checker import Checker


@dataclass(frozen=True, slots=True)
class Tries:
    """Two tries at a question; where nothing was doubted they are the same."""

    first: Chain
    second: Chain


def checker_doubt(checker: Checker) -> Callable[[str, Chain], int | None]:
    """Doubts the first step that a checker calls wrong, and an end that comes too soon or too late."""

    def doubt(prompt: str, chain: Chain) -> int | None:
        for end in range(1, len(chain.steps) + 1):
            if checker.valid(prompt, chain.steps[:end]) is False:
                return end - 1
        return len(chain.steps) if checker.finished(prompt, chain.steps) is False else None

    return doubt


def try_twice(
    writer: Writer,
    prompts: Sequence[str],
    doubt: Callable[[str, Chain], int | None],
    *,
    certain: bool,
    generator: torch.Generator | None,
    copies: int = 5,
    temperature: float = 1.0,
    max_words: int = 96,
) -> list[Tries]:
    """Write greedily, and where a step is doubted, several chains anew from there.

    What most of the chains answer is the second answer (see :func:`~dualmind.agent.stepwise.majority_of`). What was
    written before the doubted step is kept.

    Args:
        writer: writes.
        prompts: what is asked.
        doubt: the first step of a chain to be doubted, from 0; None: none.
        certain: is what is doubted surely wrong? Then only chains that begin with another step have a vote, else all
            of them have one, and the first try too.
        generator: source of the draws.
        copies: chains that are written anew, >= 1.
        temperature: of the draws.
        max_words: words of a chain at most.
    """
    found = []
    for prompt, (first,) in zip(
        prompts,
        whole_chains(writer, prompts, generator=None, copies=1, temperature=0.0, max_words=max_words),
        strict=True,
    ):
        place = doubt(prompt, first)
        prefix = "" if place is None else before_step(first.steps[:place])
        if place is None or len(prefix.split()) >= max_words:
            found.append(Tries(first, first))
            continue
        (rows,) = writer.write(
            [prompt], max_words=max_words, copies=copies, prefix=prefix, temperature=temperature, generator=generator
        )
        chains = [Chain(*parse_output(writer.text(own)), own.log_probability) for own in rows]
        doubted = first.steps[place : place + 1]
        voters = [chain for chain in chains if chain.answer]
        if certain:
            voters = [chain for chain in voters if chain.steps[place : place + 1] != doubted]
        else:
            voters.append(first)
        found.append(Tries(first, majority_of(voters) if voters else first))
    return found
