from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dualmind.errors import ConsolidationError
from dualmind.learning.fisher import Fisher, Mode, diagonal_fisher
from dualmind.learning.stream import Task
from dualmind.learning.writing import IGNORED


def logistic(number: int = 200, width: int = 5, classes: int = 3, seed: int = 0) -> Task:
    generator = torch.Generator().manual_seed(seed)
    model = nn.Linear(width, classes)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator))
    x = torch.randn(number, width, generator=generator)
    labels = torch.randint(classes, (number,), generator=generator)
    return Task("logistic", model, (x,), labels, labels.numpy())


def fisher(task: Task, mode: Mode, batch_size: int = 64, **options: object) -> Fisher:
    return diagonal_fisher(task, mode, batch_size=batch_size, generator=torch.Generator().manual_seed(1), **options)  # type: ignore[arg-type]  # parametrised


def test_exact_fisher_is_the_closed_form_of_logistic_regression() -> None:
    task = logistic()
    with torch.no_grad():
        p = task.logits(torch.arange(len(task))).double().softmax(-1)  # (N, C)
    spread = p * (1 - p)  # E[(1[y = c] - p_c)^2]
    x = task.inputs[0].double()
    found = fisher(task, "exact").values
    torch.testing.assert_close(found["weight"].double(), spread.T @ x.square() / len(task), rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(found["bias"].double(), spread.mean(0), rtol=1e-5, atol=1e-8)


def test_empirical_fisher_is_the_closed_form_of_logistic_regression() -> None:
    task = logistic()
    with torch.no_grad():
        p = task.logits(torch.arange(len(task))).double().softmax(-1)
    error = (nn.functional.one_hot(task.labels, 3) - p).square()
    want = error.T @ task.inputs[0].double().square() / len(task)
    torch.testing.assert_close(fisher(task, "empirical").values["weight"].double(), want, rtol=1e-5, atol=1e-8)


def test_sampled_fisher_comes_near_the_exact_one() -> None:
    task = logistic(number=20_000)
    exact, sampled = fisher(task, "exact", 5000).values["weight"], fisher(task, "sampled", 5000).values["weight"]
    assert float((exact - sampled).norm() / exact.norm()) < 0.03


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("vectorized", [True, False])
def test_batches_of_1_give_what_batches_of_64_give(mode: Mode, vectorized: bool) -> None:
    task = logistic(number=100)
    one, many = fisher(task, mode, 1).values, fisher(task, mode, 64, vectorized=vectorized).values
    for name, value in one.items():
        assert float((value - many[name]).norm() / value.norm()) < 1e-5


class Words(nn.Module):
    """A writer that reads nothing: the logits of each position are parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.tensor([[0.5, -1.0, 0.0], [2.0, 0.0, 1.0]]))

    def forward(self, x: Tensor) -> Tensor:
        return self.table[None].expand(len(x), -1, -1)  # (B, 2, 3)


def test_texts_add_up_over_their_words_and_leave_padding_out() -> None:
    model = Words()
    labels = torch.tensor([[1, 2], [0, IGNORED]])
    task = Task("words", model, (torch.zeros(2, 1),), labels, np.zeros(2, dtype=np.int64))
    p = model.table.detach().softmax(-1)
    want = p * (1 - p) * torch.tensor([[1.0], [0.5]])  # the second position counts in one of two texts
    torch.testing.assert_close(fisher(task, "exact").values["table"], want)


def test_a_fisher_comes_back_from_disk_and_the_same_one_is_the_same_bytes(tmp_path: Path) -> None:
    task = logistic()
    made = fisher(task, "sampled", num_examples=50)
    for name in ("a", "b"):
        made.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    again = Fisher.load(tmp_path / "a", task.module)
    assert again.meta == made.meta
    assert (again.meta.mode, again.meta.num_examples) == ("sampled", 50)
    assert all(torch.equal(again.values[name], value) for name, value in made.values.items())


def test_a_fisher_of_another_model_is_refused(tmp_path: Path) -> None:
    task, other = logistic(), logistic(seed=1)
    fisher(task, "exact").save(tmp_path / "fisher")
    with pytest.raises(ConsolidationError, match="belongs to weights"):
        Fisher.load(tmp_path / "fisher", other.module)
    with pytest.raises(ConsolidationError, match="names or shapes differ"):
        Fisher.load(tmp_path / "fisher", nn.Linear(5, 4))
    with torch.no_grad():
        next(task.module.parameters())[0, 0] += 1e-3  # trained on
    with pytest.raises(ConsolidationError, match="belongs to weights"):
        Fisher.load(tmp_path / "fisher", task.module)


@pytest.mark.parametrize("content", [b"", b"no tensors", b"\xff" * 64])
def test_a_damaged_or_missing_fisher_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "fisher").write_bytes(content)
    for name in ("fisher", "missing"):
        with pytest.raises(ConsolidationError, match="is no Fisher information"):
            Fisher.load(tmp_path / name, logistic().module)
