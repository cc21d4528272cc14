import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.question import MAX_HOPS, TextFamily
from dualmind.symbolic.deduction import solve

KNOWN = {"ordering", "boolean", "truth", "swaps"}


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.name in KNOWN], ids=lambda family: family.name)
def test_z3_agrees_with_every_answer(family: TextFamily) -> None:
    for hops in range(1, MAX_HOPS + 1):
        for number in range(10):
            question = family.draw(hops, np.random.default_rng([hops, number]))
            assert solve(question.text) == question.answer, question.text


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.name not in KNOWN], ids=lambda family: family.name)
def test_questions_of_other_families_have_no_answer(family: TextFamily) -> None:
    assert all(solve(family.draw(hops, np.random.default_rng(hops)).text) is None for hops in range(1, 6))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "what is p ?",
        "what is the time ?",
        "p is true . what is q ?",  # open
        "p is true . p is false . what is p ?",  # contradictory
        "bob says that eve is honest . is bob honest ?",
        "ada is taller than bob . eve is taller than bob . who is the tallest ?",
        "ada is taller than bob . bob is taller than ada . who is the tallest ?",
        "ada is taller than bob . ada is rich . who is the tallest ?",
        "ada has red . bob has red . #1 ada and bob swap . who has red now ?",
        "ada has red . bob has blue . #1 ada and eve swap . who has red now ?",
    ],
)
def test_a_text_that_is_unknown_or_fixes_no_answer_has_none(text: str) -> None:
    assert solve(text) is None


def test_deductions_that_need_more_than_one_pass() -> None:
    assert solve("ada is taller than bob . eve is the second tallest . who is the shortest ?") == "bob"
    # each says that the other lies, so one of them does; that both are called honest by a third makes the third a liar
    told = "ada says that bob is a liar . bob says that ada is a liar . eve says that ada is honest . eve is a liar ."
    assert solve(f"{told} is bob honest ?") == "yes"


@given(st.text())
def test_any_text_has_an_answer_or_none(text: str) -> None:
    assert solve(text) is None or isinstance(solve(text), str)
