"""Truth values: boolean expressions, and people who speak about each other's honesty."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dualmind.domains.reasoning.families.words import NAMES
from dualmind.domains.reasoning.question import (
    Follow,
    Question,
    Reading,
    TextFamily,
    between,
    check_hops,
    pick,
    sample,
    value,
)

_LETTERS = ("p", "q", "r", "s", "t", "u")
_WORDS = ("false", "true")
_ANSWERS = ("no", "yes")
# Share of "not" among operators. With it, and with operators drawn regardless of the value wanted, a constant is as
# often true under a true expression as under a false one, so counting words tells nothing.
_NOT_SHARE = 0.4
_Operator = Literal["not", "and", "or"]


@dataclass(frozen=True, slots=True)
class _Step:
    """An operation; an operand is 0 or 1, or -1 - i for the value of step i. ``not`` has its operand twice."""

    operator: _Operator
    left: int
    right: int


_EXPRESSION_FORM = re.compile(
    r"(?:(?:true|false|not|and|or|[()]) )+is"
    r"|(?:[a-z] is (?:true|false) \. )+what is(?: (?:[a-z]|true|false|not|and|or|[()]))+ \?",
    re.ASCII,
)


class _Reader:
    """Reads an expression (not before and before or) into steps, brackets and left sides first."""

    def __init__(self, words: Sequence[str], values: dict[str, int]) -> None:
        self._words, self._values, self._at = words, values, 0
        self.steps: list[_Step] = []
        self._binary("or")
        if self._at != len(words):
            raise ValueError(f"{words[self._at :]} follow the expression")

    def _take(self, word: str) -> bool:
        found = self._at < len(self._words) and self._words[self._at] == word
        self._at += found
        return found

    def _binary(self, operator: Literal["and", "or"]) -> int:
        def operand() -> int:
            return self._binary("and") if operator == "or" else self._unary()

        left = operand()
        while self._take(operator):
            left = self._add(operator, left, operand())
        return left

    def _unary(self) -> int:
        if self._take("not"):
            inner = self._unary()
            return self._add("not", inner, inner)
        if self._take("("):
            inner = self._binary("or")
            if not self._take(")"):
                raise ValueError("a bracket is not closed")
            return inner
        self._at += 1
        return self._values[self._words[self._at - 1]]

    def _add(self, operator: _Operator, left: int, right: int) -> int:
        self.steps.append(_Step(operator, left, right))
        return -len(self.steps)


def _read_expression(text: str) -> list[_Step]:
    given = {"true": 1, "false": 0}
    if text.endswith(" is"):
        return _Reader(text.split()[:-1], given).steps
    told, _, asked = text.removesuffix(" ?").partition("what is ")
    given.update((letter, _WORDS.index(word)) for letter, word in re.findall(r"(\w) is (true|false)", told))
    return _Reader(asked.split(), given).steps


def _follow_expression(operations: Sequence[_Step]) -> Follow:
    """Steps: an operation with its values, and the result."""

    def follow(before: Sequence[str]) -> str:
        def truth(operand: int) -> int:
            return operand if operand >= 0 else _WORDS.index(value(before[-1 - operand]))

        step = operations[len(before)]
        left, right = truth(step.left), truth(step.right)
        if step.operator == "not":
            return f"not {_WORDS[left]} {_WORDS[1 - left]}"
        result = left & right if step.operator == "and" else left | right
        return f"{_WORDS[left]} {step.operator} {_WORDS[right]} {_WORDS[result]}"

    return follow


class Boolean(TextFamily):
    """Expressions of true, false, not, and, or (BIG-Bench Hard: boolean_expressions)."""

    name = "boolean"
    form = _EXPRESSION_FORM

    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """One hop is one operator."""
        check_hops(hops)
        phrasing, goal = pick(rng, ("bbh", "plain")), between(rng, 0, 1)
        if phrasing == "bbh":
            text = f"{_expression(hops, goal, (('false',), ('true',)), rng)} is"
        else:
            letters = sample(rng, _LETTERS, between(rng, 3, 4))
            values = [0, 1, *(between(rng, 0, 1) for _ in letters[2:])]
            leaves = tuple(tuple(x for x, v in zip(letters, values, strict=True) if v == value) for value in (0, 1))
            facts = [f"{letter} is {_WORDS[value]} ." for letter, value in zip(letters, values, strict=True)]
            told = " ".join(sample(rng, facts, len(facts)))
            text = f"{told} what is {_expression(hops, goal, leaves, rng)} ?"
        return self.ask(text, hops, phrasing)

    def reading(self, text: str) -> Reading:
        """See :class:`TextFamily`."""
        operations = _read_expression(text)
        return Reading(len(operations), _follow_expression(operations))


def _expression(num_operators: int, value: int, leaves: Sequence[Sequence[str]], rng: np.random.Generator) -> str:
    """A random expression of that value; ``leaves[v]`` are the words for v."""
    if num_operators == 0:
        return pick(rng, leaves[value])
    if rng.random() < _NOT_SHARE:
        inner = _expression(num_operators - 1, 1 - value, leaves, rng)
        return f"not {_bracketed(inner)}"
    operator = pick(rng, ("and", "or"))
    decided = [(value, value)] if value == (operator == "and") else [(value, value), (0, 1), (1, 0)]
    left, right = pick(rng, decided)
    num_left = between(rng, 0, num_operators - 1)
    one = _expression(num_left, left, leaves, rng)
    other = _expression(num_operators - 1 - num_left, right, leaves, rng)
    return f"{_bracketed(one)} {operator} {_bracketed(other)}"


def _bracketed(expression: str) -> str:
    return f"( {expression} )" if " " in expression else expression


_SAYS = re.compile(r"(\w+) says (?:that )?(\w+) (tells the truth|lies|is honest|is a liar)")
_KNOWN = re.compile(r"(?:^|\. )(\w+) (tells the truth|lies|is honest|is a liar)")
_ASKED = re.compile(r"(?:does (\w+) tell the truth|is (\w+) honest) \?$")
_HONEST = {"tells the truth": 1, "is honest": 1, "lies": 0, "is a liar": 0}


_PEOPLE_FORM = re.compile(
    rf"(?:(?:{_SAYS.pattern}|\w+ (?:tells the truth|lies|is honest|is a liar)) \. )+{_ASKED.pattern}", re.ASCII
)


@dataclass(frozen=True, slots=True)
class _Saying:
    """What ``speaker`` says of ``name``: are they honest (1) or not (0)?"""

    speaker: str
    name: str
    honest: int


def _read_people(text: str) -> tuple[int, list[_Saying]]:
    """Is the known person honest, and what does each speaker say of the one before, up to the one asked for?

    Raises:
        ValueError: people speak of each other in a circle.
    """
    known = {name: _HONEST[word] for name, word in _KNOWN.findall(text)}
    about = {speaker: _Saying(speaker, name, _HONEST[word]) for speaker, name, word in _SAYS.findall(text)}
    asked = next(name for name in _ASKED.findall(text)[0] if name)
    way: list[_Saying] = []  # what is said at each hop, from the last to the first
    while asked not in known:
        if len(way) == len(about):
            raise ValueError(f"what is said of {asked} leads to nobody who is known")
        way.append(about[asked])
        asked = about[asked].name
    return known[asked], way[::-1]


def _follow_people(first: int, way: Sequence[_Saying]) -> Follow:
    """Steps, from the known person on: who is spoken of, who speaks, what they say, and is the speaker honest?"""

    def follow(before: Sequence[str]) -> str:
        spoken_of = _ANSWERS.index(value(before[-1])) if before else first
        own = way[len(before)]
        return f"{own.name} {own.speaker} {_ANSWERS[own.honest]} {_ANSWERS[own.honest == spoken_of]}"

    return follow


class Truth(TextFamily):
    """Who tells the truth (BIG-Bench Hard: web_of_lies)? The plain wording has two people that do not matter."""

    name = "truth"
    form = _PEOPLE_FORM

    def draw(self, hops: int, rng: np.random.Generator) -> Question:
        """One hop is one statement about another person."""
        check_hops(hops)
        phrasing, people = pick(rng, ("bbh", "plain")), sample(rng, NAMES, hops + 3)
        chain, spare = people[: hops + 1], people[hops + 1 :]
        if phrasing == "bbh":
            text = (
                f"{' '.join(_say(chain, 'says', ('lies', 'tells the truth'), rng))} does {chain[-1]} tell the truth ?"
            )
        else:
            words = ("is a liar", "is honest")
            told, other = _say(chain, "says that", words, rng), _say(spare, "says that", words, rng)
            for sentence in other:
                told.insert(between(rng, 0, len(told)), sentence)
            text = f"{' '.join(told)} is {chain[-1]} honest ?"
        return self.ask(text, hops, phrasing)

    def reading(self, text: str) -> Reading:
        """See :class:`TextFamily`."""
        first, way = _read_people(text)
        return Reading(len(way), _follow_people(first, way))


def _say(chain: Sequence[str], says: str, words: tuple[str, str], rng: np.random.Generator) -> list[str]:
    told = [f"{chain[0]} {pick(rng, words)} ."]
    told += [f"{one} {says} {of} {pick(rng, words)} ." for of, one in itertools.pairwise(chain)]
    return told
