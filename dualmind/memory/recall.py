"""The memory as an agent uses it: System 2's answers to the very same requests, while its weights are the same.

It answers in System 2's place alone, so the threshold's proof, which is about what System 1 answers, does not hang on
it. Only an exact, checked entry answers: similar prompts have other answers. An entry of other weights of System 2 is
not trusted: System 2 is asked, and its new answer confirms the entry or replaces it. The same is done with a small
share of all hits, so that what is remembered is measured against what System 2 would say.

Each hit is a trial of the entry, the same problem with it and without it (Muhtar et al. 2026, Complementary RL, arXiv
2603.17621: experience is kept by whether it demonstrably contributes to the actor's success): it gains 1 where System 1
itself would have said something else, 0 where it says the same. As System 1 learns, entries gain less, and
:meth:`~dualmind.memory.gateway.Gateway.prune` drops them; with a new System 1 the trials begin anew. Where the article
trains the extractor of experience by this signal, here it only decides what stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dualmind.agent.agent import Request, Tier
from dualmind.errors import GatewayError
from dualmind.memory.entry import Depth, Entry, Judge, Key
from dualmind.memory.gateway import Gateway
from dualmind.models.system1 import FirstAnswer
from dualmind.models.system2 import Thinking
from dualmind.symbolic.checker import Checker


@dataclass(slots=True)
class Tally:
    """What became of the requests that System 1 was unsure of."""

    asked: int = 0
    recalled: int = 0  # answered from memory: calls of System 2 that were saved
    probed: int = 0  # known, but System 2 was asked all the same, to compare
    stale: int = 0  # known from other weights or a shorter thought
    agreed: int = 0  # of those two, entries that System 2 confirmed
    revised: int = 0  # of those two, entries that System 2 replaced
    refused: int = 0  # answers of System 2 that the checker called wrong, or that were empty; not kept


class Recall:
    """An agent's memory (see :class:`dualmind.agent.agent.Memory`), for one episode at a time."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        system1: str,
        system2: str,
        rng: np.random.Generator,
        probe_share: float = 0.02,
        checker: Checker | None = None,
    ) -> None:
        """Begin the first episode.

        Args:
            gateway: holds the entries; it is closed by whoever opened it.
            system1: digest of the weights that read the prompts.
            system2: digest of the weights that answer.
            rng: draws the hits that are compared with System 2.
            probe_share: share of them, in 0..1.
            checker: of System 2's steps, where there is one: what it calls wrong is not remembered.

        Raises:
            GatewayError: the share is not in 0..1.
        """
        if not 0 <= probe_share <= 1:  # NaN too
            raise GatewayError(f"probe_share = {probe_share}: give a share of the hits, 0 to 1")
        self._gateway, self._system1, self._system2 = gateway, system1, system2
        self._rng, self._checker, self._probe_share = rng, checker, probe_share
        self._episode = gateway.episode()
        self._doubted: dict[Key, Entry] = {}  # known, but System 2 is being asked all the same
        self.tally = Tally()

    def new_episode(self) -> None:
        """Write the working memory back and begin with an empty one."""
        self._episode.close()
        self._episode = self._gateway.episode()

    def recall(
        self, requests: Sequence[Request], firsts: Sequence[FirstAnswer], tiers: Sequence[Tier]
    ) -> list[Thinking | None]:
        """See :class:`dualmind.agent.agent.Memory`."""
        return [
            None if tier == "system1" else self._recall(request, first, tier)
            for request, first, tier in zip(requests, firsts, tiers, strict=True)
        ]

    def keep(
        self,
        requests: Sequence[Request],
        firsts: Sequence[FirstAnswer],
        tiers: Sequence[Tier],
        thoughts: Sequence[Thinking | None],
    ) -> None:
        """See :class:`dualmind.agent.agent.Memory`."""
        for request, first, tier, thought in zip(requests, firsts, tiers, thoughts, strict=True):
            if thought is not None and tier != "system1":
                self._keep(request, first, tier, thought)

    def feedback(self, request: Request, *, right_with: bool, right_without: bool) -> None:
        """Tell what a remembered answer was worth where that is known: a wrong one is forgotten at once.

        Args:
            request: that was answered from memory.
            right_with: was the remembered answer right?
            right_without: would System 1 alone have been right?
        """
        key = _key(request)
        if not right_with:
            self._gateway.forget(key)
        elif (entry := self._episode.read(key)) is not None:
            self._episode.write(entry.tried(float(right_with) - float(right_without)))

    def _recall(self, request: Request, first: FirstAnswer, tier: Depth) -> Thinking | None:
        self.tally.asked += 1
        entry = self._episode.read(_key(request))
        if entry is None or entry.checked_by is None:
            return None
        if entry.writer != self._system2 or (entry.depth == "shallow" and tier == "full"):
            self.tally.stale += 1
            self._doubted[entry.key] = entry
            return None
        if self._rng.random() < self._probe_share:
            self.tally.probed += 1
            self._doubted[entry.key] = entry
            return None
        self.tally.recalled += 1
        if entry.reader != self._system1:
            entry = replace(entry, reading=_reading(first), reader=self._system1, trials=0, gain=0.0)
        self._episode.write(entry.tried(float(first.answer.split() != entry.answer.split())))
        return Thinking(entry.steps, entry.answer, log_probability=0.0, num_words=0)  # nothing was written

    def _keep(self, request: Request, first: FirstAnswer, tier: Depth, thought: Thinking) -> None:
        key, judge = _key(request), self._judge(request, thought)
        former = self._doubted.pop(key, None)
        if judge is None:
            self.tally.refused += 1
            return
        entry = Entry(
            key, _reading(first), self._system1, thought.answer, thought.steps, tier, "system2", self._system2, judge
        )
        if former is not None:
            if former.same_answer(entry):
                self.tally.agreed += 1
                if former.reader == entry.reader:
                    entry = replace(entry, trials=former.trials, gain=former.gain)
            else:
                self.tally.revised += 1
        self._episode.write(entry)

    def _judge(self, request: Request, thought: Thinking) -> Judge | None:
        """Whose verdict System 2's answer has; None where the checker calls a step wrong, or there is no answer."""
        if not thought.answer.split():
            return None
        if self._checker is None or request.candidates or not thought.steps:
            return "system2"
        steps = [step.partition(" ")[2] for step in thought.steps]  # without their numbers
        verdicts = [self._checker.valid(request.prompt, steps[:end]) for end in range(1, len(steps) + 1)]
        verdicts.append(self._checker.finished(request.prompt, steps))
        if False in verdicts:
            return None
        return "checker" if all(verdicts) else "system2"


def _key(request: Request) -> Key:
    return Key.of(request.domain, request.prompt, request.candidates)


def _reading(first: FirstAnswer) -> np.ndarray:
    return first.reading.astype(np.float32)
