"""A small grammar for inline calls: text to trees of plain data, refused before anything is computed.

SymPy's own parser evaluates Python, so no text reaches it: what is read here is numbers, names and a closed set of
signs, and its cost is bounded by the size of the numbers and the degree of the powers that can come out.

    call     := "valid" ":" formula | "order" ":" facts "|-" relation
              | "solve" ":" equation | "simplify" ":" sum | equation | sum
    equation := sum "=" sum
    sum      := product (("+" | "-") product)*
    product  := sign (("*" | "/") sign)*
    sign     := "-" sign | power
    power    := atom (("^" | "**") sign)?
    formula  := implies ("iff" implies)*
    implies  := or ("implies" implies)?
    or       := and ("or" and)*                    and likewise for "and" and "not"
    facts    := relation ("," relation)*
    relation := name ("<" | ">" | "<=" | ">=" | "=" | "!=") name
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from dualmind.errors import SymbolicError

MAX_LENGTH = 400  # characters
MAX_DEPTH = 30  # brackets, signs and powers within each other
MAX_DIGITS = 15  # of a number as it is written
MAX_BITS = 512  # of the largest number that can come out: 154 digits
MAX_DEGREE = 12  # of the largest power of unknowns that can come out
MAX_NAMES = 20  # different names in a call of logic
MAX_UNKNOWNS = 3  # different names in one of algebra: 455 terms of degree 12 at most

_TOKEN = re.compile(r"\s*(?:([0-9]+(?:\.[0-9]+)?|[A-Za-z]+|\*\*|<=|>=|!=|\|-|[-+*/^()<>=,:])|(\S))")
_NUMBER, _NAME = re.compile(r"[0-9.]+"), re.compile(r"[A-Za-z]+")
_RELATIONS = ("<", ">", "<=", ">=", "=", "!=")
_WORDS = frozenset({"valid", "order", "solve", "simplify", "true", "false", "not", "and", "or", "implies", "iff"})


@dataclass(frozen=True, slots=True)
class Number:
    """A number >= 0, in decimal digits with at most one point."""

    digits: str


@dataclass(frozen=True, slots=True)
class Name:
    """An unknown, a proposition or a thing to be ordered."""

    word: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of algebra; ``minus`` has its operand twice."""

    sign: Literal["+", "-", "*", "/", "^", "minus"]
    left: "Algebra"
    right: "Algebra"


@dataclass(frozen=True, slots=True)
class Truth:
    """``true`` or ``false``."""

    value: bool


@dataclass(frozen=True, slots=True)
class Connective:
    """An operation of logic; ``not`` has its operand twice."""

    word: Literal["not", "and", "or", "implies", "iff"]
    left: "Formula"
    right: "Formula"


@dataclass(frozen=True, slots=True)
class Relation:
    """``left sign right`` between two names."""

    left: str
    sign: str
    right: str


Algebra = Number | Name | Operation
Formula = Truth | Name | Connective


@dataclass(frozen=True, slots=True)
class Simplify:
    """Bring to a normal form; without unknowns, the value."""

    expression: Algebra


@dataclass(frozen=True, slots=True)
class Solve:
    """Find the unknown; without any, say whether the sides are equal."""

    left: Algebra
    right: Algebra


@dataclass(frozen=True, slots=True)
class Valid:
    """Is the formula true whatever its propositions are?"""

    formula: Formula


@dataclass(frozen=True, slots=True)
class Order:
    """Does the claim follow from the facts about a row of things?"""

    facts: tuple[Relation, ...]
    claim: Relation


Call = Simplify | Solve | Valid | Order


def parse(text: str) -> Call:
    """A call as data.

    Raises:
        SymbolicError: it is not of the grammar, or what it asks for is too large.
    """
    if len(text) > MAX_LENGTH:
        raise SymbolicError(
            f"the call {_shown(text)} has {len(text)} characters, above the limit of {MAX_LENGTH}; split it up"
        )
    return _Parser(text).call()


def _bits(number: int) -> int:
    """Base-2 logarithm, rounded up; 0 for 0 and 1, whose powers do not grow."""
    return max(number - 1, 0).bit_length()


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


@dataclass(frozen=True, slots=True)
class _Size:
    """Bounds of the quotient of polynomials that comes out, whatever cancels.

    ``bits`` bound the base-2 logarithm of the sum of absolute coefficients, over a common denominator: that sum is at
    most multiplied in a product and added in a sum.
    """

    bits: int
    degree: int
    bits_below: int = 0  # the same of the denominator
    degree_below: int = 0

    def add(self, other: "_Size") -> "_Size":
        """Of sum and difference."""
        return _Size(
            max(self.bits + other.bits_below, other.bits + self.bits_below) + 1,
            max(self.degree + other.degree_below, other.degree + self.degree_below),
            self.bits_below + other.bits_below,
            self.degree_below + other.degree_below,
        )

    def multiply(self, other: "_Size") -> "_Size":
        """Of a product."""
        return _Size(
            self.bits + other.bits, self.degree + other.degree,
            self.bits_below + other.bits_below, self.degree_below + other.degree_below,
        )  # fmt: skip

    def invert(self) -> "_Size":
        """Of the reciprocal."""
        return _Size(self.bits_below, self.degree_below, self.bits, self.degree)

    def power(self, times: int) -> "_Size":
        """Of a power >= 0."""
        return _Size(self.bits * times, self.degree * times, self.bits_below * times, self.degree_below * times)


class _Parser:
    """Recursive descent; each method reads one rule of the grammar and goes on after it."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        self._tokens: list[str] = []
        for match in _TOKEN.finditer(text):
            if match[2]:
                raise self._error(
                    f"has {match[2]!r}, which no call has; use numbers, names and + - * / ^ ( ) = < > , :"
                )
            self._tokens.append(match[1])
        self._num_names = len({token for token in self._tokens if _NAME.fullmatch(token)} - _WORDS)
        if self._num_names > MAX_NAMES:
            raise self._error(f"has {self._num_names} names, above the limit of {MAX_NAMES}; use fewer")

    def call(self) -> Call:
        call = self._call()
        if self._at < len(self._tokens):
            raise self._error(f"goes on with {self._peek()!r} after its end; join the parts by an operation")
        return call

    def _call(self) -> Call:
        kind = self._peek()
        if kind in {"valid", "order", "solve", "simplify"}:
            self._at += 1
            self._expect(":")
        match kind:
            case "valid":
                return Valid(self._chain(0))
            case "order":
                return self._order()
        if self._num_names > MAX_UNKNOWNS:
            raise self._error(f"has {self._num_names} unknowns, above the limit of {MAX_UNKNOWNS}; use fewer")
        left, _ = self._sum()
        if kind == "solve" or (kind != "simplify" and self._peek() == "="):
            self._expect("=")
            return Solve(left, self._sum()[0])
        return Simplify(left)

    def _sum(self) -> tuple[Algebra, _Size]:
        return self._operations(("+", "-"))

    def _operations(self, signs: tuple[str, str]) -> tuple[Algebra, _Size]:
        """Operations of one rank, from left to right."""
        operand = self._sign if "*" in signs else lambda: self._operations(("*", "/"))
        tree, size = operand()
        while (sign := self._peek()) in signs:
            self._at += 1
            right, other = operand()
            match sign:
                case "*":
                    size = size.multiply(other)
                case "/":
                    size = size.multiply(other.invert())
                case _:
                    size = size.add(other)
            self._check(size)
            tree = Operation(sign, tree, right)  # type: ignore[arg-type]  # one of the signs
        return tree, size

    def _sign(self) -> tuple[Algebra, _Size]:
        if not self._take("-"):
            return self._power()
        with self._deeper():
            tree, size = self._sign()
        return Operation("minus", tree, tree), size

    def _power(self) -> tuple[Algebra, _Size]:
        base, size = self._atom()
        if not (self._take("^") or self._take("**")):
            return base, size
        with self._deeper():
            exponent, _ = self._sign()
        below = isinstance(exponent, Operation) and exponent.sign == "minus"
        number = exponent.left if isinstance(exponent, Operation) and below else exponent
        if not isinstance(number, Number) or "." in number.digits:
            raise self._error("has a power whose exponent is no whole number; write the exponent in digits")
        size = (size.invert() if below else size).power(int(number.digits))
        self._check(size)
        return Operation("^", base, exponent), size

    def _atom(self) -> tuple[Algebra, _Size]:
        if self._take("("):
            with self._deeper():
                tree = self._sum()
            self._expect(")")
            return tree
        token = self._peek()
        if _NUMBER.fullmatch(token):
            self._at += 1
            if len(token) > MAX_DIGITS:
                raise self._error(
                    f"has the number {token[:20]}... of {len(token)} digits, above the limit of {MAX_DIGITS}"
                )
            places = len(token.partition(".")[2])
            return Number(token), _Size(_bits(int(token.replace(".", ""))), 0, _bits(10**places))
        return Name(self._name()), _Size(0, 1)

    def _chain(self, rank: int) -> Formula:
        """Connectives by rank: iff, implies (from the right), or, and; then ``not`` and atoms."""
        words: tuple[Literal["iff", "implies", "or", "and"], ...] = ("iff", "implies", "or", "and")
        if rank == len(words):
            return self._negation()
        tree = self._chain(rank + 1)
        if words[rank] == "implies":
            if self._take("implies"):
                with self._deeper():
                    return Connective("implies", tree, self._chain(rank))
            return tree
        while self._take(words[rank]):
            tree = Connective(words[rank], tree, self._chain(rank + 1))
        return tree

    def _negation(self) -> Formula:
        with self._deeper():
            if self._take("not"):
                inner = self._negation()
                return Connective("not", inner, inner)
            if self._take("("):
                tree = self._chain(0)
                self._expect(")")
                return tree
        if self._peek() in {"true", "false"}:
            self._at += 1
            return Truth(self._tokens[self._at - 1] == "true")
        return Name(self._name())

    def _order(self) -> Order:
        facts = [self._relation()]
        while self._take(","):
            facts.append(self._relation())
        self._expect("|-")
        return Order(tuple(facts), self._relation())

    def _relation(self) -> Relation:
        left, sign = self._name(), self._peek()
        if sign not in _RELATIONS:
            raise self._error(f"has {sign!r} where one of {' '.join(_RELATIONS)} is needed")
        self._at += 1
        return Relation(left, sign, self._name())

    def _name(self) -> str:
        token = self._peek()
        if not _NAME.fullmatch(token) or token in _WORDS:
            found = repr(token) if token else "its end"
            raise self._error(f"has {found} where a name or number is needed")
        self._at += 1
        return token

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, token: str) -> bool:
        found = self._peek() == token
        self._at += found
        return found

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self._error(f"has {self._peek() or 'its end'!r} where {token!r} is needed")

    def _check(self, size: _Size) -> None:
        bits, degree = max(size.bits, size.bits_below), max(size.degree, size.degree_below)
        if bits > MAX_BITS:
            raise self._error(f"can give numbers of {bits} bits, above the limit of {MAX_BITS}; use smaller powers")
        if degree > MAX_DEGREE:
            raise self._error(f"can give powers of degree {degree}, above the limit of {MAX_DEGREE}; use smaller ones")

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"is nested more than {MAX_DEPTH} deep; split it into smaller ones")
        yield
        self._depth -= 1

    def _error(self, what: str) -> SymbolicError:
        return SymbolicError(f"the call {_shown(self._text)} {what}")
