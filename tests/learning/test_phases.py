"""Rewards of the three phases against chains whose worth a person can count, and practice on a small System 2."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.data.decisions import DecisionRow
from dualmind.domains.reasoning.domain import as_prompt
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.generate import Mix, generate_questions
from dualmind.domains.reasoning.question import write_output
from dualmind.learning import phases
from dualmind.learning.cloning import Lessons
from dualmind.learning.phases import PhaseParams, Said, fitting, judge, practise, reward_of
from dualmind.learning.skipped import Skipped
from dualmind.models.system2 import System2
from tests.learning.demonstrations import demonstrations
from tests.learning.test_cloning import PARAMS
from tests.models.test_compression import REASONER

KEYS = next(family for family in FAMILIES if family.name == "keys")
QUESTIONS = generate_questions({"train": 60}, Mix(easy_share=None, max_hops=4), 0, [KEYS])
THREE = next(question for question in QUESTIONS if question.hops == 3)
PHASE = PhaseParams(
    min_hops=1, max_hops=2, gate=0.9, rounds=1, questions=12, copies=4, temperature=1.0, good_enough=1.0, steps=3,
    rate=0.1, rehearsal=8, judged_questions=6, judged_decisions=8, may_lose=1.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("kept", "answer", "step", "coherence", "chain"),
    [
        ("abc", True, 1, 1, 1),
        ("abc", False, 1, 1, 0),  # all steps, another answer
        ("ab", True, 2 / 3, 2 / 3, 0),  # the answer is right, but a step is missing
        ("", True, 0, 0, 0),
        ("axc", True, 1 / 3, 1 / 3, 0),  # nothing follows from a room that is not there
        ("abcx", True, 3 / 4, 3 / 4, 0),  # one too many
    ],
)
def test_rewards_of_a_chain(kept: str, answer: bool, step: float, coherence: float, chain: float) -> None:
    values = {"a": THREE.steps[0], "b": THREE.steps[1], "c": THREE.steps[2], "x": "nowhere"}
    text = write_output([values[name] for name in kept], THREE.answer if answer else "nowhere")
    assert reward_of("step", THREE, text) == pytest.approx(step)
    assert reward_of("coherence", THREE, text) == pytest.approx(coherence)
    assert reward_of("chain", THREE, text) == chain


def test_a_step_that_follows_from_a_wrong_one_counts_as_a_step_but_not_as_coherent() -> None:
    text = write_output([THREE.steps[1], THREE.steps[2], "nowhere"], THREE.answer)  # not from the start, but a step on
    assert reward_of("coherence", THREE, text) == 0
    assert reward_of("step", THREE, text) == pytest.approx(1 / 3)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["#1", "#2", "#3", "=", *THREE.text.split()[:6]]), max_size=16).map(" ".join))
def test_any_text_has_a_reward_in_0_to_1_and_the_phases_grow_stricter(text: str) -> None:
    step, coherence, chain = (reward_of(phase, THREE, text) for phase in ("step", "coherence", "chain"))
    assert 1 >= step >= coherence >= chain >= 0


def system2_and_rows() -> tuple[System2, list[DecisionRow]]:
    torch.set_num_threads(1)
    rows = list(demonstrations()[:8])
    texts = [as_prompt(q.text) for q in QUESTIONS] + [q.rationale for q in QUESTIONS]
    texts += [text for row in rows for text in (row.prompt, row.rationale, *row.candidates)] + ["| plan :"]
    return System2.build(REASONER, texts, 0), rows


def test_a_beginner_without_a_good_chain_learns_nothing_and_it_is_said() -> None:
    system2, rows = system2_and_rows()
    easy = fitting(QUESTIONS, PHASE)
    assert {question.hops for question in easy} == {1, 2}
    before = {name: value.clone() for name, value in system2.model.state_dict().items()}
    assert judge(system2, "chain", easy) < 0.5
    skipped = practise(system2, "chain", PHASE, PARAMS, easy, rows, 0)
    assert isinstance(skipped, Skipped)
    assert f"none of {len(easy)} questions got a chain of reward 1.0" in skipped.reason
    assert "lower curriculum.chain.good_enough" in skipped.reason
    assert all(torch.equal(value, before[name]) for name, value in system2.model.state_dict().items())


def test_practice_learns_the_best_chain_of_each_question_where_it_is_good_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    easy = fitting(QUESTIONS, PHASE)[:6]

    def written(*_: object) -> list[list[Said]]:
        """Of each question a wrong chain and, of every second one, the right one too."""
        return [
            [Said(q, t, reward_of("chain", q, t)) for t in ("#1 nowhere = nowhere", *([q.rationale] if i % 2 else []))]
            for i, q in enumerate(easy)
        ]

    monkeypatch.setattr(phases, "_write", written)
    learnt: list[set[str]] = []
    lessons = phases._lessons

    def noted(system2: System2, good: list[Said], rehearsed: list[DecisionRow]) -> Lessons:
        learnt.append({said.text for said in good})
        return lessons(system2, good, rehearsed)

    monkeypatch.setattr(phases, "_lessons", noted)
    found = []
    for _ in range(2):
        system2, rows = system2_and_rows()
        done = practise(system2, "chain", PHASE, PARAMS, easy, rows, 0)
        assert not isinstance(done, Skipped)
        assert done["learnt_chains"] == 3
        assert done["reward"] == pytest.approx(3 / 9)
        found.append({name: float(value.sum()) for name, value in system2.model.state_dict().items()})
    assert found[0] == found[1]
    assert learnt[0] == {question.rationale for question in easy[1::2]}
