"""Looking ahead, with a writer that says what a table holds and with a real one."""

from collections.abc import Sequence

import pytest

from dualmind.agent.look_ahead import look_ahead
from dualmind.agent.stepwise import Candidate, Chain, FunctionScorer, LogProbabilityScorer, SymbolicScorer, think
from dualmind.errors import LearningError
from dualmind.symbolic.checker import ReasoningChecker
from tests.agent.test_stepwise import PROMPT, seeded, system
from tests.agent.told import Told

__all__ = ["system"]


def taste(_: str, chains: Sequence[Sequence[str]]) -> list[float]:
    return [{"good": 1.0, "bad": 0.0}.get(chain[-1], 0.5) for chain in chains]


def test_a_step_that_leads_to_a_bad_one_is_seen_two_steps_ahead_and_not_one() -> None:
    ways = {
        "#1": ["a #2 bad = bad", "b #2 good = good"],
        "#1 a #2": ["bad = bad", "bad = bad"],
        "#1 b #2": ["good = good", "good = good"],
        "#1 a #2 bad =": ["bad"],
        "#1 b #2 good =": ["good"],
    }
    scorer = FunctionScorer(taste)
    for depth, wanted in ((1, Chain(("a", "bad"), "bad", 0.0)), (2, Chain(("b", "good"), "good", 0.0))):
        writer = Told(ways)
        chain = look_ahead(writer, "?", scorer, depth=depth, generator=None, num_candidates=2)
        assert (chain.steps, chain.answer) == (wanted.steps, wanted.answer)
        assert [copies for _, copies in writer.asked] == [2, 2, 1]  # each step one batch, then the answer


def test_looking_one_step_ahead_is_thinking(system: object) -> None:
    for seed in range(15):
        for scorer in (LogProbabilityScorer(), SymbolicScorer(ReasoningChecker())):
            one = look_ahead(system, PROMPT, scorer, depth=1, generator=seeded(seed), max_steps=3, max_words=24)  # type: ignore[arg-type]  # a fixture
            other = think(system, PROMPT, scorer, generator=seeded(seed), max_steps=3, max_words=24)  # type: ignore[arg-type]  # a fixture
            assert (one.steps, one.answer) == (other.steps, other.answer)


def test_nothing_written_ends_the_chain_and_no_depth_is_refused() -> None:
    writer = Told({"#1": ["", "#2"]})
    assert look_ahead(writer, "?", LogProbabilityScorer(), depth=2, generator=None, num_candidates=2) == Chain(
        (), "", 0
    )
    with pytest.raises(LearningError, match="depth = 0: give the number of steps"):
        look_ahead(writer, "?", LogProbabilityScorer(), depth=0, generator=None)


def test_a_candidate_of_a_way_is_judged_after_those_before_it() -> None:
    asked = []

    class Noting:
        def score(self, prompt: str, kept: Sequence[str], candidates: Sequence[Candidate]) -> list[float]:
            asked.append((prompt, tuple(kept), candidates[0].step, candidates[0].last))
            return [0.0]

    look_ahead(
        Told({"#1": ["a #2 b = b"], "#1 a #2": ["b = b"], "#1 a #2 b =": ["b"]}), "?", Noting(), depth=2,
        generator=None, num_candidates=1,
    )  # fmt: skip
    assert asked == [("?", (), "a", False), ("?", ("a",), "b", True), ("?", ("a",), "b", True)]
