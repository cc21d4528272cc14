"""Small programs: a handful of pure functions that call each other, drawn from a seed.

Functions are of three kinds: of two numbers, from a list to a number, and from a list to a list. Later functions call
earlier ones, so the calls form no circle, and loops are over lists of a few numbers, so a true program ends.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dualmind.domains.debugging.sandbox import Call

Kind = Literal["pair", "reduce", "map"]
PARAMETERS: dict[Kind, tuple[str, str]] = {"pair": ("a", "b"), "reduce": ("xs", "n"), "map": ("xs", "n")}
NAMES = ("amber", "birch", "cedar", "dune", "ember", "fern", "grove", "heath", "iris", "jade", "kelp", "larch")
NUM_FUNCTIONS = 6
_ORDER = ("<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Function:
    """A function's head and text."""

    name: str
    kind: Kind
    source: str


@dataclass(frozen=True, slots=True)
class Test:
    """A call and the value that the true program gives."""

    call: Call
    expected: Any

    __test__ = False  # pytest would take it for one of its own


@dataclass(frozen=True, slots=True)
class Program:
    """Functions, callees before callers."""

    functions: tuple[Function, ...]

    @property
    def source(self) -> str:
        """The whole text."""
        return "\n\n".join(function.source for function in self.functions) + "\n"

    def callees(self) -> dict[str, tuple[str, ...]]:
        """Functions that each function calls, in the order of the program."""
        called = {function.name: _called(function.source) for function in self.functions}
        return {name: tuple(other for other in called if other in own) for name, own in called.items()}

    def replaced(self, name: str, source: str) -> "Program":
        """The program with another text for one of its functions."""
        return Program(tuple(Function(f.name, f.kind, source) if f.name == name else f for f in self.functions))


def reach(callees: dict[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """What each function can come to run: itself, and all below it. Callees come first in ``callees``."""
    found: dict[str, frozenset[str]] = {}
    for name, own in callees.items():
        found[name] = frozenset({name}).union(*(found[other] for other in own))
    return found


def draw_program(rng: np.random.Generator) -> Program:
    """A new program of NUM_FUNCTIONS functions; its text is what ``ast.unparse`` gives."""
    names = [str(name) for name in rng.permutation(NAMES)[:NUM_FUNCTIONS]]
    kinds: list[Kind] = ["pair", "pair", *(_pick(rng, ("pair", "reduce", "map")) for _ in range(NUM_FUNCTIONS - 3))]
    kinds.append(_pick(rng, ("reduce", "map")))
    functions: list[Function] = []
    for name, kind in zip(names, kinds, strict=True):
        source = _Draft(rng, functions).function(name, kind)
        functions.append(Function(name, kind, ast.unparse(ast.parse(source))))
    return Program(tuple(functions))


def draw_arguments(kind: Kind, rng: np.random.Generator) -> tuple[Any, ...]:
    """Arguments for a function: numbers of 0 to 12, lists of 3 to 6 of them."""
    if kind == "pair":
        return tuple(int(number) for number in rng.integers(0, 13, size=2))
    return [int(x) for x in rng.integers(0, 13, size=rng.integers(3, 7))], int(rng.integers(1, 10))


class _Draft:
    """Draws the text of one function that may call earlier ones; those that nobody calls yet come first."""

    def __init__(self, rng: np.random.Generator, earlier: Sequence[Function]) -> None:
        self._rng = rng
        called: set[str] = set().union(*(_called(function.source) for function in earlier))
        self._fresh = {function.name for function in earlier if function.name not in called}
        self._earlier: dict[Kind, list[str]] = {"pair": [], "reduce": [], "map": []}
        for function in earlier:
            self._earlier[function.kind].append(function.name)

    def function(self, name: str, kind: Kind) -> str:
        """A function's text."""
        bodies = {
            "pair": (self._plain, self._branch, self._steps),
            "reduce": (self._total, self._best, self._while, self._through_map),
            "map": (self._each, self._append, self._shift),
        }[kind]
        body = _pick(self._rng, bodies)()
        return f"def {name}({', '.join(PARAMETERS[kind])}):\n" + "\n".join(f"    {line}" for line in body)

    def _plain(self) -> list[str]:
        return [f"return {self._number(('a', 'b'), 3)}"]

    def _branch(self) -> list[str]:
        return [f"if {self._test('a', 'b')}:", f"    return {self._number('ab')}", f"return {self._number('ab')}"]

    def _steps(self) -> list[str]:
        return [
            f"c = {self._number('ab')}",
            f"if {self._test('c', 'b')}:",
            f"    c = c - {self._constant()}",
            f"return c + {self._number('ab', 1)}",
        ]

    def _total(self) -> list[str]:
        return [
            f"total = {self._start()}",
            "for x in xs:",
            f"    if {self._test('x', 'n')}:",
            f"        total += {self._number('xn')}",
            "    else:",
            f"        total -= {self._number('xn', 1)}",
            "return total",
        ]

    def _best(self) -> list[str]:
        return [
            f"best = {self._number(('xs[0]', 'n'))} - {self._start()}",
            "for x in xs[1:]:",
            f"    y = {self._number('xn')}",
            f"    if y {_pick(self._rng, _ORDER)} best:",
            "        best = y",
            "return best",
        ]

    def _while(self) -> list[str]:
        return [
            "i = 0",
            f"total = {self._start()}",
            "while i < len(xs):",
            f"    total += {self._number(('xs[i]', 'i', 'n'))}",
            f"    i += {self._constant(1, 3)}",
            "return total",
        ]

    def _through_map(self) -> list[str]:
        """A list is made by an earlier function, and summed up; without one, from the arguments."""
        names = self._earlier["map"]
        made = f"{self._callee(names)}(xs, n)" if names else "xs[1:] + [n]"
        return [f"ys = {made}", f"return {self._number(('ys[0]', 'ys[-1]', 'sum(ys)', 'n'), 2)} + {self._start('ys')}"]

    def _each(self) -> list[str]:
        test = self._test("x", "n")
        return [
            f"m = {self._start()}",
            f"return [m + {self._number('xn')} if {test} else {self._number('xn', 1)} for x in xs]",
        ]

    def _append(self) -> list[str]:
        return [
            "ys = []",
            "for i in range(len(xs)):",
            f"    ys.append({self._number((f'xs[i - {self._constant(1, 3)}]', 'xs[i]', 'n'))})",
            "return ys",
        ]

    def _shift(self) -> list[str]:
        names = self._earlier["map"]
        made = f"{self._callee(names)}(xs, n)" if names and self._rng.random() < 0.7 else "xs"
        return [f"ys = {made}", f"return ys[1:] + [{self._number(('ys[0]', 'ys[1]', 'n'), 1)} - {self._start('ys')}]"]

    def _number(self, values: Sequence[str], size: int = 2) -> str:
        """An expression of ``size`` operations, calls among them where there is something to call."""
        if size == 0:
            return self._constant() if self._rng.random() < 0.25 else _pick(self._rng, tuple(values))
        left = self._number(values, size - 1)
        calls = bool(self._earlier["pair"])
        if calls and self._rng.random() < 0.6:
            return f"{self._callee(self._earlier['pair'])}({left}, {self._number(values, 0)})"
        sign = _pick(self._rng, ("+", "-", "*", "//", "%", "min", "max"))
        if sign in {"min", "max"}:
            return f"{sign}({left}, {self._number(values, 0)})"
        right = self._constant(2, 8) if sign in {"//", "%"} else self._number(values, 0)
        return f"({left} {sign} {right})"

    def _start(self, values: str = "xs") -> str:
        """What an earlier function makes of the whole list; without one, a constant."""
        names = self._earlier["reduce"]
        return f"{self._callee(names)}({values}, n)" if names else self._constant(0)

    def _callee(self, names: Sequence[str]) -> str:
        fresh = [name for name in names if name in self._fresh]
        name: str = _pick(self._rng, tuple(fresh or names))
        self._fresh.discard(name)
        return name

    def _test(self, left: str, right: str) -> str:
        other = right if self._rng.random() < 0.5 else self._constant(2, 9)
        return f"{left} {_pick(self._rng, _ORDER)} {other}"

    def _constant(self, low: int = 1, high: int = 10) -> str:
        return str(self._rng.integers(low, high))


def _called(source: str) -> set[str]:
    nodes = ast.walk(ast.parse(source))
    return {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def _pick(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[int(rng.integers(len(options)))]
