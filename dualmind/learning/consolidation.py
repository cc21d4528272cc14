"""Learning tasks one after the other without losing the former ones: EWC, replay, and controls.

Elastic weight consolidation holds parameters near their former values, each as strongly as its Fisher information says.
Replay mixes kept examples of former tasks into every batch. Controls: *sequential* does nothing; *der++* replays
examples with the logits of former times; *joint* learns from all tasks so far, and is what the others aim at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from dualmind.learning.fisher import Fisher, Mode, diagonal_fisher, trained
from dualmind.learning.replay import ReplayBuffer, ReplayParams, Reservoir
from dualmind.learning.stream import Task, losses
from dualmind.learning.transfer import Trajectory
from dualmind.progress import Progress

Method = Literal["sequential", "ewc", "online_ewc", "replay", "ewc_replay", "online_ewc_replay", "der++", "joint"]
_NOTHING = torch.zeros(0, dtype=torch.long)


class EwcParams(BaseModel):
    """How strongly former values are held."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strength: NonNegativeFloat  # lambda; 1e-3 in the article
    fisher: Mode
    fisher_examples: PositiveInt  # of each task at most
    fisher_batch_size: PositiveInt  # gradients held at a time; changes nothing but memory
    decay: Annotated[float, Field(gt=0, le=1)]  # gamma of the online variant; 1 forgets nothing


class DerParams(BaseModel):
    """Weights of DER++."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    alpha: NonNegativeFloat  # of the former logits
    beta: NonNegativeFloat  # of the labels


class ConsolidationParams(BaseModel):
    """How a stream of tasks is learnt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: PositiveInt  # optimiser steps a task
    batch_size: PositiveInt
    lr: PositiveFloat  # of AdamW
    gradient_clip: PositiveFloat  # largest norm of the gradient
    ewc: EwcParams
    replay: ReplayParams
    der: DerParams


@dataclass(frozen=True, slots=True)
class Anchor:
    """Former values of the parameters, and how much each of them matters."""

    fisher: dict[str, Tensor]
    values: dict[str, Tensor]

    @classmethod
    def of(cls, fisher: Fisher, module: nn.Module) -> "Anchor":
        """Hold a model at its present values.

        Raises:
            ConsolidationError: the Fisher information belongs to another model.
        """
        fisher.check(module)
        return cls(fisher.values, {name: p.detach().clone() for name, p in trained(module).items()})

    def then(self, later: "Anchor", decay: float) -> "Anchor":
        """One anchor for both: the later values, F = decay * former + later (Schwarz et al. 2018, online EWC)."""
        return Anchor({name: decay * old + later.fisher[name] for name, old in self.fisher.items()}, later.values)


def ewc_penalty(parameters: Mapping[str, Tensor], anchors: Sequence[Anchor], strength: float) -> Tensor:
    """``strength / 2 * sum_i F_i (theta_i - theta*_i)^2`` over all anchors (Kirkpatrick et al. 2017, Eq. 3)."""
    terms = [
        (anchor.fisher[name] * (p - anchor.values[name]).square()).sum()
        for anchor in anchors
        for name, p in parameters.items()
    ]
    return strength / 2 * torch.stack(terms).sum()


def consolidate(
    stream: Sequence[Task],
    tests: Sequence[Task],
    method: Method,
    params: ConsolidationParams,
    *,
    seed: int,
    vectorized: bool = True,
    known: int = 0,
) -> Trajectory:
    """Train the model that the tasks share, in place, on one task after the other.

    Args:
        stream: the tasks, in their order.
        tests: examples of the same tasks that are not learnt from.
        method: what is done against forgetting.
        params: how.
        seed: of order, replay, sampled outcomes and a published model's dropout.
        vectorized: see :func:`~dualmind.learning.fisher.diagonal_fisher`.
        known: so many of the first tasks the model has learnt before: it is held to them, but they take no steps.

    Raises:
        ConsolidationError: the replay buffer is smaller than its part of a batch, or the model diverged.
    """
    learner = _Learner(stream, method, params, seed, vectorized)
    progress = Progress(f"consolidating, {method}", (len(stream) - known) * params.steps)
    before = np.array([test.accuracy() for test in tests])
    after = np.zeros((len(stream), len(tests)))
    with torch.random.fork_rng():  # published checkpoints drop out by the global generator
        torch.manual_seed(seed)
        for i, task in enumerate(stream):
            if i < known:
                after[i] = before
            else:
                _learn(learner, i, task, params)
                progress.update((i + 1 - known) * params.steps)
                after[i] = [test.accuracy() for test in tests]
            if i + 1 < len(stream):
                learner.finish(task)
    return Trajectory(tuple(task.name for task in stream), before, after, known)


def _learn(learner: "_Learner", i: int, task: Task, params: ConsolidationParams) -> None:
    parameters = trained(task.module)
    optimizer = torch.optim.AdamW(parameters.values(), lr=params.lr, weight_decay=0.0)
    task.module.train()
    for _ in range(params.steps):
        loss = learner.loss(i)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), params.gradient_clip)
        optimizer.step()
    task.module.eval()


class _Learner:
    """The loss of one method, and what it keeps of former tasks."""

    def __init__(
        self, stream: Sequence[Task], method: Method, params: ConsolidationParams, seed: int, vectorized: bool
    ) -> None:
        self._stream, self._method, self._params, self._vectorized = stream, method, params, vectorized
        self._rng = np.random.default_rng([seed, 0])
        self._generator = torch.Generator().manual_seed(seed)
        self._anchors: list[Anchor] = []
        self._buffer = ReplayBuffer(params.replay, np.random.default_rng([seed, 1]))
        total = sum(map(len, stream))  # DER++ may keep as much as the replay buffer does at the end
        self._reservoir = Reservoir(max(1, round(params.replay.share * total)), np.random.default_rng([seed, 2]))
        self._orders: dict[int, Tensor] = {}

    def loss(self, i: int) -> Tensor:
        """Loss of one step while task ``i`` is learnt."""
        match self._method:
            case "sequential" | "ewc" | "online_ewc":
                loss = self._fresh(i, self._params.batch_size)
            case "replay" | "ewc_replay" | "online_ewc_replay":
                loss = self._mixed(i)
            case "der++":
                loss = self._der(i)
            case "joint":
                loss = self._joint(i)
        if self._anchors:
            loss = loss + ewc_penalty(trained(self._stream[i].module), self._anchors, self._params.ewc.strength)
        return loss

    def finish(self, task: Task) -> None:
        """Keep what the method needs of a task that has been learnt."""
        if "replay" in self._method:
            self._buffer.add(task)
        if "ewc" in self._method:
            ewc = self._params.ewc
            fisher = diagonal_fisher(
                task, ewc.fisher, batch_size=ewc.fisher_batch_size, generator=self._generator,
                num_examples=ewc.fisher_examples, vectorized=self._vectorized,
            )  # fmt: skip
            anchor = Anchor.of(fisher, task.module)
            if self._anchors and "online" in self._method:
                self._anchors = [self._anchors[0].then(anchor, ewc.decay)]
            else:
                self._anchors.append(anchor)

    def _fresh(self, i: int, number: int) -> Tensor:
        return self._stream[i].losses(self._next(i, number)).mean()

    def _mixed(self, i: int) -> Tensor:
        """New and kept examples in one batch (the article: 4 : 1)."""
        size = self._params.batch_size
        if not len(self._buffer):
            return self._fresh(i, size)
        old = max(1, round(size * self._params.replay.part))
        total = self._stream[i].losses(self._next(i, size - old)).sum()
        for part in self._buffer.draw(old):
            each = part.task.losses(part.indices)
            self._buffer.update(part, each)
            total = total + (part.weights * each).sum()
        return total / size

    def _der(self, i: int) -> Tensor:
        """New examples, former logits and former labels (Buzzega et al. 2020, Eq. 6), each a mean over its batch."""
        task, size, der = self._stream[i], self._params.batch_size, self._params.der
        old = max(1, round(size * self._params.replay.part))
        indices = self._next(i, size)
        logits = task.logits(indices)
        loss = losses(logits, task.labels[indices]).mean()
        if len(self._reservoir):
            number = min(old, len(self._reservoir))
            for other, rows, former in self._reservoir.draw(old):
                distance = (other.logits(rows) - former).square().flatten(1).sum(1)  # (B,)
                loss = loss + der.alpha * distance.sum() / number
            for other, rows, _ in self._reservoir.draw(old):
                loss = loss + der.beta * other.losses(rows).sum() / number
        self._reservoir.add(task, indices, logits)
        return loss

    def _joint(self, i: int) -> Tensor:
        """Examples of all tasks so far, as if there were no order."""
        sizes = np.array([len(task) for task in self._stream[: i + 1]])
        numbers = self._rng.multinomial(self._params.batch_size, sizes / sizes.sum())
        each = [self._stream[j].losses(self._next(j, int(n))).sum() for j, n in enumerate(numbers) if n]
        return torch.stack(each).sum() / self._params.batch_size

    def _next(self, i: int, number: int) -> Tensor:
        """Indices of the next examples of a task: epochs without replacement."""
        while len(order := self._orders.get(i, _NOTHING)) < number:
            new = torch.from_numpy(self._rng.permutation(len(self._stream[i])))
            self._orders[i] = torch.cat((order, new))
        self._orders[i] = order[number:]
        return order[:number]
