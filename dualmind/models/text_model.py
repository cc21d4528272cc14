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
from dualmind.models.scoring import CommandScorer, ScoringBatch, collate, pad_rows
from dualmind.models.tokenizer import WordIds

MAX_ANSWER_WORDS = 16  # of an answer without steps, by either system


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
        prefix: str = "",
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        generator: torch.Generator | None = None,
        max_steps: int | None = None,
    ) -> list[list[Written]]:
        """Write ``copies`` texts for each prompt, all prompts in one batch.

        Args:
            prompts: what is read.
            max_words: words at most.
            copies: texts a prompt.
            prefix: text given beforehand, the same for all.
            stop: words, each one token, that end a text as the end does.
            temperature: 0 takes the likeliest word, else words are drawn.
            generator: source of the draws.
            max_steps: steps of the reasoning level at most, where the model has one.

        Raises:
            CheckpointError: a stop word is several tokens of a published model.
        """
        ids, mask = pad_rows(self.prompt_ids(prompts), self.pad_id)
        ids, mask = ids.to(self.model.device), mask.to(self.model.device)
        if not isinstance(self.model, CompactForConditionalGeneration):
            return self._generate(ids, mask, max_words, copies, prefix, stop, temperature, generator)
        return self.write_from(
            self._memory(ids, mask, max_steps), ids, mask, max_words=max_words, copies=copies, prefix=prefix,
            stop=stop, temperature=temperature, generator=generator,
        )  # fmt: skip

    def write_from(
        self,
        memory: Tensor,
        ids: Tensor,
        mask: Tensor,
        *,
        max_words: int,
        copies: int = 1,
        prefix: str = "",
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> list[list[Written]]:
        """:meth:`write` where the prompts (B, L) were read before: ``memory`` (B, M, D) is what the decoder reads."""
        if not isinstance(self.model, CompactForConditionalGeneration):
            return self._generate(ids, mask, max_words, copies, prefix, stop, temperature, generator)
        return decoding.write(
            self.model, memory, mask, max_words=max_words, copies=copies, prefix=self.command_ids([prefix])[0],
            stop=self._stop_ids(stop), temperature=temperature, generator=generator,
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

    def _stop_ids(self, words: Sequence[str]) -> frozenset[int]:
        """Ids of stop words; those that the tokenizer does not know cannot be written, so they stop nothing."""
        rows = self.command_ids(words) if words else []
        for word, ids in zip(words, rows, strict=True):
            if len(ids) != 1:
                raise CheckpointError(
                    f"{word!r} is {len(ids)} tokens of this model's tokenizer, but a text is stopped by single tokens; "
                    "add the word to the tokenizer, or let the model write whole chains"
                )
        return frozenset(ids[0] for ids in rows if ids[0] != self.tokenizer.unk_token_id)

    def _generate(
        self,
        ids: Tensor,
        mask: Tensor,
        max_words: int,
        copies: int,
        prefix: str,
        stop: Sequence[str],
        temperature: float,
        generator: torch.Generator | None,
    ) -> list[list[Written]]:
        """The same with a published model, by transformers' own loop."""
        config = self.model.generation_config
        given = list(self.command_ids([prefix])[0])
        first_end = int(config.eos_token_id if isinstance(config.eos_token_id, int) else config.eos_token_id[0])
        ends = [first_end, *sorted(self._stop_ids(stop))]
        sampling = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
        inputs = {"input_ids": ids, "attention_mask": mask}
        told = ids.new_tensor(given).expand(len(ids), -1)  # (B, P)
        if given and self.model.config.is_encoder_decoder:
            start = ids.new_full((len(ids), 1), config.decoder_start_token_id)
            inputs["decoder_input_ids"] = torch.cat((start, told), 1)
        elif given:
            inputs = {"input_ids": torch.cat((ids, told), 1), "attention_mask": torch.cat((mask, told * 0 + 1), 1)}
        with torch.random.fork_rng(
            enabled=generator is not None
        ):  # it takes no generator, and draws from the global one
            if generator is not None:
                torch.manual_seed(int(torch.randint(2**62, (1,), generator=generator, device=generator.device)))
            out = self.model.generate(
                **inputs, max_new_tokens=max_words + 1 - len(given), num_return_sequences=copies, eos_token_id=ends,
                output_scores=True, return_dict_in_generate=True, num_beams=1, **sampling,
            )  # fmt: skip
        logits = torch.stack(out.scores, 1).float().log_softmax(-1)  # (R, T, V)
        words = out.sequences[:, -logits.shape[1] :]  # (R, T)
        entropy = -(logits.exp() * logits.clamp_min(-1e9)).sum(-1) / np.log(logits.shape[-1])  # (R, T)
        said = logits.gather(2, words[:, :, None]).squeeze(2)  # (R, T)
        texts = [
            _cut(given, own, ends, p.tolist(), e.tolist())
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
        CheckpointError: it is not there, has no safetensors weights, is damaged, or is of another kind.
    """
    options = {"local_files_only": True, "use_safetensors": True, "dtype": torch.float32, "output_loading_info": True}
    remedy = "download it beforehand, whole and with safetensors weights, and give its folder"
    try:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
        try:
            model, found = AutoModelForSeq2SeqLM.from_pretrained(checkpoint, **options)
        except ValueError:  # its configuration is none of an encoder-decoder
            if not decoder_only:
                raise
            model, found = AutoModelForCausalLM.from_pretrained(checkpoint, **options)
    except Exception as error:  # what a wrong value raises depends on the model's own code
        raise CheckpointError(
            f"{key} = {checkpoint!r} cannot be loaded from this machine ({error!r:.400}); {remedy}"
        ) from error
    if missing := sorted(found["missing_keys"]):  # transformers would draw them anew, and say so in its log alone
        raise CheckpointError(f"{key} = {checkpoint!r} lacks the weights {', '.join(missing[:8])}; {remedy}")
    if tokenizer.pad_token_id is None:
        raise CheckpointError(
            f"{key} = {checkpoint!r} has a tokenizer without padding; name its pad_token, and give its folder"
        )
    return model, tokenizer


def _cut(
    given: list[int], ids: list[int], ends: Sequence[int], log_probabilities: list[float], entropies: list[float]
) -> Written:
    """What was given, and what stands before the first of ``ends``, whose first is the end and the rest stop words."""
    length = next((i for i, word in enumerate(ids) if word in ends), None)
    if length is None:  # the last word is beyond the limit: it was looked at for an end only
        return Written(
            (*given, *ids[:-1]), sum(log_probabilities[:-1]), max(entropies[:-1], default=0.0), complete=False
        )
    said = slice(length + 1)  # the end too
    return Written(
        (*given, *ids[:length]), sum(log_probabilities[said]), max(entropies[said]), complete=True,
        stopped_by=None if ids[length] == ends[0] else ids[length],
    )  # fmt: skip
