"""Who labels the drawn requests without a person."""

from dataclasses import dataclass
from typing import Protocol

from dualmind.agent.agent import Reply, Request
from dualmind.models.system2 import System2
from dualmind.traffic.schema import AuditSource


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which answers to one request were right."""

    system1: bool  # System 1's own: what a proof of a threshold needs, whoever answered
    given: bool  # the one that was given: what visitors got


class Labeller(Protocol):
    """Says which answers are right. It is called by the thread that answers, when nothing else waits."""

    @property
    def source(self) -> AuditSource:
        """Which kind of audit this is."""
        ...

    def label(self, request: Request, reply: Reply) -> Verdict | None:
        """Which answers are right; None where that cannot be told."""
        ...


class SystemTwo:
    """Takes System 2's full answer for the truth: where System 2 errs, so does the label."""

    source: AuditSource = "system2"

    def __init__(self, system2: System2) -> None:
        self._system2 = system2

    def label(self, request: Request, reply: Reply) -> Verdict:
        """Whether System 2 gives the same answers; where it gave its full answer already, that costs nothing."""
        truth = (reply.answer if reply.tier == "full" else self._think(request)).split()
        return Verdict(system1=reply.system1_answer.split() == truth, given=reply.answer.split() == truth)

    def _think(self, request: Request) -> str:
        if request.candidates:
            (thought,) = self._system2.choose([request.prompt], [request.candidates])
        else:
            (thought,) = self._system2.answer([request.prompt])
        return thought.answer
