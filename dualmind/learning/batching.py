"""Decisions as token ids, and the order in which they are learnt."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dualmind.data.decisions import DecisionRow
from dualmind.learning.augment import Renaming
from dualmind.models.scoring import ScoringBatch, collate
from dualmind.models.system1 import System1

_WINDOW = 16  # batches among which prompts are sorted by length: padding falls from a half to a tenth


@dataclass(frozen=True, slots=True)
class TokenizedDecisions:
    """Decisions ready to be batched."""

    prompts: list[NDArray[np.int64]]
    commands: list[list[tuple[int, ...]]]
    accepted: list[NDArray[np.int64]]  # of each decision, indices of the commands that are right
    pad: int

    @classmethod
    def of(
        cls, rows: Sequence[DecisionRow], system1: System1, same: Callable[[str], str] = str
    ) -> "TokenizedDecisions":
        """Tokenise rows that have candidates.

        Args:
            rows: the decisions.
            system1: whose tokenizer is used.
            same: gives one text for commands that are as good as each other; all of those like the target are right.
        """
        pad = system1.tokenizer.pad_token_id
        assert isinstance(pad, int)
        return cls(
            prompts=system1.prompt_ids([row.prompt for row in rows]),
            commands=[system1.command_ids(row.candidates) for row in rows],
            accepted=[
                np.array([i for i, own in enumerate(row.candidates) if same(own) == same(row.target)]) for row in rows
            ],
            pad=pad,
        )

    def __len__(self) -> int:
        return len(self.prompts)

    def batch(self, indices: Sequence[int], renaming: Renaming | None = None) -> tuple[ScoringBatch, torch.Tensor]:
        """One padded batch and which commands are right (B, C); ``renaming`` changes words per decision."""
        prompts = [self.prompts[i] for i in indices]
        commands: list[Sequence[tuple[int, ...]]] = [self.commands[i] for i in indices]
        if renaming is not None:
            pairs = [renaming(prompt, own) for prompt, own in zip(prompts, commands, strict=True)]
            prompts, commands = [p for p, _ in pairs], [c for _, c in pairs]
        batch = collate(prompts, commands, self.pad)
        right = torch.zeros_like(batch.command_mask)
        for row, index in enumerate(indices):
            right[row, self.accepted[index]] = True
        return batch, right


def batches(
    lengths: Sequence[int], batch_size: int, num_steps: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Indices of ``num_steps`` batches: epochs without replacement, prompts of like length together.

    Args:
        lengths: prompt length of each decision.
        batch_size: decisions a batch; one epoch's end may stand in a batch with the next one's start.
        num_steps: batches.
        rng: gives the order.
    """
    lengths_array = np.asarray(lengths)
    waiting = np.empty(0, dtype=np.int64)
    ready: list[NDArray[np.int64]] = []
    for _ in range(num_steps):
        if not ready:
            while len(waiting) < batch_size * _WINDOW:
                waiting = np.concatenate([waiting, rng.permutation(len(lengths_array))])
            window, waiting = waiting[: batch_size * _WINDOW], waiting[batch_size * _WINDOW :]
            window = window[np.argsort(lengths_array[window], kind="stable")]
            ready = [window[i * batch_size : (i + 1) * batch_size] for i in rng.permutation(_WINDOW)]
        yield ready.pop()
