"""One agent of two systems: System 1 answers, and where the gate does not trust it, System 2 is called."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from dualmind.agent import cost
from dualmind.agent.gate import Gate
from dualmind.agent.signals import monitor
from dualmind.errors import RequestError
from dualmind.models.config import CompactConfig, ReasonerConfig
from dualmind.models.system1 import FirstAnswer, System1
from dualmind.models.system2 import System2, Thinking, with_plan

Tier = Literal["system1", "shallow", "full"]
SHALLOW_STEPS = 2  # of the reasoning level, in the short tier
MAX_WORDS = 512  # of a prompt


@dataclass(frozen=True, slots=True)
class Request:
    """What an agent is asked."""

    domain: str
    prompt: str  # as a model reads it
    candidates: tuple[str, ...] = ()  # admissible commands as a model reads them; none for a question
    tried: tuple[str, ...] = ()  # commands of this episode so far, as a model reads them


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent says, who said it, why, and at what cost."""

    answer: str
    system1_answer: str  # what System 1 says itself; it always runs first, whoever answers in the end
    tier: Tier
    confidence: float
    difficulty: float
    curvature: float
    monitor: float
    score: float  # of the gate
    probability: float  # that System 1 gave its answer, at the domain's temperature
    steps: tuple[str, ...]  # System 2's, or none
    flops: int
    latency_ms: float  # wall time of the call, shared by all requests of a batch
    remembered: bool = False  # System 2 has given this answer before, so it was not asked again; the tier stays its own


class Memory(Protocol):
    """What spares System 2 its thinking: :class:`~dualmind.memory.recall.Recall`."""

    def recall(
        self, requests: Sequence[Request], firsts: Sequence[FirstAnswer], tiers: Sequence[Tier]
    ) -> list[Thinking | None]:
        """Checked answers to exactly these requests, where System 2 is called and they are known."""
        ...

    def keep(
        self,
        requests: Sequence[Request],
        firsts: Sequence[FirstAnswer],
        tiers: Sequence[Tier],
        thoughts: Sequence[Thinking | None],
    ) -> None:
        """Remember what System 2 has just answered; None where it was not asked."""
        ...


class Agent:
    """Both systems behind a gate.

    With a memory, what System 2 answered before is not thought out again. The threshold's proof is about the requests
    that score at or above it, and those System 1 answers alone, memory or not: neither scores nor tiers nor System 1's
    own answers depend on what is remembered.

    Args:
        system1: answers first.
        system2: is called where the gate's score is below the threshold.
        gate: fitted on this System 1.
        threshold: of the gate's score; minus infinity: System 1 alone, infinity: System 2 alone.
        deep: score below which System 2 writes its steps; the gate's own if None.
        memory: of System 2's answers, or none.
    """

    def __init__(
        self,
        system1: System1,
        system2: System2,
        gate: Gate,
        threshold: float,
        deep: float | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.system1, self.system2, self.gate, self.threshold = system1, system2, gate, threshold
        self.deep = gate.file.deep if deep is None else deep
        self.memory = memory

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Answer requests in one batch.

        Raises:
            RequestError: a prompt is empty or longer than 512 words, or a command is empty.
            GatewayError: the memory is damaged.
        """
        for request in requests:
            check(request)
        start = time.perf_counter()
        firsts = self.system1.answer([r.prompt for r in requests], [r.candidates for r in requests])
        signals, scores = self.judge(requests, firsts)
        tiers = [self.tier(float(score)) for score in scores]
        thoughts, remembered = self._remember_or_think(requests, firsts, tiers)
        probabilities = self.gate.probabilities(
            np.array([first.log_probability for first in firsts]), [r.domain for r in requests]
        )
        latency_ms = 1e3 * (time.perf_counter() - start)
        return [
            Reply(
                answer=first.answer if thought is None else thought.answer,
                system1_answer=first.answer,
                tier=tier,
                confidence=float(confidence),
                difficulty=float(difficulty),
                curvature=float(curvature),
                monitor=float(repeats),
                score=float(score),
                probability=float(probability),
                steps=() if thought is None else thought.steps,
                flops=self._flops(request, first, tier, None if known else thought),
                latency_ms=latency_ms,
                remembered=known,
            )
            for request, first, thought, known, tier, score, probability, (
                confidence, difficulty, curvature, repeats,
            ) in zip(
                requests, firsts, thoughts, remembered, tiers, scores, probabilities, signals, strict=True
            )
        ]  # fmt: skip

    def _remember_or_think(
        self, requests: Sequence[Request], firsts: Sequence[FirstAnswer], tiers: Sequence[Tier]
    ) -> tuple[list[Thinking | None], list[bool]]:
        """System 2's answers where it is called, of now or of before, and which of them are remembered."""
        if self.memory is None:
            return self.think(requests, tiers), [False] * len(requests)
        known = self.memory.recall(requests, firsts, tiers)
        assert all(own is None or tier != "system1" for own, tier in zip(known, tiers, strict=True))
        asked: list[Tier] = ["system1" if own is not None else tier for own, tier in zip(known, tiers, strict=True)]
        thoughts = self.think(requests, asked)
        self.memory.keep(requests, firsts, tiers, thoughts)
        both = [new if old is None else old for old, new in zip(known, thoughts, strict=True)]
        return both, [own is not None for own in known]

    def judge(self, requests: Sequence[Request], firsts: Sequence[FirstAnswer]) -> tuple[np.ndarray, np.ndarray]:
        """Signals (N, 4) and scores (N,) of System 1's answers; a command that is no number counts as no trust."""
        signals = self.gate.signals(
            np.array([first.confidence for first in firsts]),
            np.stack([first.reading for first in firsts]),
            np.array(
                [monitor(r.tried, f.answer) if r.candidates else 0.0 for r, f in zip(requests, firsts, strict=True)]
            ),
        )
        return signals.matrix(), self.gate.scores(signals, [request.domain for request in requests])

    def tier(self, score: float) -> Tier:
        """Who answers at a score."""
        if score >= self.threshold:
            return "system1"
        return "shallow" if score >= self.deep else "full"

    def think(self, requests: Sequence[Request], tiers: Sequence[Tier]) -> list[Thinking | None]:
        """System 2's answers where it is called; those of one tier and kind in one batch."""
        thoughts: list[Thinking | None] = [None] * len(requests)
        for tier in ("shallow", "full"):
            steps = SHALLOW_STEPS if tier == "shallow" else None
            called = [i for i, own in enumerate(tiers) if own == tier]
            choices = [i for i in called if requests[i].candidates]
            questions = [i for i in called if not requests[i].candidates]
            found: list[Thinking] = []
            if choices:
                found += self.system2.choose(
                    [requests[i].prompt for i in choices], [requests[i].candidates for i in choices], max_steps=steps
                )
            if questions:
                prompts = [requests[i].prompt for i in questions]
                found += self.system2.answer(prompts, max_steps=steps, direct=tier == "shallow")
            for i, thought in zip([*choices, *questions], found, strict=True):
                thoughts[i] = thought
        return thoughts

    def _flops(self, request: Request, first: FirstAnswer, tier: Tier, thought: Thinking | None) -> int:
        """Of both systems; published models are not counted and give 0."""
        config1, config2 = self.system1.model.config, self.system2.model.config
        if not isinstance(config1, CompactConfig) or not isinstance(config2, ReasonerConfig):
            return 0
        words = len(request.prompt.split()) + 1
        total = cost.encoder_flops(config1, words)
        if request.candidates:
            total += cost.scoring_flops(config1, words, len(request.candidates))
        else:
            total += cost.writing_flops(config1, words, len(first.answer.split()) + 1)
        if thought is None:
            return total
        steps = SHALLOW_STEPS if tier == "shallow" else config2.reasoning_steps
        memory = words + config2.num_slots
        total += cost.encoder_flops(config2, words) + cost.levels_flops(config2, words, steps)
        total += cost.writing_flops(config2, memory, thought.num_words + 1)
        if request.candidates:  # it reads the prompt again, with its plan
            again = len(with_plan(request.prompt, thought.steps[0]).split()) + 1
            total += cost.encoder_flops(config2, again) + cost.levels_flops(config2, again, steps)
            total += cost.scoring_flops(config2, again + config2.num_slots, len(request.candidates))
        return total


def check(request: Request) -> None:
    """Refuse what no system should read.

    Raises:
        RequestError: see :meth:`Agent.act`.
    """
    words = request.prompt.split()
    if not words:
        raise RequestError("the prompt is empty; give a text")
    if len(words) > MAX_WORDS:
        raise RequestError(f"the prompt has {len(words)} words, more than {MAX_WORDS}; shorten it")
    if any(not candidate.split() for candidate in request.candidates):
        raise RequestError("a candidate command is empty; leave it out")
