import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch.distributions import Categorical, kl_divergence

from dualmind.errors import LearningError
from dualmind.learning.acting import act
from dualmind.learning.ppo import (
    Ppo,
    PpoParams,
    PpoReport,
    Trajectory,
    advantages,
    clipped_objective,
    cosine_clip,
    divergence,
)
from dualmind.learning.rewards import dense_reward, success_reward, trajectories
from dualmind.learning.skipped import Skipped
from dualmind.learning.steps import StepCounter
from dualmind.models.scoring import HIDDEN
from dualmind.models.system1 import System1
from tests.learning.demonstrations import small_system1
from tests.learning.play import ACTING, GAMES, cloned

PARAMS = PpoParams(
    discount=0.99, gae_lambda=0.9, clip=0.2, kl=0.0, entropy=0.01, policy_rate=0.003, value_rate=0.01, value_width=8,
    value_weight=0.0, epochs=2, batch_size=32, gradient_floor=0.1, total_steps=1000,
)  # fmt: skip
ROOMS = ("goal : find mug | here : cabinet 1", "goal : find plate | here : drawer 2")
COMMANDS = ("go to cabinet 1", "go to drawer 2", "look")


def bandit(system1: System1, rng: np.random.Generator, number: int = 64) -> list[Trajectory]:
    """Games of one decision: in the first room the second command is right, in the second the first."""
    rooms = rng.integers(2, size=number)
    scores = system1.score([ROOMS[i] for i in rooms], [COMMANDS] * number)
    chosen = [int(rng.choice(3, p=(p := score.exp().double().numpy()) / p.sum())) for score in scores]
    return [
        Trajectory((ROOMS[room],), (COMMANDS,), (own,), (float(own == 1 - room),))
        for room, own in zip(rooms, chosen, strict=True)
    ]


def probabilities(system1: System1) -> np.ndarray:
    return torch.stack(system1.score(ROOMS, [COMMANDS] * 2)).exp().numpy()


@given(
    hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(-5, 5)),
    st.floats(0.01, 1),
    st.floats(0, 1),
    st.integers(0, 100),
)
def test_advantages_are_the_discounted_sum_of_all_later_errors(
    rewards: np.ndarray, discount: float, gae_lambda: float, seed: int
) -> None:
    values = np.random.default_rng(seed).normal(size=len(rewards))
    size = len(rewards)
    v = [*values, 0.0]
    brute = [
        sum((discount * gae_lambda) ** (k - t) * (rewards[k] + discount * v[k + 1] - v[k]) for k in range(t, size))
        for t in range(size)
    ]
    np.testing.assert_allclose(advantages(rewards, values, discount, gae_lambda), brute, atol=1e-9)


@given(hnp.arrays(np.float64, 6, elements=st.floats(-5, 5)), hnp.arrays(np.float64, 6, elements=st.floats(-5, 5)))
def test_with_lambda_one_an_advantage_is_the_return_beyond_the_value(rewards: np.ndarray, values: np.ndarray) -> None:
    returns = [sum(0.9**k * r for k, r in enumerate(rewards[t:])) for t in range(6)]
    np.testing.assert_allclose(advantages(rewards, values, 0.9, 1.0), returns - values, atol=1e-9)


def test_the_clipped_objective_of_a_case_worked_by_hand() -> None:
    # with a clip of 0.2 the smaller of 3 and 2.4, of -3 and -2.4, of 1 and 1.6, of -1 and -1.6, of 2.2 and 2.2
    ratio = torch.tensor([1.5, 1.5, 0.5, 0.5, 1.1])
    found = clipped_objective(ratio.log(), torch.tensor([2.0, -2.0, 2.0, -2.0, 2.0]), 0.2)
    torch.testing.assert_close(found, torch.tensor([2.4, -3.0, 1.0, -1.6, 2.2]))


def test_the_gradient_clip_follows_the_cosine_down_to_its_floor() -> None:
    assert cosine_clip(0, 100, 0.05) == 1.0
    assert cosine_clip(50, 100, 0.05) == pytest.approx(0.5)
    assert cosine_clip(25, 100, 0.05) == pytest.approx(0.5 + math.sqrt(0.5) / 2)
    assert [cosine_clip(step, 100, 0.05) for step in (100, 101, 10_000)] == [0.05] * 3


def test_the_divergence_is_that_of_torch_and_padding_adds_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 5, 7, generator=generator).unbind()
    wanted = kl_divergence(Categorical(logits=a), Categorical(logits=b))
    torch.testing.assert_close(divergence(a.log_softmax(-1), b.log_softmax(-1)), wanted)
    hidden = torch.full((5, 3), HIDDEN)
    padded = torch.cat((a, hidden), 1).log_softmax(-1).requires_grad_()
    other = torch.cat((b.log_softmax(-1), torch.zeros(5, 3)), 1)
    found = divergence(padded, other)
    torch.testing.assert_close(found, wanted)
    (gradient,) = torch.autograd.grad(found.sum(), padded)
    assert bool(gradient.isfinite().all())


def learn(system1: System1, params: PpoParams, updates: int = 5) -> list[PpoReport]:
    ppo, rng = Ppo(system1, params, seed=0), np.random.default_rng(0)
    reports = []
    for _ in range(updates):
        report = ppo.update(bandit(system1, rng))
        if isinstance(report, PpoReport):
            reports.append(report)
    return reports


def test_a_bandit_that_pays_another_command_in_each_room_is_learnt() -> None:
    torch.set_num_threads(1)
    system1 = small_system1()
    before = probabilities(system1)
    assert (before.argmax(1) != [1, 0]).any()  # it does not start with the answer
    reports = learn(system1, PARAMS, 10)
    found = probabilities(system1)
    assert found[0, 1] > 0.8
    assert found[1, 0] > 0.8
    assert reports[-1].mean_return > reports[0].mean_return + 0.3


def test_the_kl_term_holds_the_policy_near_its_clone() -> None:
    free, held = small_system1(), small_system1()
    start = torch.stack(free.score(ROOMS, [COMMANDS] * 2))
    learn(free, PARAMS)
    reports = learn(held, PARAMS.model_copy(update={"kl": 5.0}))
    away = [float(divergence(torch.stack(s.score(ROOMS, [COMMANDS] * 2)), start).mean()) for s in (free, held)]
    assert away[1] < 0.2 * away[0]
    assert reports[-1].kl < 0.2


def test_the_reference_does_not_move_with_the_policy() -> None:
    system1 = small_system1()
    ppo = Ppo(system1, PARAMS.model_copy(update={"kl": 0.2}), seed=0)
    assert ppo.reference is not None
    before = {name: value.clone() for name, value in ppo.reference.state_dict().items()}
    ppo.update(bandit(system1, np.random.default_rng(0)))
    assert all(torch.equal(value, before[name]) for name, value in ppo.reference.state_dict().items())
    assert any(not torch.equal(value, before[name]) for name, value in system1.scorer.state_dict().items())


def test_stored_and_restored_it_goes_on_as_if_nothing_had_happened() -> None:
    systems = [small_system1(), small_system1()]
    start = small_system1()
    params = PARAMS.model_copy(update={"kl": 0.2})
    straight, first = (Ppo(own, params, seed=0, reference=start.scorer) for own in systems)
    games = [bandit(systems[0], np.random.default_rng(i), 32) for i in range(2)]
    for own in games:
        straight.update(own)
    first.update(games[0])
    again = Ppo(systems[1], params, seed=0, reference=start.scorer)
    again.restore({name: value.clone() for name, value in first.state().items()})
    again.update(games[1])
    assert (again.updates, again.steps) == (straight.updates, straight.steps)
    np.testing.assert_array_equal(probabilities(systems[1]), probabilities(systems[0]))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_stops_before_anything_is_learnt(bad: float) -> None:
    system1 = small_system1()
    before = probabilities(system1)
    games = bandit(system1, np.random.default_rng(0), 4)
    games[2] = Trajectory(games[2].prompts, games[2].candidates, games[2].chosen, (bad,))
    with pytest.raises(LearningError, match=f"reward of game 2 at step 0 is {bad}"):
        Ppo(system1, PARAMS, seed=0).update(games)
    np.testing.assert_array_equal(probabilities(system1), before)


@pytest.mark.parametrize("constant", [0.0, -0.01, 1.0])
def test_rewards_that_are_all_alike_change_nothing_and_the_reason_is_given(constant: float) -> None:
    system1 = small_system1()
    before = probabilities(system1)
    ppo = Ppo(system1, PARAMS, seed=0)
    found = ppo.update([Trajectory(ROOMS, (COMMANDS,) * 2, (0, 1), (constant, constant))] * 3)
    assert isinstance(found, Skipped)
    assert f"every reward of 3 games is {constant}" in found.reason
    assert isinstance(ppo.update([]), Skipped)
    assert ppo.steps == 0
    np.testing.assert_array_equal(probabilities(system1), before)


def test_a_rate_that_destroys_the_weights_is_an_error() -> None:
    system1 = small_system1()
    with pytest.raises(LearningError, match=r"lower ppo\.policy_rate"):
        learn(system1, PARAMS.model_copy(update={"policy_rate": 1e30}), 2)


def test_games_of_many_steps_are_learnt_from_and_a_seed_gives_the_same_weights() -> None:
    states = []
    for _ in range(2):
        system1 = cloned(40)
        played = act(system1, GAMES[:12], ACTING, StepCounter(), np.random.default_rng(1))
        report = Ppo(system1, PARAMS.model_copy(update={"kl": 0.25}), seed=2).update(
            trajectories(played, success_reward)
        )
        assert isinstance(report, PpoReport)
        assert report.mean_return == np.mean([own.outcome.success for own in played])
        states.append(system1.model.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 1000))
def test_a_dense_reward_adds_up_to_success_and_what_was_reached(seed: int) -> None:
    weights = np.random.default_rng(seed).normal(size=2)
    played = act(
        small_system1(), GAMES[:2], ACTING, StepCounter(), np.random.default_rng(seed),
        features=lambda _, belief: np.array([float(len(set(belief.tried))), float(len(belief.contents))]),
    )  # fmt: skip
    for own in played:
        first, last = own.moments[0].features, own.final_features
        assert first is not None
        assert last is not None
        wanted = own.outcome.success + 0.5 * float(weights @ (last - first))
        assert dense_reward(weights, 0.5)(own).sum() == pytest.approx(wanted)
