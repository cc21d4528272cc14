import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualmind.domains.base import Domain
from dualmind.domains.reasoning.domain import Reasoning, as_problem
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.generate import Mix, generate_questions
from dualmind.domains.reasoning.question import Question, parse_output, write_output
from dualmind.errors import QuestionError

MIX = Mix(easy_share=0.85, max_hops=8)
QUESTIONS = generate_questions({"train": 60, "valid_seen": 30}, MIX, seed=1)


def test_every_expert_decision_scores_1_as_output_and_as_answer() -> None:
    domain: Domain = Reasoning(QUESTIONS)
    for problem in [*domain.problems("train"), *domain.problems("valid_seen")]:
        (decision,) = domain.expert(problem)
        episode = domain.episode(problem)
        _, info = episode.reset()
        assert (info["prompt"], info["candidates"]) == (decision.prompt, decision.candidates)
        assert decision.prompt == f"question : {problem.text}"
        for action in (decision.target, decision.rationale):
            assert episode.step(action)[1:4] == (1.0, True, False)
            assert domain.score(problem, [action]) == 1.0
        assert episode.step("nothing")[1] == 0.0
        steps, answer = parse_output(decision.rationale)
        assert (answer, len(steps)) == (decision.target, problem.hops)
        assert all(domain.check_step(problem, steps[: k + 1]) for k in range(len(steps)))
    assert domain.score(domain.problems("train")[0], []) == 0.0


def test_a_question_of_an_unknown_family_is_an_error() -> None:
    odd = Question("why ?", "so", ("so",), "riddles", 1, "plain")
    with pytest.raises(QuestionError, match="riddles"):
        Reasoning([odd])


def test_ids_of_different_questions_differ() -> None:
    assert len({as_problem(q).id for q in QUESTIONS}) == len(QUESTIONS)


def test_json_round_trip_and_its_errors() -> None:
    for question in QUESTIONS:
        assert Question.from_json(question.to_json()) == question
    for text in ("", "[]", "{}", "null", QUESTIONS[0].to_json().replace('"answer":"', '"answer":1,"x":"')):
        with pytest.raises(QuestionError):
            Question.from_json(text)
    with pytest.raises(QuestionError, match="one step per hop"):
        Question("why ?", "so", (), "keys", 1, "plain")
    with pytest.raises(QuestionError, match="'test'"):
        Question.from_json(QUESTIONS[0].to_json().replace('"split":"train"', '"split":"test"'))


word = st.text(alphabet="abc0123456789()<>[]", min_size=1, max_size=4)
phrase = st.lists(word, min_size=1, max_size=4).map(" ".join)


@given(st.lists(phrase, min_size=1, max_size=12), phrase)
def test_outputs_can_be_read_back(steps: list[str], answer: str) -> None:
    assert parse_output(write_output(steps, answer)) == (tuple(steps), answer)
    assert parse_output(write_output([], answer)) == ((), answer)


@given(st.one_of(st.text(), st.lists(st.sampled_from(["#1", "#2", "#3", "=", "7", "x", "#"])).map(" ".join)))
def test_any_text_can_be_read_and_scored(text: str) -> None:
    steps, answer = parse_output(text)
    assert all(isinstance(step, str) for step in steps)
    assert answer == " ".join(answer.split())
    by_name = {family.name: family for family in FAMILIES}
    for question in QUESTIONS[: len(FAMILIES)]:
        assert by_name[question.family].score(question, answer) in {0.0, 1.0}
        assert by_name[question.family].check(question, [text]) in {True, False}
        assert by_name[question.family].check(question, [text, text]) in {True, False}


def test_the_output_of_a_model_that_lost_count_keeps_the_steps_before() -> None:
    assert parse_output("#1 7 #3 8 = 9") == (("7",), "9")
    assert parse_output("#1 7 #2") == (("7", ""), "")
    assert parse_output("7") == ((), "7")
    assert parse_output("") == ((), "")
    assert parse_output("= 4") == ((), "4")
