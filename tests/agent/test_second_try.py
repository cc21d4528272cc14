"""Trying twice, with a writer that says what a table holds."""

from dualmind.agent.second_try import checker_doubt, try_twice
from dualmind.agent.stepwise import Chain
from dualmind.domains.reasoning.domain import as_prompt
from dualmind.symbolic.checker import ReasoningChecker
from tests.agent.test_stepwise import PROMPT
from tests.agent.told import Told


def test_a_doubted_step_is_written_anew_and_what_stood_before_it_stays() -> None:
    writer = Told({"": ["#1 a #2 bad = bad"], "#1 a #2": ["bad = bad", "good", "good = good", "b = good", "b = b"]})
    tried = {
        (certain, copies): try_twice(writer, ["?"], lambda *_: 1, certain=certain, generator=None, copies=copies)[0]
        for certain in (True, False)
        for copies in (1, 4, 5)
    }
    assert all((own.first.steps, own.first.answer) == (("a", "bad"), "bad") for own in tried.values())
    assert tried[True, 1].second is tried[True, 1].first  # only the doubted step again
    assert (tried[True, 4].second.steps, tried[True, 4].second.answer) == (("a", "good"), "good")
    assert tried[True, 5].second.answer == "good"  # two of three
    assert tried[False, 4].second.answer == "bad"  # two votes of the likeliest, the first try's counted
    assert tried[False, 5].second.answer == "bad"


def test_what_nobody_doubts_is_not_written_again() -> None:
    writer = Told({"": ["#1 a = a"]})
    (tries,) = try_twice(writer, ["?"], lambda *_: None, certain=True, generator=None)
    assert tries.first is tries.second
    assert len(writer.asked) == 1


def test_the_checker_doubts_the_first_wrong_step_and_an_end_at_the_wrong_place() -> None:
    doubt = checker_doubt(ReasoningChecker())  # steps of the prompt: "]" and ")"
    for steps, wanted in (((")",), 0), (("]", "]"), 1), (("]",), 1), (("]", ")"), None), ((), 0)):
        assert doubt(PROMPT, Chain(steps, "x", 0.0)) == wanted
    assert doubt(as_prompt("of no family"), Chain(("x",), "y", 0.0)) is None
