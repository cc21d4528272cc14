from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmind.domains.reasoning.domain import as_prompt
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.question import MAX_HOPS, Question, TextFamily
from dualmind.symbolic.checker import ReasoningChecker

CHECKER = ReasoningChecker()
QUESTIONS = [
    family.draw(hops, np.random.default_rng([hops, number, index]))
    for index, family in enumerate(FAMILIES)
    for hops in range(1, MAX_HOPS + 1)
    for number in range(20)
]


def rng_of(question: Question) -> np.random.Generator:
    return np.random.default_rng(list(question.text.encode()))


def test_every_question_is_claimed_by_its_own_family_only() -> None:
    for question in QUESTIONS:
        assert [f.name for f in FAMILIES if f.read(question.text)] == [question.family], question.text


def test_right_steps_are_valid_and_finish_at_the_last() -> None:
    for question in QUESTIONS:
        prompt = as_prompt(question.text)
        for number in range(question.hops + 1):
            assert CHECKER.valid(prompt, question.steps[:number])
            assert CHECKER.finished(prompt, question.steps[:number]) == (number == question.hops)


def test_judgements_are_those_of_the_family_that_drew_the_question() -> None:
    own: dict[str, TextFamily] = {family.name: family for family in FAMILIES}
    for question in QUESTIONS:
        rng = rng_of(question)
        others = [*question.steps, "17", "true", "nobody", "", "1 2"]
        for _ in range(5):
            kept = question.steps[: int(rng.integers(question.hops))]
            steps = (*kept, others[int(rng.integers(len(others)))])
            assert CHECKER.valid(as_prompt(question.text), steps) == own[question.family].check(question, steps)


def test_a_step_too_many_is_invalid() -> None:
    for question in QUESTIONS:
        assert CHECKER.valid(as_prompt(question.text), (*question.steps, question.steps[-1])) is False


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "question : ",
        "question : how many eggs are left ?",
        "goal : put some mug on shelf . | hold : nothing",
        "( 1 + 2 ) =",  # not a question
        "question : ( 1 + 2 =",
        "question : 1 + 2 3 =",
        "question : ( 90 + 70 ) =",  # leaves 0..99
        "question : not ( true and false is",
        "question : true false or is",
        "question : alice says bob lies . bob says alice lies . does alice tell the truth ?",
        "question : alice tells the truth . it rains . bob says alice lies . does bob tell the truth ?",
        "question : alice has red . bob has blue . then it rains . then alice and bob swap . who has red now ?",
        "question : close all open brackets : ( ]",
        "question : close all open brackets : ( )",
        "question : sort these numbers from small to large : 7",
        "question : red key opens blue . start with the green key . what do you have after 1 door ?",
        "question : start at 98 1 . go 7 east . where are you ?",
        "question : i have a pet . how many animals do i have ?",
    ],
)
def test_of_unknown_texts_it_cannot_say(prompt: str) -> None:
    assert CHECKER.valid(prompt, ["3"]) is None
    assert CHECKER.finished(prompt, ["3"]) is None


def test_a_question_with_a_sentence_more_is_unknown() -> None:
    for question in QUESTIONS:
        words = question.text.split(" . ")
        if len(words) > 2 and question.family not in {"brackets", "sorting"}:
            changed = " . ".join([*words[:-1], "unless it rains on mondays", words[-1]])
            assert CHECKER.valid(as_prompt(changed), question.steps[:1]) is None, changed


@given(st.text(), st.lists(st.text()))
def test_any_text_is_judged_without_an_error(text: str, steps: Sequence[str]) -> None:
    assert CHECKER.valid(as_prompt(text), steps) in {None, True, False}


@given(
    st.integers(0, len(QUESTIONS) - 1), st.integers(0, 200), st.sampled_from(["", "not", "(", "12", "red", ".", "?"])
)
def test_changed_questions_are_judged_without_an_error(index: int, place: int, word: str) -> None:
    words = QUESTIONS[index].text.split()
    words[place % len(words)] = word
    assert CHECKER.valid(as_prompt(" ".join(words)), QUESTIONS[index].steps) in {None, True, False}
