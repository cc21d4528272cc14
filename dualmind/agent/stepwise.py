"""Dynamic chain of thought: at each step several candidates are written in one batch, scored, and the best is kept.

The controls write whole chains (``#1 v1 #2 v2 = answer``) and choose among those: greedy, at random, by majority of
their answers, or by an oracle.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from dualmind.domains.reasoning.question import MAX_HOPS, number_steps, parse_output, write_output
from dualmind.models.decoding import Written
from dualmind.models.system2 import ANSWER
from dualmind.symbolic.calls import CLOSE, SymbolicCalls
from dualmind.symbolic.checker import Checker

NUM_CANDIDATES = 5
_INVALID = float("-inf")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposal for the next step.

    Attributes:
        step: its value, without its number.
        last: does the answer follow (True), or another step (False)? None where it is cut short: it is empty, or it
            ends without either.
        log_probability: of the value and of the word that ends it, in nats.
    """

    step: str
    last: bool | None
    log_probability: float


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps and an answer.

    Attributes:
        steps: values, without their numbers.
        answer: empty where the chain did not get to one.
        log_probability: of all that was written, in nats.
        unsupported: positions, from 0, of steps kept although the scorer ruled out every candidate.
        scores: of every candidate, by step; empty for whole chains.
    """

    steps: tuple[str, ...]
    answer: str
    log_probability: float
    unsupported: tuple[int, ...] = ()
    scores: tuple[tuple[float, ...], ...] = ()

    @property
    def text(self) -> str:
        """The chain as an agent says it."""
        return write_output(self.steps, self.answer)


class Writer(Protocol):
    """What writes: :class:`~dualmind.models.text_model.TextModel`."""

    def write(
        self,
        prompts: Sequence[str],
        *,
        max_words: int,
        copies: int = 1,
        prefix: str = "",
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> list[list[Written]]:
        """``copies`` texts for each prompt."""
        ...

    def text(self, written: Written) -> str:
        """What was written, in words."""
        ...


class StepScorer(Protocol):
    """Judges candidates."""

    def score(self, prompt: str, kept: Sequence[str], candidates: Sequence[Candidate]) -> list[float]:
        """A score for each candidate after the steps kept so far: more is better, minus infinity rules it out."""
        ...


class LogProbabilityScorer:
    """Takes what System 2 thinks likeliest."""

    def score(self, prompt: str, kept: Sequence[str], candidates: Sequence[Candidate]) -> list[float]:  # noqa: ARG002 - the interface
        """See :class:`StepScorer`."""
        return [candidate.log_probability for candidate in candidates]


class SymbolicScorer:
    """Rules out what a checker calls invalid: a wrong value, an answer too soon or too late; else takes the likeliest.

    What the checker cannot judge stays in.
    """

    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    def score(self, prompt: str, kept: Sequence[str], candidates: Sequence[Candidate]) -> list[float]:
        """See :class:`StepScorer`."""
        return [c.log_probability if self._holds(prompt, [*kept, c.step], c.last) else _INVALID for c in candidates]

    def _holds(self, prompt: str, steps: Sequence[str], last: bool | None) -> bool:
        finished = self._checker.finished(prompt, steps)
        return self._checker.valid(prompt, steps) is not False and (finished is None or finished == last)


class FunctionScorer:
    """Scores by any function, such as a reward model, of the prompt and the steps up to the candidate."""

    def __init__(self, function: Callable[[str, Sequence[Sequence[str]]], Sequence[float]]) -> None:
        """``function`` scores several chains of steps for one prompt at once."""
        self._function = function

    def score(self, prompt: str, kept: Sequence[str], candidates: Sequence[Candidate]) -> list[float]:
        """See :class:`StepScorer`."""
        scores = list(self._function(prompt, [[*kept, candidate.step] for candidate in candidates]))
        assert len(scores) == len(candidates), f"{len(scores)} scores for {len(candidates)} candidates"
        return scores


def think(
    writer: Writer,
    prompt: str,
    scorer: StepScorer,
    *,
    generator: torch.Generator | None,
    num_candidates: int = NUM_CANDIDATES,
    temperature: float = 1.0,
    max_steps: int = MAX_HOPS,
    max_words: int = 96,
) -> Chain:
    """Write a chain step by step, each the best of several candidates; the answer follows greedily.

    Args:
        writer: proposes the candidates.
        prompt: what is asked.
        scorer: picks the best.
        generator: source of the draws.
        num_candidates: proposals a step.
        temperature: of the draws.
        max_steps: steps at most.
        max_words: words of the whole chain at most.
    """
    steps: list[str] = []
    unsupported: list[int] = []
    scores: list[tuple[float, ...]] = []
    total, last = 0.0, False
    while not last and len(steps) < max_steps:
        prefix = before_step(steps)
        if len(prefix.split()) >= max_words:
            return Chain(tuple(steps), "", total, tuple(unsupported), tuple(scores))
        (written,) = writer.write(
            [prompt], max_words=max_words, copies=num_candidates, prefix=prefix, stop=_STOP,
            temperature=temperature, generator=generator,
        )  # fmt: skip
        candidates = [_candidate(writer, own, len(steps)) for own in written]
        scores.append(tuple(scorer.score(prompt, steps, candidates)))
        best, supported = _best(candidates, scores[-1])
        total += best.log_probability
        if not supported:
            unsupported.append(len(steps))
        if best.last is None:
            return Chain(tuple(steps), "", total, tuple(unsupported), tuple(scores))
        steps.append(best.step)
        last = best.last
    answer, log_probability = write_answer(writer, prompt, steps, max_words)
    return Chain(tuple(steps), answer, total + log_probability, tuple(unsupported), tuple(scores))


def before_step(steps: Sequence[str]) -> str:
    """What is given beforehand so that the next step is written: the steps so far and the number of the next."""
    return " ".join([*number_steps(steps), f"#{len(steps) + 1}"])


def write_answer(writer: Writer, prompt: str, steps: Sequence[str], max_words: int) -> tuple[str, float]:
    """The likeliest answer after all steps and its log-probability, in nats; empty and 0 where no word is left."""
    prefix = " ".join([*number_steps(steps), ANSWER])
    if len(prefix.split()) >= max_words:
        return "", 0.0
    ((written,),) = writer.write([prompt], max_words=max_words, prefix=prefix)
    return parse_output(writer.text(written))[1], written.log_probability


def ended_in_answer(writer: Writer, written: Written, num_steps: int) -> bool | None:
    """Was it the answer that followed ``num_steps`` steps (True), or the next one (False)? None where neither did."""
    if written.stopped_by is None:
        return None
    ended_by = writer.text(Written((written.stopped_by,), 0.0, 0.0, complete=True))
    return {ANSWER: True, f"#{num_steps + 1}": False}.get(ended_by)


def write_with_calls(writer: Writer, prompt: str, calls: SymbolicCalls, *, max_words: int = 96) -> str:
    """Write a text greedily; each ``[ expression ]`` in it is answered as soon as it is closed, and read on from there.

    Args:
        writer: writes.
        prompt: what is asked.
        calls: answers.
        max_words: words at most, those of the answers counted; a last answer that does not fit is cut off.
    """
    text = ""
    while len(text.split()) < max_words:
        ((written,),) = writer.write([prompt], max_words=max_words, prefix=text, stop=(CLOSE,))
        text = writer.text(written)
        if written.stopped_by is None:
            break
        text = calls.complete(f"{text} {CLOSE}".strip())
    return " ".join(text.split()[:max_words])


def whole_chains(
    writer: Writer,
    prompts: Sequence[str],
    *,
    generator: torch.Generator | None,
    copies: int = NUM_CANDIDATES,
    temperature: float = 1.0,
    max_words: int = 96,
) -> list[list[Chain]]:
    """Chains written in one go, ``copies`` for each prompt; one copy at temperature 0 is the greedy chain."""
    rows = writer.write(prompts, max_words=max_words, copies=copies, temperature=temperature, generator=generator)
    return [[Chain(*parse_output(writer.text(own)), own.log_probability) for own in row] for row in rows]


def random_of(chains: Sequence[Chain], rng: np.random.Generator) -> Chain:
    """Any of the chains."""
    return chains[int(rng.integers(len(chains)))]


def majority_of(chains: Sequence[Chain]) -> Chain:
    """The likeliest chain with the answer that most have (Wang et al. 2023, self-consistency).

    Chains without an answer have no vote; of answers that as many have, that of the likeliest chain wins.
    """
    votes = Counter(chain.answer for chain in chains if chain.answer)
    return max(chains, key=lambda chain: (votes[chain.answer], chain.log_probability))


def oracle_of(chains: Sequence[Chain], score: Callable[[Chain], float]) -> Chain:
    """The best chain by the true score, which no agent knows: an upper bound of what choosing can give."""
    return max(chains, key=lambda chain: (score(chain), chain.log_probability))


_STOP = (*(f"#{number}" for number in range(1, MAX_HOPS + 2)), ANSWER)


def _candidate(writer: Writer, written: Written, num_kept: int) -> Candidate:
    """What was written after the number of a step."""
    steps = parse_output(writer.text(written))[0]
    step = steps[num_kept] if len(steps) == num_kept + 1 else ""
    last = ended_in_answer(writer, written, num_kept + 1) if step else None
    return Candidate(step, last, written.log_probability)


def _best(candidates: Sequence[Candidate], scores: Sequence[float]) -> tuple[Candidate, bool]:
    """The candidate of the best score, and whether the scorer supports it; without any, the likeliest.

    One that is cut short leads nowhere, so it is taken only where all are.
    """

    def worth(pair: tuple[Candidate, float]) -> tuple[bool, float, float]:
        candidate, score = pair
        return candidate.last is not None, score, candidate.log_probability

    best, score = max(zip(candidates, scores, strict=True), key=worth)
    return best, score > _INVALID
