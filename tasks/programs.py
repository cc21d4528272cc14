"""Programs in process groups of their own, so that all that a stage started can be killed with it."""

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dualmind.errors import PipelineError

_TAIL = 30  # lines of output that an error repeats


@dataclass(frozen=True, slots=True)
class Limit:
    """When to ask whether a program must be killed."""

    after_s: float
    reason: Callable[[int], str | None]  # takes the program's pid; why it is killed, or None to let it run


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    code: int  # negative: the signal that ended it
    tail: tuple[str, ...]  # the last lines of its output
    reason: str | None  # why we killed it


class ProcessGroups:
    """Runs so many programs side by side from several threads, and kills them all when the run is interrupted.

    Further ones wait. An interrupt reaches the main thread alone, while each program is waited for in a thread of its
    own.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._lock = threading.Condition()
        self._running: dict[int, str | None] = {}  # pid of each group's leader, and why we killed it
        self._stopped = False

    def run(
        self,
        command: Sequence[str],
        root: Path,
        *,
        environment: Mapping[str, str],
        limits: Sequence[Limit],
        log: Callable[[str], None],
    ) -> Ended:
        """Run a program in ``root`` to its end, passing its output on line by line.

        Raises:
            PipelineError: :meth:`stop` was called, before it started or while it ran.
        """
        process = self._start(command, root, environment)
        timers = [threading.Timer(limit.after_s, self._enforce, [process.pid, limit]) for limit in limits]
        for timer in timers:
            timer.start()
        tail: deque[str] = deque(maxlen=_TAIL)
        assert process.stdout is not None
        try:
            for line in process.stdout:
                tail.append(line.rstrip())
                log(tail[-1])
            code = process.wait()
        finally:
            for timer in timers:
                timer.cancel()
            process.stdout.close()
            if process.poll() is None:  # ``log`` failed: leave nothing running
                _kill_group(process.pid)
                process.wait()
            with self._lock:
                reason = self._running.pop(process.pid)
                self._lock.notify_all()
        if self._stopped:
            raise PipelineError(f"{' '.join(command)} was stopped, because the run was")
        return Ended(code, tuple(tail), reason)

    def stop(self) -> None:
        """Kill all programs that run; no other will start."""
        with self._lock:
            self._stopped = True
            for pid in self._running:
                _kill_group(pid)
            self._lock.notify_all()

    def _start(self, command: Sequence[str], root: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
        with self._lock:  # so that ``stop`` sees each program that has started
            self._lock.wait_for(lambda: self._stopped or len(self._running) < self._workers)
            if self._stopped:
                raise PipelineError(f"{' '.join(command)} was not started, because the run was stopped")
            process = subprocess.Popen(
                command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace", start_new_session=True,
            )  # fmt: skip
            self._running[process.pid] = None
            return process

    def _enforce(self, pid: int, limit: Limit) -> None:
        reason = limit.reason(pid)
        with self._lock:
            if reason is not None and pid in self._running:
                self._running[pid] = reason
                _kill_group(pid)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself meanwhile
