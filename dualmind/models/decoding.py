"""Writing text with our own encoder-decoders: greedy or sampled, batched, with a key-value cache of fixed size.

``generate`` of transformers does the same and more; per word it spends several times what so small a model computes.
A test compares the two, word by word.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dualmind.models.encoder_decoder import CompactForConditionalGeneration, DecoderLayer
from dualmind.models.layers import cover, hide


@dataclass(frozen=True, slots=True)
class Written:
    """One text.

    Attributes:
        ids: its words, without start and end, those given beforehand included.
        log_probability: of what was not given, in nats; of the end too, where there is one.
        entropy: of the least certain word, as a share of the largest possible, 0..1.
        complete: did it end by itself, not by the limit?
        stopped_by: the stop word that ended it; None for the end and the limit.
    """

    ids: tuple[int, ...]
    log_probability: float
    entropy: float
    complete: bool
    stopped_by: int | None = None


class _Caches:
    """Keys and values of all layers for R rows: those of the prompt, and T positions for what is written."""

    def __init__(
        self, model: CompactForConditionalGeneration, memory: Tensor, mask: Tensor, rows: Tensor, length: int
    ) -> None:
        self.layers: list[DecoderLayer] = list(model.layers)  # type: ignore[arg-type]  # a ModuleList of them
        self.bias = hide(cover(mask, memory), memory.dtype)[rows]
        self.read = [tuple(x[rows] for x in layer.cross_attention.keys_values(memory)) for layer in self.layers]
        heads, width = model.config.num_heads, model.config.d_model // model.config.num_heads
        shape = (len(rows), heads, length, width)
        self.written = [(memory.new_empty(shape), memory.new_empty(shape)) for _ in self.layers]

    def keep(self, rows: Tensor) -> None:
        """Go on with some of the rows."""
        self.bias = self.bias[rows]
        self.read = [tuple(x[rows] for x in pair) for pair in self.read]
        self.written = [(keys[rows], values[rows]) for keys, values in self.written]

    def step(self, x: Tensor, position: int) -> Tensor:
        """One word of each row through all layers: (R, 1, D) to (R, 1, D)."""
        for layer, (keys, values), (seen_keys, seen_values) in zip(self.layers, self.written, self.read, strict=True):
            x = x + layer.self_attention.step(layer.norm_self(x), keys, values, position)
            x = x + layer.cross_attention.read(layer.norm_cross(x), seen_keys, seen_values, self.bias)
            x = x + layer.feed_forward(layer.norm_ff(x))
        return x


@torch.inference_mode()
def write(
    model: CompactForConditionalGeneration,
    memory: Tensor,
    mask: Tensor,
    *,
    max_words: int,
    copies: int = 1,
    prefix: Sequence[int] = (),
    stop: frozenset[int] = frozenset(),
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
) -> list[list[Written]]:
    """Write one or several texts for each prompt, all in one batch.

    Args:
        model: whose decoder writes.
        memory: what it reads (B, M, D).
        mask: 1 for what may be read (B, M or less).
        max_words: words at most, those given counted, the end not.
        copies: texts for each prompt; they differ only where they are sampled.
        prefix: words given beforehand, the same for all; at most ``max_words``.
        stop: words that end a text as the end does; those of ``prefix`` do not.
        temperature: 0 takes the likeliest word, else words are drawn from softmax(logits / temperature).
        generator: source of the draws.

    Returns:
        B lists of ``copies`` texts.
    """
    assert len(prefix) <= max_words, f"{len(prefix)} words given, of {max_words} at most"
    rows = torch.arange(len(memory), device=memory.device).repeat_interleave(copies)  # (R,)
    caches = _Caches(model, memory, mask, rows, max_words + 1)
    end, vocab = model.config.eos_token_id, model.config.vocab_size
    ends = torch.tensor(sorted({end, *stop}), device=memory.device)
    ids = memory.new_full((len(rows), max_words + 1), end, dtype=torch.long)
    total, entropy = memory.new_zeros(len(rows)), memory.new_zeros(len(rows))
    word = ids.new_full((len(rows),), model.config.decoder_start_token_id)
    open_rows = torch.arange(len(rows), device=memory.device)  # rows of the caches, as rows of the result
    done = torch.zeros(len(rows), dtype=torch.bool, device=memory.device)  # of the open rows
    for position in range(max_words + 1):
        x = caches.step(model.get_input_embeddings()(word)[:, None], position)
        log_probabilities = model.lm_head(model.norm(x[:, 0])).float().log_softmax(-1)  # (R, V)
        if position < len(prefix):
            word = word.new_full(word.shape, prefix[position])
        else:
            word = _choose(log_probabilities, temperature, generator).masked_fill(done, end)
            said = log_probabilities.gather(1, word[:, None]).squeeze(1)
            total[open_rows] += said.masked_fill(done, 0.0)
            own = -(log_probabilities.exp() * log_probabilities).sum(-1) / math.log(vocab)
            entropy[open_rows] = torch.maximum(entropy[open_rows], own.masked_fill(done, 0.0))
        ids[open_rows, position] = word
        done = torch.isin(word, ends) if position >= len(prefix) else done
        if bool(done.all()):
            break
        if int(done.sum()) * 2 >= len(done):  # half of the rows have ended: go on without them
            keep = (~done).nonzero().squeeze(1)
            caches.keep(keep)
            word, open_rows, done = word[keep], open_rows[keep], done[keep]
    texts = [
        _written(own, len(prefix), {end, *stop}, end, float(log_probability), float(uncertain))
        for own, log_probability, uncertain in zip(ids.tolist(), total, entropy, strict=True)
    ]
    return [texts[i * copies : (i + 1) * copies] for i in range(len(memory))]


def _choose(log_probabilities: Tensor, temperature: float, generator: torch.Generator | None) -> Tensor:
    """The next word of each row (R,)."""
    if temperature == 0.0:
        return log_probabilities.argmax(-1)
    return torch.multinomial((log_probabilities / temperature).softmax(-1), 1, generator=generator).squeeze(1)


def _written(
    ids: list[int], num_given: int, ends: set[int], end: int, log_probability: float, entropy: float
) -> Written:
    """What stands before the first end that was not given; ``ids`` has one position more than the limit."""
    length = next((i for i, word in enumerate(ids) if i >= num_given and word in ends), None)
    if length is None:
        return Written(tuple(ids[:-1]), log_probability, entropy, complete=False)
    stopped_by = None if ids[length] == end else ids[length]
    return Written(tuple(ids[:length]), log_probability, entropy, complete=True, stopped_by=stopped_by)
