import importlib.util
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.domains.base import Domain
from dualmind.domains.reasoning.gym import GYM_FAMILIES, ReasoningGym, generate_gym, score_gym
from dualmind.errors import QuestionError

pytestmark = [
    pytest.mark.skipif(not importlib.util.find_spec("reasoning_gym"), reason="reasoning-gym is not installed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the packages that it imports
]
NONSENSE = [
    "", " ", "\n", "nonsense", "???", "[]", "{}", "()", "None", "null", "nan", "inf", "-inf", "\x00", "{'a': 1}", "(",
    "1/0", "x" * 2000, "9" * 5000, "#1 #2 =", "= ", "<answer></answer>", "é 漢字", "1 2 3 4 5 6 7 8 9 10 0",
    "__import__('os')", "lambda: 0", "1e999", "0x", "--", "'", '"', "\\", "$x$", "%s", "[[[[", "a=b",
]  # fmt: skip


@pytest.fixture(scope="module")
def domain() -> Domain:
    return ReasoningGym(generate_gym({"train": 5 * len(GYM_FAMILIES), "valid_seen": len(GYM_FAMILIES)}, seed=3))


def test_own_answers_score_1_and_nonsense_scores_0_in_every_family(domain: Domain) -> None:
    seen = set()
    for problem in domain.problems("train"):
        seen.add(problem.payload.family)
        (decision,) = domain.expert(problem)
        episode = domain.episode(problem)
        assert episode.reset()[1]["prompt"] == decision.prompt
        assert episode.step(decision.target)[1] == 1.0
        assert episode.step(f"#1 something = {decision.target}")[1] == 1.0
        assert domain.check_step(problem, [decision.target])
        for answer in NONSENSE:
            assert domain.score(problem, [answer]) == 0.0, (problem.payload, answer)
        assert domain.score(problem, []) == 0.0
    assert seen == set(GYM_FAMILIES)


@settings(max_examples=40, deadline=None)
@given(answer=st.text())
def test_any_text_can_be_scored(domain: Domain, answer: str) -> None:
    assert all(domain.score(problem, [answer]) in {0.0, 1.0} for problem in domain.problems("valid_seen"))


def test_splits_share_no_text_and_the_same_seed_gives_the_same_questions(domain: Domain) -> None:
    train, held_out = domain.problems("train"), domain.problems("valid_seen")
    assert len({p.text for p in [*train, *held_out]}) == len(train) + len(held_out)
    assert generate_gym({"valid_seen": len(GYM_FAMILIES)}, seed=3) == held_out


def test_what_a_scorer_raises_or_returns_is_no_credit(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        def __init__(self, mark: object) -> None:
            self.mark = mark

        def score_answer(self, *_: object) -> object:
            if isinstance(self.mark, Exception):
                raise self.mark
            return self.mark

    question = domain.problems("train")[0].payload
    for mark in (RuntimeError("no"), float("nan"), None, "x", 0.5, -1):
        monkeypatch.setattr("dualmind.domains.reasoning.gym._scorer", lambda _, mark=mark: Odd(mark))
        assert score_gym(question, "7") == 0.0


def test_unknown_families_and_a_missing_package_are_clear_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(QuestionError, match="complex_arithmetic"):
        generate_gym({"train": 1}, seed=0, families=["complex_arithmetic"])
    with pytest.raises(QuestionError, match="give some of"):
        generate_gym({"train": 1}, seed=0, families=[])
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(QuestionError, match="pip install"):
        generate_gym({"train": 1}, seed=0)
