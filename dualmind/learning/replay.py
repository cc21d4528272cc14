"""A few examples of former tasks, kept to be learnt again."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat
from torch import Tensor

from dualmind.errors import ConsolidationError
from dualmind.learning.stream import Task

Floats = NDArray[np.float64]
Priority = Literal["uniform", "easy", "hard"]


class ReplayParams(BaseModel):
    """What is kept of former tasks, and how it is drawn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    share: Annotated[float, Field(gt=0, le=1)]  # of each task's examples that is kept; 0.05 in the article
    part: Annotated[float, Field(gt=0, lt=1)]  # of a batch that is replayed; 0.2 is the article's 1 : 4
    priority: Priority
    epsilon: PositiveFloat  # added to the errors, so that an error of 0 has a finite priority
    exponent: NonNegativeFloat  # of "hard"; 0 draws uniformly
    correction: Annotated[float, Field(ge=0, le=1)]  # exponent of the importance weights; 0 turns them off


def priorities(errors: Floats, kind: Priority, *, epsilon: float, exponent: float) -> Floats:
    """Probability of each example to be drawn (N,).

    ``easy`` is the article's 1 / (error + epsilon); ``hard`` the classic (error + epsilon)^exponent (Schaul et al.
    2016, Eq. 1, proportional).

    Args:
        errors: loss of each example, >= 0.
        kind: see above.
        epsilon: >= 0; above 0 where an error may be exactly 0.
        exponent: of ``hard``, >= 0.

    Raises:
        ConsolidationError: an error is negative or no number, or is exactly 0 while ``epsilon`` is.
    """
    if not (np.isfinite(errors).all() and (errors >= 0).all()):
        raise ConsolidationError(
            f"replay errors must be finite and at least 0, but reach from {errors.min()} to {errors.max()}; "
            "the model may have diverged: lower its rate"
        )
    if kind != "uniform" and epsilon == 0 and (errors == 0).any():
        raise ConsolidationError(
            f"{int((errors == 0).sum())} replay errors are exactly 0 and epsilon = 0, which gives no priority; "
            "set replay.epsilon above 0, such as 0.001"
        )
    match kind:
        case "uniform":
            weight = np.ones_like(errors)
        case "easy":
            weight = 1 / (errors + epsilon)
        case "hard":
            weight = (errors + epsilon) ** exponent
    return weight / weight.sum()


def importance(probabilities: Floats, drawn: NDArray[np.int64], correction: float) -> Floats:
    """Weights (N P)^-correction of what was drawn, the largest of the buffer 1 (Schaul et al. 2016, section 3.4)."""
    weights = (len(probabilities) * probabilities) ** -correction
    return weights[drawn] / weights.max()


def stratified(strata: NDArray[np.int64], number: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """``number`` indices, of every stratum its share up to rounding: every k-th of the shuffled, sorted examples."""
    order = rng.permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    places = (np.arange(number) + rng.random()) * (len(strata) / number)
    return order[places.astype(np.int64)]


@dataclass(frozen=True, slots=True)
class Part:
    """Examples of one task that stand in a batch."""

    task: Task
    indices: Tensor  # (B,)
    weights: Tensor  # (B,), of their losses
    rows: NDArray[np.int64]  # (B,), where they stand in the buffer


class ReplayBuffer:
    """A share of every former task."""

    def __init__(self, params: ReplayParams, rng: np.random.Generator) -> None:
        self._params, self._rng = params, rng
        self._tasks: list[Task] = []
        self._of_task = np.zeros(0, dtype=np.int64)  # (N,)
        self._indices = np.zeros(0, dtype=np.int64)  # (N,)
        self._errors = np.zeros(0)  # (N,), loss when last seen

    def __len__(self) -> int:
        return len(self._indices)

    @torch.no_grad()
    def add(self, task: Task) -> None:
        """Keep the share of a task that has just been learnt."""
        number = max(1, round(self._params.share * len(task)))
        kept = np.sort(stratified(task.strata, number, self._rng))
        errors = torch.cat([task.losses(rows) for rows in torch.from_numpy(kept).split(256)])
        self._of_task = np.append(self._of_task, np.full(number, len(self._tasks)))
        self._indices = np.append(self._indices, kept)
        self._errors = np.append(self._errors, errors.double().cpu().numpy())
        self._tasks.append(task)

    def draw(self, number: int) -> Iterator[Part]:
        """Draw examples by priority, without repetition, and group them by task.

        Raises:
            ConsolidationError: fewer are kept than are wanted.
        """
        if number > len(self):
            raise ConsolidationError(
                f"the replay buffer holds {len(self)} examples, fewer than the {number} of a batch; "
                "raise replay.share, or lower batch_size or replay.part"
            )
        params = self._params
        chances = priorities(self._errors, params.priority, epsilon=params.epsilon, exponent=params.exponent)
        rows = np.sort(self._rng.choice(len(self), number, replace=False, p=chances))
        weights = importance(chances, rows, params.correction)
        for task in np.unique(self._of_task[rows]):
            own = self._of_task[rows] == task
            indices = torch.from_numpy(self._indices[rows[own]])
            yield Part(self._tasks[task], indices, torch.from_numpy(weights[own]).float(), rows[own])

    def update(self, part: Part, errors: Tensor) -> None:
        """Remember the newest losses (B,) of examples."""
        self._errors[part.rows] = errors.detach().double().cpu().numpy()


@dataclass(frozen=True, slots=True)
class _Seen:
    task: Task
    index: int
    logits: Tensor  # (C,) or (T, V), when it was kept


class Reservoir:
    """A uniform sample of all examples that were seen, with the logits of that moment (Buzzega et al. 2020)."""

    def __init__(self, capacity: int, rng: np.random.Generator) -> None:
        self._capacity, self._rng, self._num_seen = capacity, rng, 0
        self._kept: list[_Seen] = []

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, task: Task, indices: Tensor, logits: Tensor) -> None:
        """Offer examples of a batch (Vitter 1985, algorithm R)."""
        for index, own in zip(indices.tolist(), logits.detach(), strict=True):
            place = len(self._kept) if len(self._kept) < self._capacity else int(self._rng.integers(self._num_seen + 1))
            self._num_seen += 1
            if place < self._capacity:
                self._kept[place : place + 1] = [_Seen(task, index, own.clone())]

    def draw(self, number: int) -> Iterator[tuple[Task, Tensor, Tensor]]:
        """Examples drawn uniformly, with their logits, grouped by task: fewer where fewer are kept."""
        rows = self._rng.choice(len(self), min(number, len(self)), replace=False)
        groups: dict[int, list[_Seen]] = {}
        for row in np.sort(rows):
            groups.setdefault(id(self._kept[row].task), []).append(self._kept[row])
        for group in groups.values():
            yield group[0].task, torch.tensor([s.index for s in group]), torch.stack([s.logits for s in group])
