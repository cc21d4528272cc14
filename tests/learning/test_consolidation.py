from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn

from dualmind.errors import ConsolidationError
from dualmind.learning.consolidation import (
    Anchor,
    ConsolidationParams,
    DerParams,
    EwcParams,
    Method,
    consolidate,
    ewc_penalty,
)
from dualmind.learning.fisher import trained
from dualmind.learning.stream import Task, losses
from dualmind.learning.transfer import Trajectory
from dualmind.learning.writing import IGNORED
from tests.learning.test_fisher import fisher, logistic
from tests.learning.test_replay import PARAMS as REPLAY

PARAMS = ConsolidationParams(
    steps=40, batch_size=20, lr=0.02, gradient_clip=10.0,
    ewc=EwcParams(strength=100.0, fisher="exact", fisher_examples=50, fisher_batch_size=50, decay=1.0),
    replay=REPLAY, der=DerParams(alpha=0.1, beta=0.5),
)  # fmt: skip


def two_tasks(seed: int = 0) -> list[Task]:
    """The same question about two kinds of inputs, with the opposite answer in the second: they interfere."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
    tasks = []
    for i in range(2):
        generator = torch.Generator().manual_seed(seed + i)
        x = torch.randn(400, 6, generator=generator)
        x[:, 4:] = torch.tensor([1.0, 0.0] if i == 0 else [0.0, 1.0])
        labels = (x[:, 0] > 0).long() if i == 0 else (x[:, 0] < 0).long()
        tasks.append(Task(f"task {i}", model, (x,), labels, labels.numpy()))
    return tasks


def run(method: Method, params: ConsolidationParams = PARAMS, seed: int = 0) -> Trajectory:
    tasks = two_tasks(seed)
    return consolidate(tasks, tasks, method, params, seed=seed)


def test_dropout_follows_the_seed_and_leaves_the_global_generator() -> None:
    def learnt(state: int) -> torch.Tensor:
        tasks = two_tasks()
        assert isinstance(tasks[0].module, nn.Sequential)
        tasks[0].module.insert(2, nn.Dropout(0.3))  # as published checkpoints have; both tasks share the module
        torch.manual_seed(state)
        consolidate(tasks, tasks, "sequential", PARAMS.model_copy(update={"steps": 3}), seed=4)
        assert torch.equal(torch.rand(1), torch.rand(1, generator=torch.Generator().manual_seed(state)))
        return torch.cat([p.detach().flatten() for p in tasks[0].module.parameters()])

    assert torch.equal(learnt(1), learnt(2))


def test_the_penalty_is_the_quadratic_of_kirkpatrick_and_vanishes_at_its_anchor() -> None:
    task = logistic()
    anchor = Anchor.of(fisher(task, "exact"), task.module)
    assert float(ewc_penalty(trained(task.module), [anchor], 3.0).detach()) == 0.0
    with torch.no_grad():
        for p in task.module.parameters():
            p.add_(0.5)
    want = 3.0 / 2 * sum(float(value.sum()) for value in anchor.fisher.values()) * 0.25
    assert float(ewc_penalty(trained(task.module), [anchor, anchor], 3.0).detach()) == pytest.approx(2 * want, rel=1e-5)


def test_the_online_anchor_holds_the_later_values_with_both_fishers() -> None:
    task = logistic()
    first = Anchor.of(fisher(task, "exact"), task.module)
    with torch.no_grad():
        next(task.module.parameters()).mul_(2)
    second = Anchor.of(fisher(task, "exact"), task.module)
    both = first.then(second, 0.5)
    torch.testing.assert_close(both.fisher["weight"], 0.5 * first.fisher["weight"] + second.fisher["weight"])
    assert torch.equal(both.values["weight"], second.values["weight"])


def test_an_anchor_refuses_the_fisher_of_another_model() -> None:
    with pytest.raises(ConsolidationError, match="belongs to weights"):
        Anchor.of(fisher(logistic(), "exact"), logistic(seed=1).module)


@pytest.mark.parametrize("method", get_args(Method))
def test_a_method_learns_both_tasks_and_a_seed_gives_the_same_figures(method: Method) -> None:
    first, again = run(method), run(method)
    np.testing.assert_array_equal(first.after, again.after)
    assert first.after[0, 0] > 0.9
    assert first.new_accuracy > (0.75 if "ewc" in method else 0.85)


def test_every_method_forgets_less_than_sequential_training() -> None:
    drops = {method: np.mean([run(method, seed=seed).first_drop for seed in range(2)]) for method in get_args(Method)}
    assert all(drop < drops["sequential"] for method, drop in drops.items() if method != "sequential"), drops


def test_lambda_of_0_is_sequential_training_to_the_bit() -> None:
    params = PARAMS.model_copy(update={"ewc": PARAMS.ewc.model_copy(update={"strength": 0.0})})
    np.testing.assert_array_equal(run("ewc", params).after, run("sequential").after)


def test_losses_of_texts_are_means_over_their_words() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 5, generator=generator)
    labels = torch.tensor([[1, 2, 3], [4, IGNORED, IGNORED]])
    found = losses(logits, labels)
    want = [
        nn.functional.cross_entropy(logits[0], labels[0]),
        nn.functional.cross_entropy(logits[1, :1], labels[1, :1]),
    ]
    torch.testing.assert_close(found, torch.stack(want))


def test_transfer_and_forgetting_are_those_of_a_matrix_by_hand() -> None:
    after = np.array([[0.9, 0.5, 0.1], [0.7, 0.8, 0.3], [0.6, 0.85, 0.95]])
    found = Trajectory(("a", "b", "c"), np.array([0.2, 0.4, 0.2]), after)
    assert found.average == pytest.approx(0.8)
    assert found.backward_transfer == pytest.approx(((0.6 - 0.9) + (0.85 - 0.8)) / 2)
    assert found.forward_transfer == pytest.approx(((0.5 - 0.4) + (0.3 - 0.2)) / 2)
    assert found.first_drop == pytest.approx(0.3)
    assert found.new_accuracy == pytest.approx((0.8 + 0.95) / 2)
    np.testing.assert_allclose(found.forgetting, np.array([[0, 0, 0], [0.2, 0, 0], [0.3, 0, 0]]), atol=1e-12)
