"""System 1: a small encoder-decoder that scores commands, built from sizes or loaded from a published checkpoint."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from dualmind.errors import CheckpointError
from dualmind.models.checkpoint import Checkpoint
from dualmind.models.config import CompactConfig
from dualmind.models.encoder_decoder import CompactForConditionalGeneration
from dualmind.models.scoring import CommandScorer, ScoringBatch, collate
from dualmind.models.tokenizer import WordIds, build_tokenizer

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


class PublishedParams(BaseModel):
    """A published encoder-decoder (T5, BART, ...) with its own tokenizer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["published"]
    checkpoint: str  # a folder, or a name in the local Hugging Face cache, such as google/flan-t5-large


ModelParams = Annotated[CompactParams | PublishedParams, Field(discriminator="kind")]


class System1:
    """Scores commands for prompts."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Wrap a model.

        Raises:
            CheckpointError: the model has a billion parameters or more.
        """
        self.model, self.tokenizer = model, tokenizer
        if self.num_parameters >= MAX_PARAMETERS:
            raise CheckpointError(
                f"System 1 has {self.num_parameters:,} parameters, not under "
                f"{MAX_PARAMETERS:,}; choose a smaller checkpoint"
            )
        self.scorer = CommandScorer(model)
        self._command_ids = WordIds(tokenizer)

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
                    return cls(*_load_published(params.checkpoint))

    @classmethod
    def load(cls, path: Path, device: str = "cpu") -> "System1":
        """Read a checkpoint that :func:`~dualmind.models.checkpoint.save_checkpoint` wrote.

        Raises:
            CheckpointError: see :class:`~dualmind.models.checkpoint.Checkpoint`.
        """
        model, tokenizer = Checkpoint.open(path).load()
        model.to(torch.device(device))
        return cls(model, tokenizer)

    @property
    def num_parameters(self) -> int:
        """Trainable numbers, shared ones counted once."""
        return sum(p.numel() for p in self.model.parameters())

    @property
    def num_bytes(self) -> int:
        """Bytes of those numbers in memory."""
        return sum(p.numel() * p.element_size() for p in self.model.parameters())

    def prompt_ids(self, prompts: Sequence[str]) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """Token ids of each prompt, with the special tokens that the tokenizer adds."""
        return [np.asarray(ids, dtype=np.int64) for ids in self.tokenizer(list(prompts))["input_ids"]]

    def command_ids(self, commands: Sequence[str]) -> list[tuple[int, ...]]:
        """Token ids of each command, without special tokens."""
        return self._command_ids(commands)

    @torch.inference_mode()
    def score(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[torch.Tensor]:
        """Log-probabilities over each prompt's commands, one tensor (num_candidates,) a prompt, on the CPU."""
        batch = self.collate(prompts, candidates).to(self.model.device)
        log_probabilities = self.scorer(batch).log_softmax(-1).cpu()  # (B, C)
        return [row[: len(own)] for row, own in zip(log_probabilities, candidates, strict=True)]

    def collate(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> ScoringBatch:
        """Texts as one padded batch."""
        pad = self.tokenizer.pad_token_id
        assert isinstance(pad, int)
        return collate(self.prompt_ids(prompts), [self.command_ids(own) for own in candidates], pad)


def _load_published(checkpoint: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    try:
        model = AutoModelForSeq2SeqLM.from_pretrained(
            checkpoint, local_files_only=True, use_safetensors=True, dtype=torch.float32
        )  # weights stay in float32 whatever they were published in; precision is a matter of autocast
        return model, AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"pretrain.system1.model.checkpoint = {checkpoint!r} cannot be loaded from this machine "
            f"({str(error)[:300]}); "
            "download it beforehand, with safetensors weights, and give its folder"
        ) from error
