"""Answers requests in batches with one copy of the models, in one thread; an answer is told once it is in the log.

Requests are gathered for a few milliseconds. A batch is answered wholly by what serves when it begins, and its
decisions wait in the log for one common write while the next batch is thought about. Drawn requests are labelled when
nothing waits, and at least one every few batches, so that a busy server's sample is no sample of its quiet hours.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dualmind.agent.agent import Reply, Request, check
from dualmind.errors import Overloaded, RequestError, ServingError
from dualmind.serving.clock import Clock, utc_now
from dualmind.serving.ids import Names
from dualmind.serving.labelling import Labeller
from dualmind.serving.loading import Served
from dualmind.serving.metrics import Metrics
from dualmind.serving.record import as_decision, keep_prompts
from dualmind.traffic.layout import month_for
from dualmind.traffic.log import DecisionLog
from dualmind.traffic.schema import Label, month_of

_BATCHES_AN_AUDIT = 8  # under load, one label is made every so many batches
_MAX_AUDITS = 10_000  # that wait for a label; more stay without one, and the calibration counts them
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that is in the log."""

    request_id: str
    reply: Reply
    served: Served  # what gave it
    month: str  # that holds it


@dataclass(frozen=True, slots=True)
class _Job:
    request: Request
    done: "Future[Answered]"


@dataclass(frozen=True, slots=True)
class _Audit:
    request: Request
    answered: Answered


class Engine:
    """The worker. Close it, or use it in a ``with`` block: what was accepted is then answered first."""

    def __init__(
        self,
        served: Served,
        log: DecisionLog,
        traffic: Path,
        names: Names,
        metrics: Metrics,
        *,
        labeller: Callable[[Served], Labeller],
        batch_size: int,
        gather_s: float,
        queue: int,
        store_prompts: bool,
        clock: Clock = utc_now,
    ) -> None:
        """Start the thread.

        Args:
            served: what answers at first.
            log: of the decisions; stays open longer than this.
            traffic: the log's folder.
            names: of requests.
            metrics: to be counted in.
            labeller: who labels what was drawn, made of what serves.
            batch_size: of requests at most, >= 1.
            gather_s: seconds that a request waits for others, >= 0.
            queue: requests that may wait, >= 1.
            store_prompts: whether prompts are kept, and not only their hashes.
            clock: the time in UTC, of decisions and labels.
        """
        self._clock = clock
        self._served, self._log, self._traffic, self._names, self.metrics = served, log, traffic, names, metrics
        self._batch_size, self._gather_s, self._queue, self._store = batch_size, gather_s, queue, store_prompts
        self._labeller, self._labels_by = labeller, (served, labeller(served))
        self._waiting: deque[_Job] = deque()
        self._audits: deque[_Audit] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._batches = 0
        self._batch_s = 0.05  # of late, for the advice to come again; a guess until there was one
        metrics.serves(served)
        self._thread = threading.Thread(target=self._run, name="engine")
        self._thread.start()

    @property
    def served(self) -> Served:
        """What answers the next batch."""
        return self._served

    @property
    def alive(self) -> bool:
        """Whether requests are taken."""
        return self._thread.is_alive() and not self._closed

    def swap(self, served: Served) -> None:
        """Answer from the next batch on with something else."""
        self._served = served
        self.metrics.serves(served)
        self.metrics.swaps.inc()

    def submit(self, request: Request) -> "Future[Answered]":
        """Let a request be answered; cancelling the future takes it back as long as its batch has not begun.

        Raises:
            RequestError: no system should read it, or its domain is unknown.
            Overloaded: too many wait.
            ServingError: the server is stopping.
        """
        check(request)
        known = self._served.domains
        if request.domain not in known:
            raise RequestError(f"the domain {request.domain[:80]!r} is unknown; known are {', '.join(known)}")
        with self._changed:
            if self._closed:
                raise ServingError("the server is stopping; ask again when it is back")
            if len(self._waiting) >= self._queue:
                raise Overloaded(f"{self._queue} requests are waiting already; ask again later", self.wait_s())
            job = _Job(request, Future())
            self._waiting.append(job)
            self.metrics.waiting.set(len(self._waiting))
            self._changed.notify_all()
        return job.done

    def wait_s(self) -> int:
        """Whole seconds until those that wait are probably answered, at least 1."""
        return max(1, math.ceil(len(self._waiting) / self._batch_size * self._batch_s))

    def close(self) -> None:
        """Answer what waits, label what was drawn, and stop; closing twice does no harm."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while True:
            jobs, audit = self._next()
            if jobs:
                self._answer(jobs)
            if audit is not None:
                self._label(audit)
            if not jobs and audit is None and self._is_done():
                return

    def _next(self) -> tuple[list[_Job], _Audit | None]:
        """The next batch, an audit, or both; neither once it is closed and nothing waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._audits or self._closed)
            if self._waiting:
                self._changed.wait_for(lambda: len(self._waiting) >= self._batch_size or self._closed, self._gather_s)
            taken = [self._waiting.popleft() for _ in range(min(self._batch_size, len(self._waiting)))]
            self._batches += bool(taken)
            due = not taken or self._batches % _BATCHES_AN_AUDIT == 0
            audit = self._audits.popleft() if due and self._audits else None
            self.metrics.waiting.set(len(self._waiting))
            self.metrics.audits.set(len(self._audits))
        return taken, audit

    def _is_done(self) -> bool:
        """Whether nothing is left to do, labels of the last decisions included."""
        self._log.flush()  # decisions that were still unwritten may have been drawn
        with self._changed:
            return not self._waiting and not self._audits

    def _answer(self, taken: list[_Job]) -> None:
        jobs = [job for job in taken if job.done.set_running_or_notify_cancel()]
        if not jobs:
            return
        served, begun = self._served, time.monotonic()
        found = _act(served, [job.request for job in jobs])
        try:
            self._record(served, list(zip(jobs, found, strict=True)))
        except Exception as error:  # a full disk; whatever it is, nobody may wait for ever
            _LOG.exception("a batch could not be recorded")
            for job in jobs:
                if not job.done.done():
                    job.done.set_exception(error)
        self.metrics.batch.observe(len(jobs))
        self._batch_s = 0.8 * self._batch_s + 0.2 * (time.monotonic() - begun)

    def _record(self, served: Served, found: list[tuple[_Job, Reply | Exception]]) -> None:
        now = self._clock()
        month = month_for(self._traffic, month_of(now))
        named = []
        for job, reply in found:
            if isinstance(reply, Exception):
                job.done.set_exception(reply)
            else:
                named.append((job, reply, *self._names.make(month)))
        if self._store and named:
            keep_prompts(self._traffic, month, [(name, job.request) for job, _, name, _ in named])
        for job, reply, name, audited in named:
            decision = as_decision(name, job.request, reply, time=now, audited=audited, label=served.state.label)
            logged = self._log.append(decision)
            logged.add_done_callback(_Teller(self, job, name, reply, served, audited))

    def tell(self, job: _Job, answered: Answered, *, audited: bool) -> None:
        """Hand out an answer that is in the log; called by the log's thread."""
        self.metrics.decided(job.request.domain, answered.reply)
        if audited and len(self._audits) < _MAX_AUDITS:
            with self._changed:
                self._audits.append(_Audit(job.request, answered))
                self._changed.notify_all()
        job.done.set_result(answered)

    def _label(self, audit: _Audit) -> None:
        served, labeller = self._labels_by
        if served is not audit.answered.served:
            labeller = self._labeller(audit.answered.served)
            self._labels_by = (audit.answered.served, labeller)
        try:
            verdict = labeller.label(audit.request, audit.answered.reply)
            if verdict is not None:
                label = Label(
                    time=self._clock(),
                    request_id=audit.answered.request_id,
                    correct=verdict.system1,
                    answer_correct=verdict.given,
                    source=labeller.source,
                )
                self._log.label(label, audit.answered.month)
                self.metrics.labels.labels(labeller.source).inc()
        except Exception:  # an audit without a label is counted by the calibration; it must not stop the answers
            _LOG.exception("%s was not labelled", audit.answered.request_id)


@dataclass(frozen=True, slots=True)
class _Teller:
    engine: Engine
    job: _Job
    name: str
    reply: Reply
    served: Served
    audited: bool

    def __call__(self, logged: "Future[str]") -> None:
        error = logged.exception()
        if error is not None:
            self.job.done.set_exception(error)
        else:
            answered = Answered(self.name, self.reply, self.served, logged.result())
            self.engine.tell(self.job, answered, audited=self.audited)


def _act(served: Served, requests: list[Request]) -> list[Reply | Exception]:
    """Answer a batch; where that fails, one by one, so that nobody suffers from a neighbour."""
    try:
        return [*served.agent.act(requests)]
    except Exception as error:
        _LOG.exception("a batch of %d failed", len(requests))
        if len(requests) == 1:
            return [error]
    return [reply for request in requests for reply in _act(served, [request])]
