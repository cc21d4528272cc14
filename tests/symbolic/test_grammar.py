import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmind.errors import SymbolicError
from dualmind.symbolic import grammar
from dualmind.symbolic.grammar import Connective, Name, Number, Operation, Simplify, Solve, Valid, parse


def test_powers_bind_before_signs_before_products_before_sums() -> None:
    two, three, x = Number("2"), Number("3"), Name("x")
    power = Operation("^", x, two)
    product = Operation("*", three, Operation("minus", power, power))
    assert parse("2 + 3 * - x ^ 2") == Simplify(Operation("+", two, product))
    assert parse("2 - 3 - x") == Simplify(Operation("-", Operation("-", two, three), x))
    assert parse("x ** 2 = 3") == Solve(power, three)


def test_implications_are_read_from_the_right_and_last() -> None:
    p, q, r = Name("p"), Name("q"), Name("r")
    assert parse("valid : p and q implies q implies r") == Valid(
        Connective("implies", Connective("and", p, q), Connective("implies", q, r))
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has its end where a name or number is needed"),
        ("__import__('os')", "has '_', which no call has"),
        ("x.real", re.escape("has '.', which no call has")),
        ("lambda : 3", "goes on with ':'"),
        ("exec ( 3 )", re.escape("goes on with '('")),
        ("9 ^ 9 ^ 9", "exponent is no whole number"),
        ("2 ^ x", "exponent is no whole number"),
        ("2 ^ 99999999999", "numbers of 99999999999 bits, above the limit of 512; use smaller powers"),
        ("( ( 2 ^ 99 ) ^ 99 ) ^ 99", "above the limit of 512"),
        ("2 ^ -99999", "above the limit of 512"),
        ("x ^ 13", "powers of degree 13, above the limit of 12"),
        ("( 1 / x ) ^ -13", "powers of degree 13"),
        ("1" * 16, "16 digits, above the limit of 15"),
        ("( " * 40 + "1" + " )" * 40, "nested more than 30 deep"),
        ("- " * 40 + "1", "nested more than 30 deep"),
        ("valid : " + "not " * 40 + "p", "nested more than 30 deep"),
        ("1 + " * 200 + "1", "801 characters, above the limit of 400"),
        ("a + b + c + d", "4 unknowns, above the limit of 3"),
        ("valid : " + " and ".join("abcdefghijklmnopqrstu"), "21 names, above the limit of 20"),
        ("solve : x + 1", "has 'its end' where '=' is needed"),
        ("order : a < b", re.escape("where '|-' is needed")),
        ("order : a b |- b", "has 'b' where one of < >"),
        ("1 2", "goes on with '2'"),
        ("( 1 + 2", re.escape("where ')' is needed")),
        ("\u0661 + 1", "which no call has"),  # a digit of another script
    ],
)
def test_what_is_refused_is_named_with_the_remedy(text: str, message: str) -> None:
    with pytest.raises(SymbolicError, match=message):
        parse(text)


@given(st.text() | st.text("0123456789xyp+-*/^()=<>|,: .[]andorimplsvefu_\n", max_size=80))
def test_any_text_is_a_call_or_an_error(text: str) -> None:
    try:
        parse(text)
    except SymbolicError as error:
        assert "the call" in str(error)


def test_the_limits_are_those_that_the_messages_state() -> None:
    parse("9" * grammar.MAX_DIGITS)
    parse(f"2 ^ {grammar.MAX_BITS}")
    parse(f"x ^ {grammar.MAX_DEGREE}")
    parse("(" * grammar.MAX_DEPTH + "1" + ")" * grammar.MAX_DEPTH)
