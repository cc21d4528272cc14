"""Inline calls in a chain of thought: ``[ expression ]`` is answered as ``[ expression -> value ]``.

    [ 3 + 4 * 2 ]                              -> 11
    [ simplify : ( x + 1 ) ^ 2 - 1 ]           -> x ^ 2 + 2 * x
    [ solve : 2 * x + 3 = 7 ]                  -> x = 2
    [ valid : p and ( p implies q ) implies q ] -> true
    [ order : a < b , b < c |- a < c ]         -> true

The text comes from a model, so it is taken for hostile: it is read by a small grammar and never run, what it can cost
is bounded before anything is computed, and it is computed in another process that is killed when it takes too long.
"""

import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import dualmind
from dualmind.errors import SymbolicError
from dualmind.symbolic.grammar import parse

UNANSWERED = "?"  # the value of a call that was refused
_CALL = re.compile(r"\[([^\[\]]*)\]")
_ARROW = "->"
_COMMAND = (sys.executable, "-m", "dualmind.symbolic.worker")
_START_LIMIT_S = 120.0  # SymPy and Z3 take a second to import, more on a busy machine
_ROOT = Path(dualmind.__file__).parents[1]


class SymbolicCalls:
    """Answers calls; keeps one process for them, started at the first. A context manager, and safe among threads."""

    def __init__(self, limit_s: float = 1.0, command: Sequence[str] = _COMMAND) -> None:
        """Args are the seconds that one call may take, and the program that computes.

        Raises:
            SymbolicError: the limit is not above 0.
        """
        if not limit_s > 0:
            raise SymbolicError(f"limit_s = {limit_s} must be above 0 seconds; 1 is plenty")
        self._limit_s, self._command = limit_s, tuple(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; a later call starts another."""
        with self._lock:
            self._kill()

    def answer(self, expression: str) -> str:
        """The value of what stands between the brackets, as words parted by single blanks.

        Raises:
            SymbolicError: it cannot be read, is too large, has no value, or takes too long.
        """
        parse(expression)  # refuses here what would be refused there
        with self._lock:
            reply = json.loads(self._ask(expression))
        if "error" in reply:
            raise SymbolicError(reply["error"])
        return str(reply["value"])

    def complete(self, text: str) -> str:
        """A text with all its calls answered; those that have an answer keep it, those refused are answered by "?"."""
        return _CALL.sub(lambda match: self._completed(match[0], match[1]), text)

    def _completed(self, call: str, expression: str) -> str:
        if _ARROW in expression:
            return call
        try:
            value = self.answer(expression)
        except SymbolicError:
            value = UNANSWERED
        return f"[ {' '.join(expression.split())} {_ARROW} {value} ]"

    def _ask(self, expression: str) -> bytes:
        """The process's line about a call; a process that does not give one is killed."""
        try:
            process = self._started()
            assert process.stdin is not None
            process.stdin.write(json.dumps(expression).encode() + b"\n")
            return self._line(process, self._limit_s)
        except TimeoutError:
            self._kill()
            raise SymbolicError(
                f"the call {expression[:60]!r} took longer than the limit of {self._limit_s} s; use a smaller one"
            ) from None
        except OSError as error:
            self._kill()
            raise SymbolicError(
                f"the process for the call {expression[:60]!r} ended ({error}); use a smaller one, it starts anew"
            ) from error

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, cwd=_ROOT
            )
            self._line(self._process, _START_LIMIT_S)
        return self._process

    @staticmethod
    def _line(process: "subprocess.Popen[bytes]", limit_s: float) -> bytes:
        """The next line of its output.

        Raises:
            TimeoutError: there was none in time.
            OSError: the process ended.
        """
        assert process.stdout is not None
        until, line = time.monotonic() + limit_s, b""
        while not line.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                raise TimeoutError
            read = os.read(process.stdout.fileno(), 65536)
            if not read:
                raise BrokenPipeError("no more output")
            line += read
        return line

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
