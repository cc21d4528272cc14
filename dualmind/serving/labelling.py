"""Who labels the drawn answers without a person."""

from typing import Protocol

from dualmind.agent.agent import Reply, Request
from dualmind.models.system2 import System2
from dualmind.traffic.schema import AuditSource


class Labeller(Protocol):
    """Says whether System 1's answer is right. It is called by the thread that answers, when nothing else waits."""

    @property
    def source(self) -> AuditSource:
        """Which kind of audit this is."""
        ...

    def label(self, request: Request, reply: Reply) -> bool | None:
        """Whether the answer is right; None where that cannot be told."""
        ...


class SystemTwo:
    """Takes System 2's full answer for the truth: where System 2 errs, so does the label."""

    source: AuditSource = "system2"

    def __init__(self, system2: System2) -> None:
        self._system2 = system2

    def label(self, request: Request, reply: Reply) -> bool:
        """Whether System 2 gives the same answer."""
        if request.candidates:
            (thought,) = self._system2.choose([request.prompt], [request.candidates])
        else:
            (thought,) = self._system2.answer([request.prompt])
        return thought.answer.split() == reply.answer.split()
