"""Writing as a task to learn: prompts with texts to write, and what each reasoning step should conclude."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from dualmind.models.config import MAX_REASONING_STEPS
from dualmind.models.levels import Thought
from dualmind.models.scoring import pad_rows

IGNORED = -100  # label that cross-entropy leaves out
_STEP = re.compile(r"#\d+ ([^#=]+)")


@dataclass(frozen=True, slots=True)
class WritingBatch:
    """B prompts of up to L words with texts of up to T words."""

    prompt_ids: Tensor  # (B, L)
    prompt_mask: Tensor  # (B, L), 1 for words
    labels: Tensor  # (B, T), the text and its end; IGNORED for padding
    conclusions: Tensor  # (B, 7), word that each reasoning step should conclude
    halts: Tensor  # (B, 7), 1.0 from the step on at which the answer is reached

    def to(self, device: torch.device) -> "WritingBatch":
        """The same batch on another device."""
        return WritingBatch(*(getattr(self, name).to(device) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class TokenizedTexts:
    """Prompts and texts as token ids."""

    prompts: list[NDArray[np.int64]]
    texts: list[NDArray[np.int64]]  # each with its end
    conclusions: list[NDArray[np.int64]]  # (7,) each
    hops: list[int]
    pad: int

    @classmethod
    def of(cls, prompts: Sequence[str], texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> "TokenizedTexts":
        """Tokenise pairs of a prompt and a text."""
        steps = [conclusions_of(text) for text in texts]
        flat = tokenizer([word for own in steps for word in own], add_special_tokens=False)["input_ids"]
        words = np.array([ids[0] for ids in flat], dtype=np.int64).reshape(len(texts), MAX_REASONING_STEPS)
        pad = tokenizer.pad_token_id
        assert isinstance(pad, int)
        return cls(
            prompts=[np.asarray(ids, dtype=np.int64) for ids in tokenizer(list(prompts))["input_ids"]],
            texts=[np.asarray(ids, dtype=np.int64) for ids in tokenizer(list(texts))["input_ids"]],
            conclusions=list(words),
            hops=[max(1, len(_STEP.findall(text))) for text in texts],
            pad=pad,
        )

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def lengths(self) -> list[int]:
        """Words of each prompt and its text."""
        return [len(prompt) + len(text) for prompt, text in zip(self.prompts, self.texts, strict=True)]

    def batch(self, indices: Sequence[int]) -> WritingBatch:
        """One padded batch."""
        prompts, texts = [self.prompts[i] for i in indices], [self.texts[i] for i in indices]
        prompt_ids, mask = pad_rows(prompts, self.pad)
        labels, _ = pad_rows(texts, IGNORED)
        hops = torch.tensor([self.hops[i] for i in indices])[:, None]  # (B, 1)
        halts = (torch.arange(1, MAX_REASONING_STEPS + 1) >= hops).float()
        conclusions = torch.from_numpy(np.stack([self.conclusions[i] for i in indices]))
        return WritingBatch(prompt_ids, mask, labels, conclusions, halts)


def conclusions_of(text: str) -> list[str]:
    """The last word of each numbered step, then of the answer: what 7 reasoning steps should conclude.

    A text of more steps than that is concluded as far as its seventh.
    """
    steps = [step.split()[-1] for step in _STEP.findall(text)]
    last = text.rsplit(maxsplit=1)[-1]
    return [*steps, *[last] * MAX_REASONING_STEPS][:MAX_REASONING_STEPS]


def thought_losses(thought: Thought, batch: WritingBatch) -> dict[str, Tensor]:
    """Losses of the levels over T reasoning steps, each a mean in nats.

    ``step``: cross-entropy of each step's conclusion; after the answer is reached, of the answer (states drift
    otherwise). ``halt``: whether the answer has been reached. ``verify``: whether the last conclusion is right.
    """
    steps = thought.conclusions.shape[1]
    wanted = batch.conclusions[:, :steps]
    losses = {
        "step": F.cross_entropy(thought.conclusions.flatten(0, 1).float(), wanted.flatten()),
        "halt": F.binary_cross_entropy_with_logits(thought.halts.float(), batch.halts[:, :steps]),
    }
    if thought.validity is not None:
        right = (thought.conclusions[:, -1].argmax(-1) == wanted[:, -1]).float()
        losses["verify"] = F.binary_cross_entropy_with_logits(thought.validity.float(), right)
    return losses
