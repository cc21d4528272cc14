import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.agent.signals import Clusters, ValueHead, monitor, second_difference

RNG = np.random.default_rng(0)
READINGS = np.concatenate([RNG.normal(0, 1, (80, 6)), RNG.normal(6, 1, (40, 6))])
WRONG = np.concatenate([RNG.random(80) < 0.05, RNG.random(40) < 0.6])


def test_difficulty_is_higher_where_system1_has_failed_and_far_from_what_it_knows() -> None:
    clusters = Clusters.fit(READINGS, WRONG, num_clusters=2, seed=0)
    good, bad = (clusters.centres[k] for k in np.argsort(clusters.errors))
    near_good, near_bad, far_from_good = clusters.difficulty(np.stack([good, bad + 0.9, good - 3.0]))
    assert near_good <= far_from_good
    assert far_from_good < near_bad
    everything = clusters.difficulty(READINGS)
    assert (everything >= 0).all()
    assert (everything <= 1).all()


def test_more_clusters_than_prompts_are_as_many_as_there_are_prompts() -> None:
    assert len(Clusters.fit(READINGS[:3], WRONG[:3], num_clusters=9, seed=0).centres) == 3


def test_curvature_is_the_second_derivative_along_the_gradient() -> None:
    head = ValueHead(RNG.normal(size=(5, 6)), RNG.normal(size=5), RNG.normal(size=5), 0.3)
    inner, bias, outer = (torch.from_numpy(own) for own in (head.inner, head.bias, head.outer))

    def value(e: torch.Tensor) -> torch.Tensor:
        return torch.tanh(inner @ e + bias) @ outer + head.offset

    for reading, found, curved in zip(
        READINGS[:8], head.value(READINGS[:8]), head.curvature(READINGS[:8]), strict=True
    ):
        e = torch.from_numpy(reading)
        gradient = torch.autograd.functional.jacobian(value, e)  # type: ignore[no-untyped-call]  # torch ships no types for it
        hessian = torch.autograd.functional.hessian(value, e)  # type: ignore[no-untyped-call]  # torch ships no types for it
        assert found == pytest.approx(float(value(e)))
        assert curved == pytest.approx(float(gradient @ hessian @ gradient / (gradient @ gradient)))


def test_curvature_of_a_flat_value_is_zero() -> None:
    head = ValueHead(np.zeros((2, 6)), np.zeros(2), np.zeros(2), 0.5)
    assert (head.curvature(READINGS) == 0).all()


def test_a_value_head_learns_who_fails() -> None:
    head = ValueHead.fit(READINGS, ~WRONG, width=8, seed=0)
    assert head.value(READINGS[:80]).mean() > head.value(READINGS[80:]).mean() + 0.2


@pytest.mark.parametrize(
    ("tried", "command", "expected"),
    [
        ([], "look", 0.0),
        (["go to desk 1"], "go to bed 1", 0.0),
        (["look"], "look", 1.0),
        (["a", "b", "a"], "b", 1.0),
        (["a", "b", "c", "a", "b"], "c", 1.0),
        (["a", "b", "c", "d"], "a", 0.5),
        (["a", "b", "a", "c", "d"], "a", 2 / 3),
    ],
)
def test_the_monitor_sees_repeats_and_loops(tried: list[str], command: str, expected: float) -> None:
    assert monitor(tried, command) == pytest.approx(expected)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from("abcd"), max_size=12), st.sampled_from("abcde"))
def test_the_monitor_is_a_share_and_zero_for_a_new_command(tried: list[str], command: str) -> None:
    found = monitor(tried, command)
    assert 0 <= found <= 1
    assert (found == 0) == (command not in tried)


def test_second_difference_of_a_parabola_is_constant() -> None:
    assert second_difference([1.0, 4.0]) == 0.0
    assert second_difference([n * n for n in range(7)]) == 2.0
