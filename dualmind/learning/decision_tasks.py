"""Decisions as tasks of a stream: commands to choose, or texts to write."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dualmind.data.decisions import DecisionRow
from dualmind.learning.stream import Task
from dualmind.learning.writing import IGNORED
from dualmind.models.encoder_decoder import CompactForConditionalGeneration
from dualmind.models.scoring import HIDDEN, pad_rows
from dualmind.models.system2 import System2, with_plan
from dualmind.models.text_model import TextModel


class Choosing(nn.Module):
    """Logits over commands, each example on its own, so that gradients of single examples can be taken."""

    def __init__(self, model: CompactForConditionalGeneration, pad: int) -> None:
        super().__init__()
        self.model, self.pad = model, pad

    def forward(self, ids: Tensor, mask: Tensor, commands: Tensor, command_mask: Tensor) -> Tensor:
        """Prompts (B, L) with their mask and commands (B, C, W) with theirs (B, C), to logits (B, C)."""
        words = self.model.get_input_embeddings()(commands)  # (B, C, W, D)
        positions = (words * (commands != self.pad)[..., None]).sum(2)  # (B, C, D)
        states = self.model.encoder(ids, mask)[0]
        logits = self.model.command_head(self.model.command_states(positions, states, mask)).squeeze(-1)
        return torch.where(command_mask, logits.float(), HIDDEN)


class Writing(nn.Module):
    """Logits over each next word."""

    def __init__(self, model: CompactForConditionalGeneration) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor, before: Tensor) -> Tensor:
        """Prompts (B, L) with their mask, and the words before each word (B, T), to logits (B, T, V)."""
        return self.model(input_ids=ids, attention_mask=mask, decoder_input_ids=before, use_cache=False).logits


def decision_task(name: str, rows: Sequence[DecisionRow], system: TextModel) -> Task:
    """Decisions that all have commands, or all have none, as one task.

    System 2 is given its plan with the commands, and writes its steps before the answer, as where it is cloned.

    Args:
        name: of the task.
        rows: at least one.
        system: one of our own models.
    """
    if rows[0].candidates:
        return choosing_task(name, rows, system)
    texts = [row.rationale if isinstance(system, System2) else row.target for row in rows]
    return writing_task(name, rows, texts, system)


def choosing_task(name: str, rows: Sequence[DecisionRow], system: TextModel) -> Task:
    """Decisions with commands as one task; strata are the numbers of hops."""
    prompts = [with_plan(row.prompt, row.rationale) if isinstance(system, System2) else row.prompt for row in rows]
    ids, mask = pad_rows(system.prompt_ids(prompts), system.pad_id)
    commands = [system.command_ids(row.candidates) for row in rows]
    table = np.full((len(rows), max(map(len, commands)), max(len(c) for own in commands for c in own)), system.pad_id)
    present = np.zeros(table.shape[:2], dtype=np.bool_)
    for i, own in enumerate(commands):
        present[i, : len(own)] = True
        for j, words in enumerate(own):
            table[i, j, : len(words)] = words
    labels = torch.tensor([row.candidates.index(row.target) for row in rows])
    inputs = (ids, mask, torch.from_numpy(table), torch.from_numpy(present))
    return Task(name, Choosing(_own_model(system), system.pad_id), inputs, labels, _strata(rows))


def writing_task(name: str, rows: Sequence[DecisionRow], texts: Sequence[str], system: TextModel) -> Task:
    """A text to write for each decision's prompt, as one task; strata are the numbers of hops."""
    model = _own_model(system)
    ids, mask = pad_rows(system.prompt_ids([row.prompt for row in rows]), system.pad_id)
    labels, _ = pad_rows(system.prompt_ids(texts), IGNORED)
    return Task(name, Writing(model), (ids, mask, model.shift_right(labels)), labels, _strata(rows))


def _own_model(system: TextModel) -> CompactForConditionalGeneration:
    model = system.model
    assert isinstance(model, CompactForConditionalGeneration), "published models have no gradients of single examples"
    return model


def _strata(rows: Sequence[DecisionRow]) -> NDArray[np.int64]:
    return np.array([row.hops for row in rows], dtype=np.int64)
