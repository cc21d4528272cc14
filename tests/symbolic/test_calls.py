import ast
import itertools
import operator
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.errors import SymbolicError
from dualmind.symbolic.calls import SymbolicCalls

TEXTS = st.text() | st.text("0123456789xyp+-*/^()=<>|,: .", max_size=60)


@pytest.fixture(scope="module")
def calls() -> Iterator[SymbolicCalls]:
    with SymbolicCalls(limit_s=60.0) as own:
        yield own


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("3 + 4 * 2", "11"),
        ("1 / 3 + 0.1", "13 / 30"),
        ("- 2 ^ 2", "- 4"),
        ("2 ^ - 1", "1 / 2"),
        ("2 = 1 + 1", "true"),
        ("simplify : ( x + 1 ) ^ 2 - 1", "x ^ 2 + 2 * x"),
        ("( x ^ 2 - 1 ) / ( x - 1 )", "x + 1"),
        ("2 * x + 3 = 7", "x = 2"),
        ("solve : x ^ 2 = x", "x = 0 , x = 1"),
        ("x ^ 2 = 2", "x = - sqrt ( 2 ) , x = sqrt ( 2 )"),
        ("x ^ 2 = - 1", "none"),
        ("( x ^ 2 - 1 ) / ( x - 1 ) = 0", "x = - 1"),  # 1 is no solution: it divides by 0
        ("x + x = 2 * x", "all"),
        ("valid : p and ( p implies q ) implies q", "true"),
        ("valid : ( p implies q ) implies ( q implies p )", "false"),
        ("order : a < b , b < c |- a < c", "true"),
        ("order : a < b , b < c |- c <= a", "false"),
        ("order : a < b , c < b |- a < c", "unknown"),
    ],
)
def test_calls_are_answered(calls: SymbolicCalls, expression: str, value: str) -> None:
    assert calls.answer(expression) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 / 0", "divides by 0"),
        ("1 / ( x - x )", "divides by 0"),
        ("( x - x ) ^ - 1", "divides by 0"),
        ("x * y = 3", "has the unknowns x, y"),
        ("x ^ 3 - x = 1", "roots of degree 3"),
        ("( x + y + z ) ^ 12", "characters, above the limit of 400"),
        ("order : a < b , b < a |- a < c", "contradict each other"),
        ("__import__('os').system('true')", "which no call has"),
        ("9 ^ 9 ^ 9", "exponent is no whole number"),
    ],
)
def test_calls_without_a_value_are_an_error_with_a_remedy(calls: SymbolicCalls, expression: str, message: str) -> None:
    with pytest.raises(SymbolicError, match=message):
        calls.answer(expression)


def reference(text: str) -> Fraction:
    """Python's own grammar over exact fractions."""
    binary: dict[type, Any] = {
        ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    }  # fmt: skip

    def value(node: ast.expr) -> Fraction:
        match node:
            case ast.BinOp(left, kind, right):
                return Fraction(binary[type(kind)](value(left), value(right)))
            case ast.UnaryOp(ast.USub(), operand):
                return -value(operand)
            case ast.Constant(int(number)):
                return Fraction(number)
        raise AssertionError(node)

    return value(ast.parse(text, mode="eval").body)


SUMS = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: (
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"( {' '.join(parts)} )")
        | inner.map(lambda text: f"- {text}")
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(SUMS)
def test_arithmetic_is_that_of_python_with_fractions(calls: SymbolicCalls, text: str) -> None:
    try:
        expected = reference(text)
    except ZeroDivisionError:
        with pytest.raises(SymbolicError, match="divides by 0"):
            calls.answer(text)
    else:
        assert calls.answer(text).replace(" ", "") == str(expected)


FORMULAS = st.recursive(
    st.sampled_from(("p", "q", "r", "true", "false")),
    lambda inner: (
        st.tuples(inner, st.sampled_from(("and", "or")), inner).map(lambda parts: f"( {' '.join(parts)} )")
        | inner.map(lambda text: f"not {text}")
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(FORMULAS)
def test_validity_is_that_of_the_truth_table(calls: SymbolicCalls, formula: str) -> None:
    code = formula.replace("true", "True").replace("false", "False")
    rows = itertools.product((False, True), repeat=3)
    valid = all(eval(code, {}, dict(zip("pqr", row, strict=True))) for row in rows)  # drawn above
    assert calls.answer(f"valid : {formula}") == ("true" if valid else "false")


@settings(deadline=None)
@given(TEXTS)
def test_any_text_has_an_answer_or_is_an_error(calls: SymbolicCalls, text: str) -> None:
    try:
        assert calls.answer(text)
    except SymbolicError as error:
        assert str(error)


def test_a_chain_of_thought_is_completed(calls: SymbolicCalls) -> None:
    text = "#1 [ 3 + 4 ] then [ 7 * 2 -> 14 ] and [ open ( ] , but [ not closed"
    assert calls.complete(text) == "#1 [ 3 + 4 -> 7 ] then [ 7 * 2 -> 14 ] and [ open ( -> ? ] , but [ not closed"


@settings(deadline=None)
@given(TEXTS)
def test_completing_is_done_once(calls: SymbolicCalls, text: str) -> None:
    once = calls.complete(f"a [ {text} ] b")
    assert calls.complete(once) == once


def program(path: Path, body: str) -> tuple[str, str]:
    """A process that says that it is ready, and then does something else than answering."""
    path.write_text(f"import sys, time\nprint('ready', flush=True)\nsys.stdin.readline()\n{body}\n")
    return sys.executable, str(path)


def test_a_call_that_never_ends_is_killed_and_the_next_is_answered(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    with SymbolicCalls(limit_s=0.2, command=program(script, "time.sleep(3600)")) as own:
        with pytest.raises(SymbolicError, match=r"'1 \+ 1' took longer than the limit of 0.2 s"):
            own.answer("1 + 1")
        program(script, """print('{"value": "2"}', flush=True)""")
        own._limit_s = 60.0
        assert own.answer("1 + 1") == "2"


def test_a_process_that_dies_is_an_error_and_the_next_is_answered(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    with SymbolicCalls(limit_s=60.0, command=program(script, "sys.exit(9)")) as own:
        with pytest.raises(SymbolicError, match="ended"):
            own.answer("1 + 1")
        program(script, """print('{"value": "2"}', flush=True)""")
        assert own.answer("1 + 1") == "2"


def test_a_closed_process_is_started_again(calls: SymbolicCalls) -> None:
    calls.close()
    assert calls.answer("1 + 1") == "2"


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_a_limit_of_no_time_is_an_error(limit: float) -> None:
    with pytest.raises(SymbolicError, match="must be above 0 seconds"):
        SymbolicCalls(limit_s=limit)
