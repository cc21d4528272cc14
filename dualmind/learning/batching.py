"""Decisions as token ids, and the order in which they are learnt."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dualmind.data.decisions import DecisionRow
from dualmind.learning.augment import rename
from dualmind.models.scoring import ScoringBatch, collate
from dualmind.models.text_model import TextModel

_WINDOW = 16  # batches among which prompts are sorted by length: padding falls from a half to a tenth


@dataclass(frozen=True, slots=True)
class TokenizedDecisions:
    """Decisions ready to be batched."""

    prompts: list[NDArray[np.int64]]
    commands: list[list[tuple[int, ...]]]
    chosen: list[int]  # index of the expert's command among each decision's commands
    pad: int

    @classmethod
    def of(
        cls, rows: Sequence[DecisionRow], system: TextModel, prompts: Sequence[str] | None = None
    ) -> "TokenizedDecisions":
        """Tokenise rows that have candidates with the tokenizer of ``system``; ``prompts`` replace their own."""
        pad = system.tokenizer.pad_token_id
        assert isinstance(pad, int)
        return cls(
            prompts=system.prompt_ids(prompts or [row.prompt for row in rows]),
            commands=[system.command_ids(row.candidates) for row in rows],
            chosen=[row.candidates.index(row.target) for row in rows],
            pad=pad,
        )

    def __len__(self) -> int:
        return len(self.prompts)

    def batch(
        self, indices: Sequence[int], tables: Sequence[NDArray[np.int64] | None] | None = None
    ) -> tuple[ScoringBatch, torch.Tensor]:
        """One padded batch and the expert's choices (B,).

        Args:
            indices: the decisions.
            tables: new ids of each decision's words (see :meth:`dualmind.learning.augment.Renaming.draw`).
        """
        tables = tables or [None] * len(indices)
        pairs = [rename(self.prompts[i], self.commands[i], own) for i, own in zip(indices, tables, strict=True)]
        batch = collate([prompt for prompt, _ in pairs], [commands for _, commands in pairs], self.pad)
        return batch, torch.tensor([self.chosen[i] for i in indices])


def batches(
    lengths: Sequence[int], batch_size: int, num_steps: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Indices of ``num_steps`` batches: epochs without replacement, prompts of like length together.

    What is left of an epoch and fills no batch is dropped, so that no decision stands twice in one; fewer decisions
    than ``batch_size`` make batches of all of them.

    Args:
        lengths: prompt length of each decision; at least one.
        batch_size: decisions a batch.
        num_steps: batches.
        rng: gives the order.
    """
    lengths_array = np.asarray(lengths)
    size = min(batch_size, len(lengths_array))
    ready: list[NDArray[np.int64]] = []
    for _ in range(num_steps):
        if not ready:
            order = rng.permutation(len(lengths_array))[: len(lengths_array) // size * size]
            for start in range(0, len(order), size * _WINDOW):
                window = order[start : start + size * _WINDOW]
                window = window[np.argsort(lengths_array[window], kind="stable")]
                ready += [window[i : i + size] for i in range(0, len(window), size)]
            ready = [ready[i] for i in rng.permutation(len(ready))]
        yield ready.pop()
