"""Evaluates calls in a process of its own, which may be killed: ``python -m dualmind.symbolic.worker``.

It reads one JSON string a line, a call, and writes one JSON object a line, ``{"value": ...}`` or ``{"error": ...}``.
"""

import json
import operator
import re
import resource
import sys
from collections.abc import Callable
from typing import Any

import sympy
import z3

from dualmind.errors import SymbolicError
from dualmind.symbolic.grammar import (
    MAX_LENGTH,
    Algebra,
    Formula,
    Name,
    Number,
    Order,
    Relation,
    Simplify,
    Solve,
    Truth,
    Valid,
    parse,
)

READY = "ready"
# one call of each kind loads what SymPy and Z3 load late, so that the first call is as fast as the next
_WARM_UP = (
    "1 / 2 - 1",
    "( x + 1 ) ^ 2 / ( y - 1 )",
    "x ^ 2 - 2 = 0",
    "( x - 1 ) * ( x + 1 ) = x",
    "valid : p implies q",
    "order : a < b |- a < c",
)
_MAX_BYTES = 2**31  # of address space
_TOKEN = re.compile(r"\d+|[A-Za-z]+|\*\*|\S")


def evaluate(text: str) -> str:
    """The value of a call, as words parted by single blanks.

    Raises:
        SymbolicError: the call cannot be read, or has no value.
    """
    match parse(text):
        case Simplify(expression):
            field = _Field(_names(expression))
            return _words(field.to_sympy(field.value(expression)))
        case Solve(left, right):
            return _solve(text, left, right)
        case Valid(claim):
            return _said(_is_proven(formula(claim)))
        case Order(facts, claim):
            return _order(text, [_relation(fact) for fact in facts], _relation(claim))


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "minus": lambda value, _: -value,
}


class _Field:
    """Quotients of polynomials over the rational numbers: every value is in lowest terms."""

    def __init__(self, names: list[str]) -> None:
        self.domain = sympy.QQ.frac_field(*map(sympy.Symbol, names)) if names else sympy.QQ
        self.names = names
        self.divisors: list[Any] = []

    def value(self, tree: Algebra) -> Any:
        """An element of the field.

        Raises:
            SymbolicError: a division by what is always 0.
        """
        match tree:
            case Number(digits):
                return self.domain.from_sympy(sympy.Rational(digits))
            case Name(word):
                return self.domain.from_sympy(sympy.Symbol(word))
        if tree.sign == "^":
            return self._power(self.value(tree.left), _exponent(tree.right))
        left, right = self.value(tree.left), self.value(tree.right)
        return left / self._divisor(right) if tree.sign == "/" else _OPERATIONS[tree.sign](left, right)

    def to_sympy(self, value: Any) -> sympy.Expr:
        """An element as an expression."""
        return self.domain.to_sympy(value)

    def _power(self, base: Any, exponent: int) -> Any:
        return base**exponent if exponent >= 0 else self.domain.one / self._divisor(base) ** -exponent

    def _divisor(self, value: Any) -> Any:
        if not value:
            raise SymbolicError("the call divides by 0; leave that division out")
        self.divisors.append(value)
        return value


def _exponent(tree: Algebra) -> int:
    if isinstance(tree, Number):
        return int(tree.digits)
    assert not isinstance(tree, Name), "the grammar has whole numbers as exponents only"
    return -_exponent(tree.left)


def _names(*trees: Algebra) -> list[str]:
    found: set[str] = set()
    for tree in trees:
        match tree:
            case Name(word):
                found.add(word)
            case Number():
                pass
            case _:
                found.update(_names(tree.left, *(() if tree.right is tree.left else (tree.right,))))
    return sorted(found)


def _solve(text: str, left: Algebra, right: Algebra) -> str:
    """All real solutions, in order; "none", or "all" where both sides are the same."""
    names = _names(left, right)
    field = _Field(names)
    difference = field.value(left) - field.value(right)
    if not names:
        return _said(not difference)
    if not difference:
        return "all"
    if len(names) > 1:
        raise SymbolicError(
            f"the equation {text!r} has the unknowns {', '.join(names)}, of which it cannot fix more than one; "
            "put numbers in for the others"
        )
    unknown = sympy.Symbol(names[0])
    poles = [sympy.Poly(divisor.numer.as_expr(), unknown) for divisor in field.divisors]
    roots: list[sympy.Expr] = []
    for factor, _ in sympy.Poly(difference.numer.as_expr(), unknown).factor_list()[1]:
        if any(pole.rem(factor).is_zero for pole in poles):
            continue  # an irreducible factor: its roots are those of the divisor
        if factor.degree() > 2:
            raise SymbolicError(
                f"the equation {text!r} needs roots of degree {factor.degree()}, above the limit of 2; "
                "split it into equations that have a rational solution"
            )
        roots += [root for root in sympy.roots(factor) if root.is_real]
    return " , ".join(f"{names[0]} = {_words(root)}" for root in sorted(roots)) or "none"


def formula(tree: Formula) -> Any:
    """A formula for Z3."""
    match tree:
        case Truth(value):
            return z3.BoolVal(value)
        case Name(word):
            return z3.Bool(word)
    left = formula(tree.left)
    return z3.Not(left) if tree.word == "not" else _CONNECTIVES[tree.word](left, formula(tree.right))


_CONNECTIVES: dict[str, Callable[[Any, Any], Any]] = {
    "and": z3.And,
    "or": z3.Or,
    "implies": z3.Implies,
    "iff": operator.eq,
}
_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


def _relation(relation: Relation) -> Any:
    return _RELATIONS[relation.sign](z3.Real(relation.left), z3.Real(relation.right))


def _order(text: str, facts: list[Any], claim: Any) -> str:
    """ "true" or "false" where the facts decide it, else "unknown"."""
    if _is_proven(z3.Not(z3.And(facts))):
        raise SymbolicError(f"the facts of {text!r} contradict each other, so anything follows; leave one out")
    if _is_proven(claim, facts):
        return "true"
    return "false" if _is_proven(z3.Not(claim), facts) else "unknown"


def _is_proven(claim: Any, facts: list[Any] | None = None) -> bool:
    """Does the claim hold wherever the facts do? Both fragments are decidable."""
    solver = z3.SimpleSolver()
    solver.add(*(facts or []), z3.Not(claim))
    return bool(solver.check() == z3.unsat)


def _said(truth: bool) -> str:
    return "true" if truth else "false"


def _words(value: sympy.Expr) -> str:
    return " ".join("^" if token == "**" else token for token in _TOKEN.findall(sympy.sstr(value)))  # noqa: S105


def _short(text: str) -> str:
    value = evaluate(text)
    if len(value) > MAX_LENGTH:
        raise SymbolicError(
            f"the value of {text[:60]!r} has {len(value)} characters, above the limit of {MAX_LENGTH}; ask for less"
        )
    return value


def serve() -> None:
    """Answer calls until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, _MAX_BYTES))
    for call in _WARM_UP:
        evaluate(call)
    print(READY, flush=True)
    for line in sys.stdin:
        try:
            answer = {"value": _short(json.loads(line))}
        except SymbolicError as error:
            answer = {"error": str(error)}
        except Exception as error:
            answer = {
                "error": f"the call {line.strip()[:60]} could not be computed ({error!r:.100}); use a smaller one"
            }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
