"""The grammar of inline calls, as trees of plain data; ``parser.py`` makes them from text.

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

from dataclasses import dataclass
from typing import Literal


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
