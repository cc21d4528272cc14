"""System 1: a small encoder-decoder that answers at once, built from sizes or loaded from a published checkpoint."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PositiveInt
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dualmind.errors import CheckpointError
from dualmind.models.config import CompactConfig
from dualmind.models.encoder_decoder import CompactForConditionalGeneration
from dualmind.models.scoring import pad_rows
from dualmind.models.text_model import MAX_ANSWER_WORDS, PublishedParams, TextModel, load_published
from dualmind.models.tokenizer import build_tokenizer

MAX_PARAMETERS = 1_000_000_000  # System 1 is the small one


class CompactParams(BaseModel):
    """Our own model with a tokenizer made from the training text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["compact"]
    d_model: PositiveInt  # width; a multiple of 2 * num_heads
    d_ff: PositiveInt  # width of the feed-forward layers
    num_heads: PositiveInt
    encoder_layers: PositiveInt
    decoder_layers: PositiveInt


ModelParams = Annotated[CompactParams | PublishedParams, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """What System 1 says, and what it shows while it says it.

    Attributes:
        answer: a command or a text.
        log_probability: of it, in nats.
        confidence: one minus the normalised entropy of the choice, or of the least certain word; 0..1.
        reading: mean of the encoder's states over the prompt's words (D,).
    """

    answer: str
    log_probability: float
    confidence: float
    reading: NDArray[np.float64]


class System1(TextModel):
    """Scores commands where there are some, else writes the answer."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Wrap a model.

        Raises:
            CheckpointError: the model has a billion parameters or more.
        """
        super().__init__(model, tokenizer)
        if self.num_parameters >= MAX_PARAMETERS:
            raise CheckpointError(
                f"System 1 has {self.num_parameters:,} parameters, not under "
                f"{MAX_PARAMETERS:,}; choose a smaller checkpoint"
            )

    @torch.inference_mode()
    def answer(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[FirstAnswer]:
        """Answer each prompt: the best of its commands, or a short text where it has none.

        Args:
            prompts: what is asked.
            candidates: commands of each prompt; none for a question.
        """
        answers: list[FirstAnswer | None] = [None] * len(prompts)
        choices = [i for i, own in enumerate(candidates) if own]
        questions = [i for i, own in enumerate(candidates) if not own]
        if choices:
            found = self._choose([prompts[i] for i in choices], [candidates[i] for i in choices])
            for i, answer in zip(choices, found, strict=True):
                answers[i] = answer
        if questions:
            for i, answer in zip(questions, self._write_answers([prompts[i] for i in questions]), strict=True):
                answers[i] = answer
        return [answer for answer in answers if answer is not None]

    def _choose(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[FirstAnswer]:
        batch = self.collate(prompts, candidates).to(self.model.device)
        states = self.scorer.read(batch)
        log_probabilities = self.scorer.score(states, batch).log_softmax(-1)  # (B, C)
        entropy = -(log_probabilities.exp() * log_probabilities).sum(-1)  # (B,); padding adds 0 * HIDDEN = 0
        most = torch.tensor([max(math.log(len(own)), 1e-9) for own in candidates], device=entropy.device)
        best = log_probabilities.max(-1)
        readings = _mean(states, batch.prompt_mask)
        return [
            FirstAnswer(own[int(index)], float(said), 1 - float(share), reading)
            for own, index, said, share, reading in zip(
                candidates, best.indices, best.values, entropy / most, readings, strict=True
            )
        ]

    def _write_answers(self, prompts: Sequence[str]) -> list[FirstAnswer]:
        ids, mask = pad_rows(self.prompt_ids(prompts), self.pad_id)
        ids, mask = ids.to(self.model.device), mask.to(self.model.device)
        memory = self.model.get_encoder()(input_ids=ids, attention_mask=mask)[0]
        written = self.write_from(memory, ids, mask, max_words=MAX_ANSWER_WORDS)
        return [
            FirstAnswer(self.text(own[0]), own[0].log_probability, 1 - own[0].entropy, reading)
            for own, reading in zip(written, _mean(memory, mask), strict=True)
        ]

    @classmethod
    def build(cls, params: ModelParams, texts: Iterable[str], seed: int) -> "System1":
        """A new model for training: random weights from ``seed``, or a published checkpoint's.

        Args:
            params: which model.
            texts: training text, for the vocabulary of our own tokenizer.
            seed: of the random weights.

        Raises:
            CheckpointError: the published checkpoint is not on this machine, or is too large.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            match params:
                case CompactParams():
                    tokenizer = build_tokenizer(texts)
                    sizes = params.model_dump(exclude={"kind"})
                    model = CompactForConditionalGeneration(CompactConfig(vocab_size=len(tokenizer), **sizes))
                    return cls(model, tokenizer)
                case PublishedParams():
                    return cls(*load_published("pretrain.system1.model.checkpoint", params.checkpoint))


def _mean(states: Tensor, mask: Tensor) -> NDArray[np.float64]:
    """Mean over the words of each prompt: (B, L, D), (B, L) to (B, D)."""
    weight = mask[..., None].to(states.dtype)
    mean = (states * weight).sum(1) / weight.sum(1)
    found: NDArray[np.float64] = mean.float().cpu().numpy().astype(np.float64)
    return found
