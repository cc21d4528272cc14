"""Chained arithmetic: expressions with brackets, and operations told one after another. All values are in 0..99."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dualmind.domains.reasoning.question import (
    Follow,
    Question,
    Reading,
    TextFamily,
    between,
    check_hops,
    pick,
    value,
)

_TOP = 99
_VERBS = {"add": "+", "subtract": "-", "multiply by": "*", "divide by": "/"}
_FORM = re.compile(
    r"(?:(?:\d+|[()*+-]) )+="
    rf"|start with \d+(?: \. (?:{'|'.join(_VERBS)}) \d+)+ \. what is the result \?",
    re.ASCII,
)
_Operand = int  # a number >= 0, or -1 - i for the value of step i


def _apply(sign: str, left: int, right: int) -> int | None:
    """The value, or None where it leaves 0..99 or is no whole number."""
    match sign:
        case "+":
            value = left + right
        case "-":
            value = left - right
        case "*":
            value = left * right
        case _:
            if right == 0 or left % right:
                return None
            value = left // right
    return value if 0 <= value <= _TOP else None


@dataclass(frozen=True, slots=True)
class _Step:
    sign: str
    left: _Operand
    right: _Operand


def _read(text: str) -> list[_Step]:
    """Operations in the order in which they are carried out."""
    if text.startswith("start with "):
        first, *rest = text.removeprefix("start with ").removesuffix(" . what is the result ?").split(" . ")
        told = [clause.rsplit(" ", 1) for clause in rest]
        return [
            _Step(_VERBS[verb], int(first) if index == 0 else -index, int(number))
            for index, (verb, number) in enumerate(told)
        ]
    steps: list[_Step] = []
    _schedule(_nest(text.removesuffix(" =").split()), steps)
    return steps


def _nest(words: Sequence[str]) -> list[object]:
    """Words as nested lists, one per pair of brackets."""
    stack: list[list[object]] = [[]]
    for word in words:
        if word == "(":
            stack.append([])
        elif word == ")":
            closed = stack.pop()
            stack[-1].append(closed)
        else:
            stack[-1].append(word)
    if len(stack) != 1:
        raise ValueError(f"{len(stack) - 1} brackets are not closed")
    return stack[0]


def _schedule(group: list[object], steps: list[_Step]) -> _Operand:
    """Append the steps of a group: brackets first, then products, then sums, each from left to right."""
    items = [_schedule(item, steps) if isinstance(item, list) else item for item in group]
    for signs in ("*", "+-"):
        index = 1
        while index < len(items):
            if str(items[index]) in signs:
                left, right = int(str(items[index - 1])), int(str(items[index + 1]))
                steps.append(_Step(str(items[index]), left, right))
                items[index - 1 : index + 2] = [-len(steps)]
            else:
                index += 2
    if len(items) != 1:
        raise ValueError(f"{items} are not joined by operations")
    return int(str(items[0]))


def _follow(operations: Sequence[_Step]) -> Follow:
    """Steps: an operation with its values, and the result."""

    def follow(before: Sequence[str]) -> str:
        def number(operand: _Operand) -> int:
            return operand if operand >= 0 else int(value(before[-1 - operand]))

        step = operations[len(before)]
        left, right = number(step.left), number(step.right)
        result = _apply(step.sign, left, right)
        if result is None:
            raise ValueError(f"{step} leaves 0..{_TOP}")
        return f"{left} {step.sign} {right} {result}"

    return follow


class Arithmetic(TextFamily):
    """Whole numbers in 0..99 (BIG-Bench Hard: multistep_arithmetic_two, without negative numbers)."""

    name = "arithmetic"
    form = _FORM

    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """One hop is one operation."""
        check_hops(hops)
        phrasing = pick(rng, ("bbh", "plain"))
        text = _write_expression(hops, rng) if phrasing == "bbh" else _write_told(hops, rng)
        return self.ask(text, hops, phrasing)

    def reading(self, text: str) -> Reading:
        """See :class:`TextFamily`."""
        operations = _read(text)
        return Reading(len(operations), _follow(operations))


def _write_expression(hops: int, rng: np.random.Generator) -> str:
    """``( ( 1 + 2 * 3 ) - ( 4 - 1 ) ) =``; fewer than three operations need one pair of brackets only."""
    if hops < 3:
        return f"( {_group(hops, rng)[0]} ) ="
    while True:
        first = between(rng, 1, hops - 2)
        (left, one), (right, other) = _group(first, rng), _group(hops - 1 - first, rng)
        signs = [sign for sign in "+-*" if _apply(sign, one, other) is not None]
        if signs:
            return f"( ( {left} ) {pick(rng, signs)} ( {right} ) ) ="


def _group(num_operations: int, rng: np.random.Generator) -> tuple[str, int]:
    """Sum of numbers and products of two, with its value; every sum on the way is in 0..99."""
    num_products = between(rng, 0, (num_operations + 1) // 2)
    num_terms = num_operations - num_products + 1
    is_product = set(rng.permutation(num_terms)[:num_products].tolist())
    words, total = "", 0
    for index in range(num_terms):
        while True:
            term, value = _term(index in is_product, rng)
            signs = ["+"] if index == 0 else [sign for sign in "+-" if _apply(sign, total, value) is not None]
            if signs:
                break
        sign = pick(rng, signs)
        words += term if index == 0 else f" {sign} {term}"
        total = total + value if sign == "+" else total - value
    return words, total


def _term(is_product: bool, rng: np.random.Generator) -> tuple[str, int]:
    if is_product:
        one, other = between(rng, 1, 9), between(rng, 1, 9)
        return f"{one} * {other}", one * other
    number = between(rng, 1, 49)  # so that adding or subtracting it always stays in 0..99
    return str(number), number


def _write_told(hops: int, rng: np.random.Generator) -> str:
    value = between(rng, 1, _TOP)
    clauses = [f"start with {value}"]
    for _ in range(hops):
        choices = [
            (verb, number, result)
            for verb, sign in _VERBS.items()
            if (number := between(rng, 2, 9) if sign in "*/" else between(rng, 1, 49))
            and (result := _apply(sign, value, number)) is not None
        ]
        verb, number, value = pick(rng, choices)
        clauses.append(f"{verb} {number}")
    return " . ".join([*clauses, "what is the result ?"])
