"""A text model with its tokenizer, our own or a published one: scores commands, writes texts, comes back from disk."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from dualmind.errors import CheckpointError
from dualmind.models import decoding
from dualmind.models.checkpoint import Checkpoint
from dualmind.models.decoding import Written
from dualmind.models.encoder_decoder import CompactForConditionalGeneration
from dualmind.models.reasoner import ReasonerForConditionalGeneration
from dualmind.models.scoring import CommandScorer, ScoringBatch, collate
from dualmind.models.tokenizer import WordIds


class PublishedParams(BaseModel):
    """A published checkpoint with its own tokenizer.

    For System 1 an encoder-decoder (T5, BART, ...); for System 2 a mixture of experts, an encoder-decoder (Switch) or a
    decoder (Qwen3-MoE, OLMoE), which only writes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["published"]
    checkpoint: str  # a folder, or a name in the local Hugging Face cache, such as google/flan-t5-large


class TextModel:
    """A model that reads prompts; the base of both systems."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.scorer = CommandScorer(model)
        self._command_ids = WordIds(tokenizer)

    @classmethod
    def load(cls, path: Path, device: str = "cpu") -> Self:
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

    def prompt_ids(self, prompts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Token ids of each prompt, with the special tokens that the tokenizer adds."""
        return [np.asarray(ids, dtype=np.int64) for ids in self.tokenizer(list(prompts))["input_ids"]]

    def command_ids(self, commands: Sequence[str]) -> list[tuple[int, ...]]:
        """Token ids of each command, without special tokens."""
        return self._command_ids(commands)

    @torch.inference_mode()
    def score(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[Tensor]:
        """Log-probabilities over each prompt's commands, one tensor (num_candidates,) a prompt, on the CPU."""
        batch = self.collate(prompts, candidates).to(self.model.device)
        log_probabilities = self.scorer(batch).log_softmax(-1).cpu()  # (B, C)
        return [row[: len(own)] for row, own in zip(log_probabilities, candidates, strict=True)]

    def collate(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> ScoringBatch:
        """Texts as one padded batch."""
        pad = self.tokenizer.pad_token_id
        assert isinstance(pad, int)
        return collate(self.prompt_ids(prompts), [self.command_ids(own) for own in candidates], pad)

    @torch.inference_mode()
    def write(
        self,
        prompts: Sequence[str],
        *,
        max_words: int,
        copies: int = 1,
        first: str | None = None,
        temperature: float = 0.0,
        generator: torch.Generator | None = None,
        max_steps: int | None = None,
    ) -> list[list[Written]]:
        """Write ``copies`` texts for each prompt, all prompts in one batch.

        Args:
            prompts: what is read.
            max_words: words at most.
            copies: texts a prompt.
            first: the first word, if it is given beforehand.
            temperature: 0 takes the likeliest word, else words are drawn.
            generator: source of the draws; of our own models only.
            max_steps: steps of the reasoning level at most, where the model has one.
        """
        ids, mask = pad_rows(self.prompt_ids(prompts), self.pad_id)
        ids, mask = ids.to(self.model.device), mask.to(self.model.device)
        return self.write_from(
            self._memory(ids, mask, max_steps), ids, mask, max_words=max_words, copies=copies, first=first,
            temperature=temperature, generator=generator,
        )  # fmt: skip

    def write_from(
        self,
        memory: Tensor,
        ids: Tensor,
        mask: Tensor,
        *,
        max_words: int,
        copies: int = 1,
        first: str | None = None,
        temperature: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> list[list[Written]]:
        """:meth:`write` where the prompts (B, L) were read before: ``memory`` (B, M, D) is what the decoder reads."""
        if not isinstance(self.model, CompactForConditionalGeneration):
            return self._generate(ids, mask, max_words, copies, temperature)
        first_id = None if first is None else self.command_ids([first])[0][0]
        return decoding.write(
            self.model, memory, mask, max_words=max_words, copies=copies, first=first_id, temperature=temperature,
            generator=generator,
        )  # fmt: skip

    def text(self, written: Written) -> str:
        """What was written, as words parted by single blanks."""
        text = self.tokenizer.decode(list(written.ids), skip_special_tokens=True)
        assert isinstance(text, str)
        return text

    @property
    def pad_id(self) -> int:
        """Id of padding."""
        pad = self.tokenizer.pad_token_id
        assert isinstance(pad, int)
        return pad

    def _memory(self, ids: Tensor, mask: Tensor, max_steps: int | None) -> Tensor:
        """What the decoder reads (B, M, D)."""
        if isinstance(self.model, ReasonerForConditionalGeneration):
            thought = self.model.encoder.think(ids, mask, max_steps)
            if thought is not None:
                return thought.memory
        memory: Tensor = self.model.get_encoder()(input_ids=ids, attention_mask=mask)[0]
        return memory

    def _generate(
        self, ids: Tensor, mask: Tensor, max_words: int, copies: int, temperature: float
    ) -> list[list[Written]]:
        """The same with a published model, by transformers' own loop."""
        sampling = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
        out = self.model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=max_words + 1, num_return_sequences=copies,
            output_scores=True, return_dict_in_generate=True, num_beams=1, **sampling,
        )  # fmt: skip
        logits = torch.stack(out.scores, 1).float().log_softmax(-1)  # (R, T, V)
        words = out.sequences[:, -logits.shape[1] :]  # (R, T)
        entropy = -(logits.exp() * logits.clamp_min(-1e9)).sum(-1) / np.log(logits.shape[-1])  # (R, T)
        said = logits.gather(2, words[:, :, None]).squeeze(2)  # (R, T)
        end = self.model.generation_config.eos_token_id
        texts = [
            _cut(own, int(end if isinstance(end, int) else end[0]), p.tolist(), e.tolist())
            for own, p, e in zip(words.tolist(), said, entropy, strict=True)
        ]
        return [texts[i * copies : (i + 1) * copies] for i in range(len(ids))]


def load_published(
    key: str, checkpoint: str, *, decoder_only: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A published model and its tokenizer, from this machine alone; weights in float32 whatever they came in.

    Args:
        key: the params key that names it, for the error.
        checkpoint: a folder, or a name in the local Hugging Face cache.
        decoder_only: accept decoder-only models too.

    Raises:
        CheckpointError: it is not there, has no safetensors weights, or is of another kind.
    """
    options = {"local_files_only": True, "use_safetensors": True, "dtype": torch.float32}
    try:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
        try:
            model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint, **options)
        except ValueError:  # its configuration is none of an encoder-decoder
            if not decoder_only:
                raise
            model = AutoModelForCausalLM.from_pretrained(checkpoint, **options)
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{key} = {checkpoint!r} cannot be loaded from this machine ({str(error)[:300]}); "
            "download it beforehand, with safetensors weights, and give its folder"
        ) from error
    return model, tokenizer


def pad_rows(rows: Sequence[NDArray[np.int64]], pad: int) -> tuple[Tensor, Tensor]:
    """Token ids as one tensor (B, L) and its mask (B, L), 1 for tokens."""
    longest = max(map(len, rows))
    ids = np.full((len(rows), longest), pad, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def _cut(ids: list[int], end: int, log_probabilities: list[float], entropies: list[float]) -> Written:
    """What stands before the end."""
    complete = end in ids
    length = ids.index(end) + 1 if complete else len(ids)
    words = tuple(ids[: length - 1] if complete else ids)
    return Written(words, sum(log_probabilities[:length]), max(entropies[:length]), complete)
