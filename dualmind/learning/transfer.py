"""What a stream of tasks did to each of them: accuracy after every task, forgetting, transfer."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Accuracies over a stream of T tasks.

    Attributes:
        names: of the tasks.
        before: accuracy on each task before any was learnt (T,).
        after: row i holds the accuracy on each task after task i was learnt (T, T).
        known: so many of the first tasks had been learnt before.
    """

    names: tuple[str, ...]
    before: Floats
    after: Floats
    known: int = 0

    @property
    def average(self) -> float:
        """Mean accuracy at the end (Lopez-Paz and Ranzato 2017, Eq. 2, ACC)."""
        return float(self.after[-1].mean())

    @property
    def backward_transfer(self) -> float:
        """Mean change of former tasks since they were learnt (Eq. 3, BWT); 0 for one task."""
        return float(np.mean(self.after[-1, :-1] - np.diag(self.after)[:-1])) if len(self.names) > 1 else 0.0

    @property
    def forward_transfer(self) -> float:
        """Mean gain on tasks just before they are learnt, over the start (Eq. 4, FWT); 0 for one task."""
        return float(np.mean(np.diag(self.after, 1) - self.before[1:])) if len(self.names) > 1 else 0.0

    @property
    def forgetting(self) -> Floats:
        """Row i, column j: how far task j lies after task i below its best until then (T, T); 0 until it is learnt.

        (Chaudhry et al. 2018, Eq. 3, before the mean.)
        """
        learnt = np.tril(self.after)
        return np.tril(np.maximum.accumulate(learnt, axis=0) - learnt)

    @property
    def first_drop(self) -> float:
        """Accuracy that the first task lost by the end; negative where it gained."""
        return float(self.after[0, 0] - self.after[-1, 0])

    @property
    def new_accuracy(self) -> float:
        """Mean accuracy on later tasks right after each was learnt; of the only task, where there is one."""
        return float(np.diag(self.after)[min(max(1, self.known), len(self.names) - 1) :].mean())

    def metrics(self) -> dict[str, float]:
        """The figures above, by name."""
        names = ("average", "backward_transfer", "forward_transfer", "first_drop", "new_accuracy")
        return {name: getattr(self, name) for name in names}
