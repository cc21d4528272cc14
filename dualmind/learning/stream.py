"""A stream of tasks that share one model: what is learnt one after the other."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from dualmind.learning.writing import IGNORED


@dataclass(frozen=True, slots=True)
class Task:
    """N examples of one task.

    Attributes:
        name: of the task.
        module: maps ``inputs`` of B examples to logits (B, C), or (B, T, V) for texts. Modules of several tasks share
            the parameters, under the same names.
        inputs: tensors (N, ...), padded to the longest of the task, so that an example's bits do not depend on its
            batch.
        labels: class of each example (N,), or words of its text (N, T) with IGNORED for padding.
        strata: group of each example (N,), >= 0; a replay buffer takes its share of every group.
    """

    name: str
    module: nn.Module
    inputs: tuple[Tensor, ...]
    labels: Tensor
    strata: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def logits(self, indices: Tensor) -> Tensor:
        """Logits of some examples (B, C) or (B, T, V)."""
        return self.module(*(x[indices] for x in self.inputs))

    def losses(self, indices: Tensor) -> Tensor:
        """Negative log-likelihood of each example (B,), in nats; of texts the mean over its words."""
        return losses(self.logits(indices), self.labels[indices])

    @torch.no_grad()
    def accuracy(self, batch_size: int = 256) -> float:
        """Share of examples that are right in all positions."""
        training = self.module.training
        self.module.eval()
        right = 0
        for indices in torch.arange(len(self)).split(batch_size):
            labels = self.labels[indices]
            hits = (self.logits(indices).argmax(-1) == labels) | (labels == IGNORED)  # (B,) or (B, T)
            right += int(hits.reshape(len(labels), -1).all(1).sum())
        self.module.train(training)
        return right / len(self)


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each example (B,): logits (B, C) with labels (B,), or (B, T, V) with (B, T)."""
    each = F.cross_entropy(logits.movedim(-1, 1).float(), labels, ignore_index=IGNORED, reduction="none")
    if labels.ndim == 1:
        return each
    return each.sum(1) / (labels != IGNORED).sum(1).clamp_min(1)
