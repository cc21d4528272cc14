"""Runs functions of programs that nobody trusts, in a process that can neither harm the machine nor outlive its limits.

The process is of its own session, with an empty environment and an empty folder. ``sandbox_child.py`` says what guards
it. Expected values never enter it: a program cannot claim to have passed, it can only give the right value.
"""

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from dualmind.domains.debugging import sandbox_child
from dualmind.errors import DebuggingError

OutcomeKind = Literal["returned", "raised", "refused", "time out", "out of memory", "crashed"]
_CHILD = Path(sandbox_child.__file__)
_MAX_LINE_BYTES = 10_000
_TIME_SIGNALS = frozenset({signal.SIGPROF, signal.SIGVTALRM, signal.SIGXCPU})
_START_S = 5  # CPU seconds that the interpreter may take to start


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call, and the process that runs it, may take."""

    call_s: float = 0.5  # > 0; CPU time of a call
    stall_s: float = 20.0  # > 0; wall time without a result, for what sleeps
    memory_bytes: int = 512 << 20  # >= 64 MB; address space of the process

    def __post_init__(self) -> None:
        if not (self.call_s > 0 and self.stall_s > 0 and self.memory_bytes >= 64 << 20):
            raise DebuggingError(f"{self}: give times above 0 s and at least {64 << 20} bytes, or Python cannot start")


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a program and what it is called with."""

    function: str
    arguments: tuple[Any, ...]  # JSON values

    def __str__(self) -> str:
        return f"{self.function} ( {' , '.join(map(str, self.arguments))} )"


@dataclass(frozen=True, slots=True)
class Job:
    """A program and the calls to run, in order, in one namespace."""

    source: str
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call went."""

    kind: OutcomeKind
    value: Any  # what it returned, a JSON value; None unless it returned
    message: str  # the error, what was refused, or which limit was met; empty where it returned

    def gives(self, expected: Any) -> bool:
        """Did it return this very value? ``True`` is not 1, as their JSON differs."""
        return self.kind == "returned" and json.dumps(self.value) == json.dumps(expected)


def run(jobs: Sequence[Job], limits: Limits = Limits()) -> list[list[Outcome]]:
    """Outcomes of all calls of all jobs, in their order.

    The jobs share a process: give programs that may be hostile to each other in calls of their own. A call that ends
    the process is told so, and those after it run in another one.

    Raises:
        DebuggingError: arguments are no JSON values, or no process can be started.
    """
    calls = [(number, call) for number, job in enumerate(jobs) for call in job.calls]
    outcomes: list[Outcome] = []
    while len(outcomes) < len(calls):
        left = itertools.groupby(calls[len(outcomes) :], key=lambda pair: pair[0])
        outcomes += _process([Job(jobs[number].source, tuple(call for _, call in own)) for number, own in left], limits)
    remaining = iter(outcomes)
    return [[next(remaining) for _ in job.calls] for job in jobs]


def _process(jobs: Sequence[Job], limits: Limits) -> list[Outcome]:
    """Outcomes of the first calls, at least one: up to and with the one that ended the process."""
    number = sum(len(job.calls) for job in jobs)
    request = {
        "jobs": [{"source": job.source, "calls": [[c.function, c.arguments] for c in job.calls]} for job in jobs],
        "call_s": limits.call_s,
        "memory_bytes": limits.memory_bytes,
        "cpu_s": _START_S + int(8 * limits.call_s * (number + len(jobs))),  # above what all timers together allow
    }
    try:
        text = json.dumps(request, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise DebuggingError(
            f"a call has arguments that are no JSON values ({error}); give numbers, texts and lists"
        ) from error
    with tempfile.TemporaryDirectory(prefix="sandbox-") as folder, tempfile.TemporaryFile() as stdin:
        stdin.write(text)
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_CHILD)],
                stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                cwd=folder, env={}, start_new_session=True, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            raise DebuggingError(f"{sys.executable} cannot be started ({error}); free memory or processes") from error
        try:
            outcomes, why = _read(process, number, limits)
        finally:
            _end(process)
    if len(outcomes) < number:
        outcomes.append(why or _ending(process.returncode))
    return outcomes


def _read(process: "subprocess.Popen[bytes]", number: int, limits: Limits) -> tuple[list[Outcome], Outcome | None]:
    """Read results until all are there, the process ends, or it must be ended: then also why."""
    assert process.stdout is not None
    outcomes: list[Outcome] = []
    rest, until = b"", time.monotonic() + limits.stall_s
    while len(outcomes) < number:
        left = until - time.monotonic()
        if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
            return outcomes, Outcome("time out", None, f"no result in {limits.stall_s} s")
        read = os.read(process.stdout.fileno(), 1 << 16)
        if not read:
            with suppress(subprocess.TimeoutExpired):  # it closed its output; what still runs is ended
                process.wait(limits.stall_s)
            return outcomes, None
        *lines, rest = (rest + read).split(b"\n")
        for line in lines[: number - len(outcomes)]:
            outcome = _outcome(line)
            if outcome is None:
                return outcomes, Outcome("crashed", None, "it wrote what is no result")
            outcomes.append(outcome)
            until = time.monotonic() + limits.stall_s
        if len(rest) > _MAX_LINE_BYTES:
            return outcomes, Outcome("crashed", None, "it wrote without end")
    return outcomes, None


def _outcome(line: bytes) -> Outcome | None:
    """A line as an outcome; None where it is none."""
    try:
        found = json.loads(line)
        kind, value, message = found["kind"], found.get("value"), found["message"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return Outcome(kind, value, message) if kind in get_args(OutcomeKind) and isinstance(message, str) else None


def _ending(status: int) -> Outcome:
    """Why a process ended that gave no result for its call."""
    if status == sandbox_child.IGNORED_TIMER:
        return Outcome("time out", None, "it caught the timer and went on")
    if -status in _TIME_SIGNALS:
        return Outcome("time out", None, f"ended by {signal.Signals(-status).name}")
    return Outcome("crashed", None, f"the process ended with status {status}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the whole session; its leader is waited for."""
    with suppress(ProcessLookupError, PermissionError):  # it has ended already
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
