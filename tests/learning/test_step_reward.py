"""The reward of steps on a real, small System 2: it reads what writing computes, and learns what is right."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers.modeling_outputs import BaseModelOutput

from dualmind.domains.reasoning.domain import as_prompt
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.generate import Mix, generate_questions
from dualmind.errors import LearningError
from dualmind.learning.skipped import Skipped
from dualmind.learning.step_reward import CheckedSteps, StepReward, fit, judge_steps, readings, sample_checked
from dualmind.models.system2 import System2
from dualmind.storage import write_json
from tests.models.test_compression import REASONER

KEYS = next(family for family in FAMILIES if family.name == "keys")
QUESTIONS = generate_questions({"train": 40}, Mix(easy_share=None, max_hops=3), 0, [KEYS])
PROMPTS = [as_prompt(question.text) for question in QUESTIONS]


@pytest.fixture(scope="module")
def system2() -> System2:
    torch.set_num_threads(1)
    return System2.build(REASONER, [*PROMPTS, *(question.rationale for question in QUESTIONS)], 0)


def checked() -> list[CheckedSteps]:
    """The right steps, and others of the same questions that are wrong: the last one comes twice."""
    found = []
    for prompt, question in zip(PROMPTS, QUESTIONS, strict=True):
        for end in range(1, question.hops + 1):
            found.append(CheckedSteps(prompt, question.steps[:end], KEYS.check(question, question.steps[:end])))
            wrong = (*question.steps[: end - 1], "room")
            found.append(CheckedSteps(prompt, wrong, KEYS.check(question, wrong)))
    return found


@torch.inference_mode()
def test_readings_are_those_of_each_chain_alone_word_by_word(system2: System2) -> None:
    """In a batch of several lengths, against transformers' own loss of one text without padding."""
    beside = readings(system2, PROMPTS[:8], [question.steps for question in QUESTIONS[:8]])
    for row, prompt, question in zip(beside, PROMPTS, QUESTIONS, strict=False):
        inputs = torch.tensor(np.stack(system2.prompt_ids([prompt])))
        thought = system2.model.encoder.think(inputs, inputs * 0 + 1)
        memory = BaseModelOutput(last_hidden_state=thought.memory)
        losses = []
        step = f"#{question.hops} {question.steps[-1]}".split()
        for end in range(len(step) + 1):
            text = " ".join([*question.rationale.split(" =")[0].split()[: -len(step)], *step[:end]])
            labels = torch.tensor([system2.command_ids([text.strip()])[0]], dtype=torch.long).reshape(1, -1)
            if not labels.shape[1]:
                losses.append(0.0)
                continue
            loss = system2.model(encoder_outputs=memory, attention_mask=inputs * 0 + 1, labels=labels).loss
            losses.append(float(loss) * labels.shape[1])
        assert row[-3] == pytest.approx(losses[0] - losses[-1], abs=1e-3)
        assert row[-2] == pytest.approx(min(one - other for one, other in itertools.pairwise(losses)), abs=1e-3)
        assert row[-1] == question.hops


def test_a_head_tells_right_steps_from_wrong_ones_and_survives_its_file(system2: System2, tmp_path: Path) -> None:
    steps = checked()
    assert {own.right for own in steps} == {True, False}
    found = fit(system2, "a" * 32, steps, 0.001)
    assert isinstance(found, StepReward)
    judged = judge_steps(found, system2, steps)
    assert judged["auc"] is not None
    assert judged["auc"] > 0.9
    write_json(tmp_path / "step.json", found.to_dict())
    again = StepReward.load(tmp_path / "step.json", "a" * 32)
    assert isinstance(again, StepReward)
    scores, others = (r.score(system2, PROMPTS[:4], [q.steps for q in QUESTIONS[:4]]) for r in (found, again))
    np.testing.assert_array_equal(scores, others)
    assert ((scores > 0) & (scores < 1)).all()
    assert found.function(system2)(PROMPTS[0], [QUESTIONS[0].steps]) == pytest.approx(scores[:1])


@pytest.mark.parametrize("right", [True, False])
def test_steps_that_are_all_alike_teach_nothing_and_it_is_said(system2: System2, right: bool) -> None:
    alike = [own for own in checked() if own.right == right]
    found = fit(system2, "a" * 32, alike, 0.001)
    assert isinstance(found, Skipped)
    assert f"all {len(alike)} checked steps are {'right' if right else 'wrong'}" in found.reason
    assert isinstance(fit(system2, "a" * 32, [], 0.001), Skipped)


def test_a_reward_of_another_system2_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    write_json(path, StepReward(np.zeros(3), 0.0, "a" * 32).to_dict())
    with pytest.raises(LearningError, match="was fitted to System 2 aaaaaaaaaaaa, not to bbbbbbbbbbbb"):
        StepReward.load(path, "b" * 32)
    path.write_text("{}")
    with pytest.raises(LearningError, match="holds no step reward"):
        StepReward.load(path)
    with pytest.raises(LearningError, match="run `dvc repro reward`"):
        StepReward.load(tmp_path / "none.json")


def test_sampled_chains_are_checked_up_to_their_first_wrong_step(system2: System2) -> None:
    checks = [lambda steps, q=question: KEYS.check(q, steps) for question in QUESTIONS[:6]]
    first, again = (sample_checked(system2, PROMPTS[:6], checks, copies=3, temperature=1.0, seed=4) for _ in range(2))
    assert first == again
    for own in first:
        question = QUESTIONS[PROMPTS.index(own.prompt)]
        assert own.right == KEYS.check(question, own.steps)
        assert all(KEYS.check(question, own.steps[:end]) for end in range(1, len(own.steps)))
