"""Scores admissible commands: one decoder position a command, so that the distribution over them is exact.

A command's word embeddings are summed into one position of the decoder, which reads the prompt and gives a logit.
Commands do not see each other: the score of one does not depend on which others stand beside it, or in what order.
Writing commands word by word under a trie instead gave 86 % success where this gave 97 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from dualmind.errors import CheckpointError
from dualmind.models.encoder_decoder import CompactForConditionalGeneration

HIDDEN = -1e9  # logit of padding: exp() is exactly 0, and sums stay finite where -inf would give NaN gradients


@dataclass(frozen=True, slots=True)
class ScoringBatch:
    """Prompts with their commands, padded. B prompts of up to L tokens; up to C commands a prompt; T tokens in all."""

    prompt_ids: Tensor  # (B, L)
    prompt_mask: Tensor  # (B, L), 1 for tokens
    command_tokens: Tensor  # (T,), the tokens of all distinct commands, one after the other
    command_offsets: Tensor  # (U,), where each distinct command starts in command_tokens
    commands: Tensor  # (B, C), row of each prompt's commands among the U; 0 for padding
    command_mask: Tensor  # (B, C), True for commands

    def to(self, device: torch.device) -> "ScoringBatch":
        """The same batch on another device."""
        return ScoringBatch(*(getattr(self, name).to(device) for name in self.__slots__))


def pad_rows(rows: Sequence[NDArray[np.int64]], pad: int) -> tuple[Tensor, Tensor]:
    """Token ids as one tensor (B, L) and its mask (B, L), 1 for tokens."""
    longest = max(map(len, rows))
    ids = np.full((len(rows), longest), pad, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def collate(
    prompts: Sequence[NDArray[np.int64]], commands: Sequence[Sequence[tuple[int, ...]]], pad: int
) -> ScoringBatch:
    """Pad prompts and commands; each distinct command of the batch is embedded once.

    Args:
        prompts: token ids of each prompt.
        commands: token ids of each prompt's commands, none of them empty.
        pad: id of padding.
    """
    most = max(map(len, commands))
    rows = np.zeros((len(commands), most), dtype=np.int64)
    command_mask = np.zeros((len(commands), most), dtype=np.bool_)
    distinct: dict[tuple[int, ...], int] = {}
    for i, own in enumerate(commands):
        rows[i, : len(own)] = [distinct.setdefault(command, len(distinct)) for command in own]
        command_mask[i, : len(own)] = True
    offsets = np.cumsum([0, *map(len, distinct)])[:-1]
    tokens = np.fromiter((token for command in distinct for token in command), np.int64)
    return ScoringBatch(*pad_rows(prompts, pad), *map(torch.from_numpy, (tokens, offsets, rows, command_mask)))


class CommandScorer(nn.Module):
    """Logits over commands from an encoder-decoder, our own or a published one with an added head."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        if not hasattr(model, "command_head"):
            model.command_head = nn.Linear(_width(model), 1, bias=False)
            nn.init.zeros_(model.command_head.weight)  # start from the uniform distribution

    def forward(self, batch: ScoringBatch) -> Tensor:
        """Logits (B, C); padding gets HIDDEN."""
        return self.score(self.read(batch), batch)

    def read(self, batch: ScoringBatch) -> Tensor:
        """What the decoder reads of the prompts (B, L, D).

        Raises:
            CheckpointError: the model is decoder-only.
        """
        if not self.model.config.is_encoder_decoder:
            raise CheckpointError(
                f"{type(self.model).__name__} has no encoder: it writes text but does not score commands; "
                "choose an encoder-decoder, or give it questions alone"
            )
        states: Tensor = self.model.get_encoder()(input_ids=batch.prompt_ids, attention_mask=batch.prompt_mask)[0]
        return states

    def score(self, states: Tensor, batch: ScoringBatch) -> Tensor:
        """Logits (B, C) from states that :meth:`read` gave."""
        embedding = self.model.get_input_embeddings()
        assert isinstance(embedding, nn.Embedding)
        distinct = F.embedding_bag(batch.command_tokens, embedding.weight, batch.command_offsets, mode="sum")  # (U, D)
        positions = distinct[batch.commands]  # (B, C, D)
        if isinstance(self.model, CompactForConditionalGeneration):
            decoded = self.model.command_states(positions, states, batch.prompt_mask)
        else:
            decoded = _decode_apart(self.model, positions, states, batch.prompt_mask)
        logits = self.model.command_head(decoded).squeeze(-1).float()  # (B, C)
        return logits.masked_fill(~batch.command_mask, HIDDEN)


def _decode_apart(model: PreTrainedModel, positions: Tensor, states: Tensor, mask: Tensor) -> Tensor:
    """Decode each command as a sequence of its own with a published decoder: (B, C, D) to (B, C, D)."""
    num_commands = positions.shape[1]
    decoded = model.get_decoder()(
        inputs_embeds=positions.flatten(0, 1)[:, None],  # (B * C, 1, D)
        encoder_hidden_states=states.repeat_interleave(num_commands, dim=0),
        encoder_attention_mask=mask.repeat_interleave(num_commands, dim=0),
        use_cache=False,
    )[0]
    return decoded.squeeze(1).unflatten(0, (-1, num_commands))


def _width(model: PreTrainedModel) -> int:
    width = model.config.hidden_size
    assert isinstance(width, int)
    return width
