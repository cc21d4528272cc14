"""Looking ahead and trying twice, with a writer that draws from a table and with a real one."""

from collections.abc import Sequence

import pytest
import torch

from dualmind.agent.look_ahead import look_ahead
from dualmind.agent.second_try import checker_doubt, try_twice
from dualmind.agent.stepwise import Candidate, Chain, FunctionScorer, LogProbabilityScorer, SymbolicScorer, think
from dualmind.domains.reasoning.domain import as_prompt
from dualmind.errors import LearningError
from dualmind.models.decoding import Written
from dualmind.symbolic.checker import ReasoningChecker
from tests.agent.test_stepwise import PROMPT, seeded, system

__all__ = ["system"]
WORDS = ["", "#1", "#2", "#3", "=", "a", "b", "good", "bad", "]", ")", "]["]


class Told:
    """Writes given texts after a prefix, in turn; ends them at stop words as a model does."""

    def __init__(self, texts: dict[str, list[str]]) -> None:
        self.texts, self.asked = texts, list[tuple[str, int]]()

    def write(
        self,
        prompts: Sequence[str],
        *,
        max_words: int,
        copies: int = 1,
        prefix: str = "",
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> list[list[Written]]:
        assert max_words > 0 or temperature or generator
        self.asked.append((prefix, copies))
        return [[self._one(prefix, self.texts[prefix][i], stop, -float(i)) for i in range(copies)] for _ in prompts]

    def _one(self, prefix: str, text: str, stop: Sequence[str], log_probability: float) -> Written:
        ids = [WORDS.index(word) for word in prefix.split()]
        for word in text.split():
            if word in stop:
                return Written(tuple(ids), log_probability, 0.0, complete=True, stopped_by=WORDS.index(word))
            ids.append(WORDS.index(word))
        return Written(tuple(ids), log_probability, 0.0, complete=True)

    def text(self, written: Written) -> str:
        return " ".join(WORDS[i] for i in written.ids)


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
