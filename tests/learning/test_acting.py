import math

import numpy as np
import pytest
import scipy.stats
import torch

from dualmind.domains.household.belief import Belief
from dualmind.domains.household.game import Goal
from dualmind.evaluation.playing import play
from dualmind.learning.acting import act, confidence, reasoner, searcher
from dualmind.learning.steps import StepCounter
from dualmind.models.system2 import System2
from stages.pretrain import texts
from tests.learning.demonstrations import demonstrations
from tests.learning.play import ACTING, GAMES, PRIOR, cloned
from tests.stages.test_pretrain import SYSTEM2


def test_greedy_acting_is_the_play_that_evaluation_sees() -> None:
    system1 = cloned(20)
    counter = StepCounter()
    greedy = ACTING.model_copy(update={"mode": "greedy", "batch_size": 3})
    played = act(system1, GAMES[:7], greedy, counter, np.random.default_rng(0))
    wanted = play(system1, GAMES[:7], "greedy", np.random.default_rng(0), batch_size=64, max_steps=20)
    assert [own.outcome for own in played] == wanted
    assert counter.total == sum(len(own.moments) for own in played)
    assert all(moment.chosen == moment.best for own in played for moment in own.moments)


def test_where_the_teacher_has_all_of_the_play_it_wins_and_its_advice_is_what_was_done() -> None:
    system1 = cloned(1)
    params = ACTING.model_copy(update={"teacher_share": 1.0, "max_steps": 50})
    played = act(system1, GAMES[:5], params, StepCounter(), np.random.default_rng(0), teacher=searcher(PRIOR))
    assert all(own.outcome.success for own in played)
    shown = {row.prompt: row.target for row in demonstrations()}
    for own in played:
        for moment in own.moments:
            assert moment.advice is not None
            assert moment.candidates[moment.chosen] == moment.advice.target == shown[moment.prompt]


def test_a_teacher_that_breaks_loops_steps_in_where_a_command_would_be_given_again_and_nowhere_else() -> None:
    params = ACTING.model_copy(update={"mode": "greedy", "break_loops": True, "max_steps": 50})
    played = act(cloned(5), GAMES[:6], params, StepCounter(), np.random.default_rng(0), teacher=searcher(PRIOR))
    helped = 0
    for own in played:
        given: list[str] = []
        for moment in own.moments:
            again = moment.candidates[moment.best] in given
            assert moment.advice is not None
            wanted = moment.advice.target if again else moment.candidates[moment.best]
            assert moment.candidates[moment.chosen] == wanted
            given.append(wanted)
            helped += again
    assert helped
    alone = act(cloned(5), GAMES[:6], params.model_copy(update={"break_loops": False}), StepCounter(),
                np.random.default_rng(0), teacher=searcher(PRIOR))  # fmt: skip
    assert sum(own.outcome.steps for own in played) < sum(own.outcome.steps for own in alone)


def test_features_are_noted_before_each_decision_and_at_the_end() -> None:
    def tries(_: Goal, belief: Belief) -> np.ndarray:
        return np.array([float(len(belief.tried))])

    played = act(cloned(1), GAMES[:3], ACTING, StepCounter(), np.random.default_rng(0), features=tries)
    for own in played:
        assert [float(m.features[0]) for m in own.moments if m.features is not None] == list(range(len(own.moments)))
        assert own.final_features is not None
        assert own.final_features[0] == own.outcome.steps == len(own.moments)


def test_system2_teaches_with_its_plan_as_the_reason() -> None:
    system2 = System2.build(SYSTEM2.model, texts(demonstrations()), seed=0)
    params = ACTING.model_copy(update={"max_steps": 2})
    played = act(cloned(1), GAMES[:2], params, StepCounter(), np.random.default_rng(0), teacher=reasoner(system2))
    for own in played:
        prompts, candidates = [m.prompt for m in own.moments], [m.candidates for m in own.moments]
        alone = system2.choose(prompts, candidates)
        assert [m.advice.target for m in own.moments if m.advice] == [thought.answer for thought in alone]
        assert [m.advice.rationale for m in own.moments if m.advice] == [thought.steps[0] for thought in alone]


@pytest.mark.parametrize("number", [2, 5, 40])
def test_confidence_is_one_minus_the_entropy_that_scipy_finds(number: int) -> None:
    logits = torch.randn(number, generator=torch.Generator().manual_seed(number))
    entropy = scipy.stats.entropy(logits.softmax(0).numpy()) / math.log(number)
    assert confidence(logits.log_softmax(0)) == pytest.approx(1 - entropy, abs=1e-5)


def test_confidence_at_its_ends() -> None:
    assert confidence(torch.zeros(1)) == 1.0
    assert confidence(torch.tensor([0.0, float("-inf")])) == 1.0
    assert confidence(torch.full((4,), math.log(0.25))) == pytest.approx(0.0, abs=1e-6)
