import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualmind.errors import ConsolidationError
from dualmind.learning.replay import ReplayBuffer, ReplayParams, Reservoir, importance, priorities, stratified
from tests.learning.test_fisher import logistic

PARAMS = ReplayParams(share=0.05, part=0.2, priority="uniform", epsilon=1e-3, exponent=0.6, correction=0.4)
ERRORS = arrays(np.float64, st.integers(1, 20), elements=st.floats(0, 100))


def test_priorities_are_the_article_s_and_the_classic_ones() -> None:
    errors = np.array([0.0, 1.0, 3.0])
    easy = priorities(errors, "easy", epsilon=1.0, exponent=0.6)
    np.testing.assert_allclose(easy, np.array([1, 1 / 2, 1 / 4]) / 1.75)
    hard = priorities(errors, "hard", epsilon=1.0, exponent=2.0)
    np.testing.assert_allclose(hard, np.array([1, 4, 16]) / 21)


@given(ERRORS, st.sampled_from(["uniform", "easy", "hard"]))
def test_priorities_are_probabilities_in_the_right_order(errors: np.ndarray, kind: str) -> None:
    found = priorities(errors, kind, epsilon=1e-3, exponent=0.6)  # type: ignore[arg-type]  # parametrised
    assert found.sum() == pytest.approx(1)
    order = np.argsort(errors)
    steps = np.diff(found[order])
    assert {"uniform": (steps == 0), "easy": (steps <= 1e-12), "hard": (steps >= -1e-12)}[kind].all()


@pytest.mark.parametrize("kind", ["easy", "hard"])
def test_errors_of_exactly_0_need_an_epsilon(kind: str) -> None:
    errors = np.array([0.0, 1.0])
    with pytest.raises(ConsolidationError, match=r"1 replay errors are exactly 0.*replay\.epsilon"):
        priorities(errors, kind, epsilon=0.0, exponent=0.6)  # type: ignore[arg-type]  # parametrised
    assert np.isfinite(priorities(errors, kind, epsilon=1e-3, exponent=0.6)).all()  # type: ignore[arg-type]  # parametrised


@pytest.mark.parametrize("error", [float("nan"), float("inf"), -1.0])
def test_errors_that_are_no_losses_are_refused(error: float) -> None:
    with pytest.raises(ConsolidationError, match="finite and at least 0"):
        priorities(np.array([1.0, error]), "uniform", epsilon=1e-3, exponent=0.6)


def test_importance_weights_make_a_prioritised_mean_the_plain_mean() -> None:
    """With correction 1 the weighted mean over many draws is, up to its scale, the mean over the buffer."""
    rng = np.random.default_rng(0)
    values = rng.random(50)
    chances = priorities(values, "hard", epsilon=0.1, exponent=1.0)
    drawn = rng.choice(50, 200_000, p=chances)
    weights = importance(chances, drawn, 1.0)
    assert (weights * values[drawn]).sum() / weights.sum() == pytest.approx(values.mean(), rel=0.01)
    assert weights.max() == 1


@given(st.lists(st.integers(0, 4), min_size=1, max_size=200), st.floats(0.01, 1), st.integers(0, 5))
def test_every_stratum_gives_its_share_up_to_rounding(strata: list[int], share: float, seed: int) -> None:
    groups = np.array(strata)
    number = max(1, round(share * len(groups)))
    kept = stratified(groups, number, np.random.default_rng(seed))
    assert len(set(kept.tolist())) == number
    for stratum in set(strata):
        want = (groups == stratum).sum() * number / len(groups)
        assert abs((groups[kept] == stratum).sum() - want) < 1 + 1e-9


def test_the_buffer_keeps_five_percent_and_draws_each_task_s_examples() -> None:
    buffer = ReplayBuffer(PARAMS, np.random.default_rng(0))
    tasks = [logistic(seed=seed) for seed in (0, 1)]
    for task in tasks:
        buffer.add(task)
    assert len(buffer) == 20  # of 200 + 200
    parts = list(buffer.draw(20))
    assert [part.task for part in parts] == tasks
    assert [len(set(part.indices.tolist())) for part in parts] == [10, 10]


def test_what_was_learnt_is_drawn_less_where_hard_examples_come_first() -> None:
    params = PARAMS.model_copy(update={"priority": "hard", "exponent": 1.0})
    buffer = ReplayBuffer(params, np.random.default_rng(0))
    buffer.add(logistic())
    (part,) = buffer.draw(10)
    errors = torch.zeros(10)
    errors[3] = 1000.0
    buffer.update(part, errors)
    drawn = [int(next(iter(buffer.draw(1))).indices) for _ in range(50)]
    assert set(drawn) == {int(part.indices[3])}


def test_a_buffer_smaller_than_its_part_of_a_batch_is_an_error() -> None:
    buffer = ReplayBuffer(PARAMS, np.random.default_rng(0))
    buffer.add(logistic(number=40))
    with pytest.raises(ConsolidationError, match=r"holds 2 examples, fewer than the 8 of a batch; raise replay\.share"):
        next(buffer.draw(8))


def test_a_reservoir_keeps_every_example_with_the_same_chance() -> None:
    task, counts = logistic(number=40), np.zeros(40)
    for seed in range(400):
        reservoir = Reservoir(10, np.random.default_rng(seed))
        for rows in torch.arange(40).split(8):
            reservoir.add(task, rows, task.logits(rows))
        (drawn,) = reservoir.draw(10)
        counts[drawn[1].numpy()] += 1
    assert counts.sum() == 400 * 10
    assert abs(counts - 100).max() < 4.5 * np.sqrt(400 * 0.25 * 0.75)


def test_a_reservoir_remembers_the_logits_of_the_moment() -> None:
    task, reservoir = logistic(), Reservoir(5, np.random.default_rng(0))
    rows = torch.arange(5)
    before = task.logits(rows).detach().clone()
    reservoir.add(task, rows, task.logits(rows))
    with torch.no_grad():
        next(task.module.parameters()).zero_()
    ((_, indices, logits),) = reservoir.draw(100)
    torch.testing.assert_close(logits, before[indices])
