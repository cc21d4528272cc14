"""System 1: a small encoder-decoder that answers at once, built from sizes or loaded from a published checkpoint."""

from collections.abc import Iterable
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dualmind.errors import CheckpointError
from dualmind.models.config import CompactConfig
from dualmind.models.encoder_decoder import CompactForConditionalGeneration
from dualmind.models.text_model import PublishedParams, TextModel, load_published
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
