"""Runs calls of untrusted functions: ``python -I -S sandbox_child.py``, started by ``sandbox.py`` and by nobody else.

It reads one JSON request from standard input and writes one JSON line a call. What guards the machine, from the inside
out: an import list, an audit hook that refuses every audited event but three, a CPU timer for each call, and the
kernel's limits. Where it starts as root it also shuts itself into its empty folder and becomes nobody, whom the limit
on processes binds.
"""

import builtins
import json
import math
import posix
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType, ModuleType
from typing import Any

IGNORED_TIMER = 99  # exit status where code caught the timer and went on
_MODULES = frozenset({"collections", "functools", "itertools", "math", "operator"})  # what code may import
_EVENTS = frozenset({"exec", "compile", "builtins.id"})  # audit events that harm nothing; all others are refused
_NOBODY = 65534
_MAX_DIGITS = 2000  # of a value, as text; a wrong program may compute very long numbers
_TICKS = 3  # timer signals after which code that catches them is ended


class _Refused(BaseException):
    """Code tried what it may not; not an Exception, so that an honest ``except Exception`` does not hide it."""


class _OutOfTime(BaseException):
    """A call has used up its CPU time."""


class Guard:
    """What the hook and the timer have noticed during the present call."""

    def __init__(self) -> None:
        self.noted: list[str] = []  # kept apart from exceptions, which code can catch
        self.ticks = 0
        self.armed = False

    def hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        """An audit hook (PEP 578). It uses nothing but its own cells: code may have changed every global."""
        allowed, refused, note = _EVENTS, _Refused, self.noted.append

        def refuse(event: str, _: tuple[Any, ...]) -> None:
            if event not in allowed:
                note(event)
                raise refused(event)

        return refuse

    def importer(self) -> Callable[..., ModuleType]:
        """``__import__`` for the code: modules that are loaded raise no audit event, so a list decides."""
        real = builtins.__import__

        def guarded(name: str, *rest: Any, **named: Any) -> ModuleType:
            if name not in _MODULES:
                self.noted.append(f"import {name}")
                raise _Refused(f"import {name}")
            return real(name, *rest, **named)

        return guarded

    def tick(self, _signal: int, _frame: FrameType | None) -> None:
        """The timer's signal."""
        if self.armed:
            self.ticks += 1
            if self.ticks >= _TICKS:
                posix._exit(IGNORED_TIMER)
            raise _OutOfTime

    def outcome(self, act: Callable[[], Any], call_s: float) -> dict[str, Any]:
        """Do something under the timer and say how it went."""
        self.noted.clear()
        self.ticks = 0
        found: dict[str, Any]
        try:
            self.armed = True
            signal.setitimer(signal.ITIMER_VIRTUAL, call_s, call_s)
            signal.setitimer(signal.ITIMER_PROF, 2 * _TICKS * call_s)  # no handler: ends what never gets to a bytecode
            try:
                value = act()
                found = {"kind": "returned", "value": value, "message": ""}
                if len(json.dumps(value, allow_nan=False)) > _MAX_DIGITS:
                    found = {"kind": "raised", "message": f"a value of more than {_MAX_DIGITS} characters"}
            finally:
                self.armed = False
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                signal.setitimer(signal.ITIMER_PROF, 0)
        except MemoryError:
            found = {"kind": "out of memory", "message": "MemoryError"}
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: it is the code that raised them
            found = {"kind": "raised", "message": _words(error)}
        if self.noted:
            return {"kind": "refused", "message": self.noted[0]}
        if self.ticks:
            return {"kind": "time out", "message": f"{call_s} s of CPU time"}
        return found


def _words(error: BaseException) -> str:
    """An error in words; its own ``__str__`` is code as well."""
    try:
        return f"{type(error).__name__}: {error}"[:200]
    except BaseException:
        return "an error that cannot be shown"


def _limit(request: dict[str, Any]) -> None:
    """Set the kernel's limits and give up all rights, for good."""
    for limit, value in (
        (resource.RLIMIT_AS, request["memory_bytes"]),
        (resource.RLIMIT_CPU, request["cpu_s"]),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 8),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    if posix.geteuid() == 0:
        # a container may lack one of these rights; the hook and the other limits hold without them
        with suppress(OSError):
            posix.chroot(".")
        with suppress(OSError):
            posix.setgroups([])
            posix.setgid(_NOBODY)
            posix.setuid(_NOBODY)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def _load(guard: Guard, source: str, space: dict[str, Any]) -> None:
    try:
        code = compile(source, "program", "exec")
    except SyntaxError:
        guard.noted.clear()  # Python itself looks for a file to quote from; nothing of the program has run
        raise
    exec(code, space)  # noqa: S102 - this is the sandbox


def _call(space: dict[str, Any], name: str, arguments: list[Any]) -> Any:
    return space[name](*arguments)


def main() -> None:
    """Run all calls of all jobs."""
    request = json.loads(sys.stdin.buffer.read())
    results = posix.dup(1)
    null = posix.open("/dev/null", posix.O_RDWR)
    for stream in (0, 1, 2):
        posix.dup2(null, stream)
    _limit(request)
    guard = Guard()
    signal.signal(signal.SIGVTALRM, guard.tick)
    names = {**vars(builtins), "__import__": guard.importer()}
    sys.addaudithook(guard.hook())
    call_s = request["call_s"]

    def say(found: dict[str, Any]) -> None:
        line = json.dumps(found).encode() + b"\n"
        while line:
            line = line[posix.write(results, line) :]

    for job in request["jobs"]:
        space: dict[str, Any] = {"__builtins__": dict(names), "__name__": "program"}
        loaded = guard.outcome(partial(_load, guard, job["source"], space), call_s)
        for name, arguments in job["calls"]:
            say(
                loaded
                if loaded["kind"] != "returned"
                else guard.outcome(partial(_call, space, name, arguments), call_s)
            )
    posix._exit(0)


if __name__ == "__main__":
    assert math  # loaded before the hook, as are the other modules that code may import
    main()
