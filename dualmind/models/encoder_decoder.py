"""A compact encoder-decoder for two cores: pre-RMSNorm, rotary positions, a convolution stem, plain attention.

What differs from T5, and why: a depthwise convolution on the embeddings, so that a word knows its neighbours before any
attention has been learnt; keys that start equal to queries, so that a word looks for the same word elsewhere from the
first step on; rotary positions in place of learned biases; fused projections; and attention written out, which on a CPU
is three times as fast as the fused kernel at these sizes. With the first two, look-ups are learnt in 200 steps (of 64
questions); without them not in 1,000 (``python -m benchmarks.look_up``). It is a ``transformers`` model: the Auto
classes, ``save_pretrained``, ``from_pretrained`` and ``generate`` work.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, GenerationMixin, PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from dualmind.models.config import CompactConfig
from dualmind.models.experts import MixtureOfExperts
from dualmind.models.layers import CrossAttention, SelfAttention, cover, feed_forward, hide

_STEM_STD = 0.3  # neighbours are heard, the word itself is heard best


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each on a normalised residual stream."""

    def __init__(self, config: CompactConfig, layer: int) -> None:
        super().__init__()
        self.norm_self, self.norm_ff = nn.RMSNorm(config.d_model, 1e-6), nn.RMSNorm(config.d_model, 1e-6)
        self.self_attention = SelfAttention(config, layer)
        self.feed_forward = feed_forward(config, layer)

    def forward(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """(B, L, D) to (B, L, D)."""
        x = x + self.self_attention(self.norm_self(x), bias)
        return x + self.feed_forward(self.norm_ff(x))


class DecoderLayer(nn.Module):
    """Self-attention, attention to the prompt, and feed-forward."""

    def __init__(self, config: CompactConfig, layer: int) -> None:
        super().__init__()
        self.norm_self, self.norm_cross = nn.RMSNorm(config.d_model, 1e-6), nn.RMSNorm(config.d_model, 1e-6)
        self.norm_ff = nn.RMSNorm(config.d_model, 1e-6)
        self.self_attention = SelfAttention(config, layer)
        self.cross_attention = CrossAttention(config, layer)
        self.feed_forward = feed_forward(config, layer)

    def forward(
        self,
        x: Tensor,
        states: Tensor,
        bias: Tensor | None,
        cross_bias: Tensor | None,
        cache: EncoderDecoderCache | None,
    ) -> Tensor:
        """A sequence: x (B, T, D), states (B, L, D) to (B, T, D)."""
        x = x + self.self_attention(self.norm_self(x), bias, cache)
        x = x + self.cross_attention(self.norm_cross(x), states, cross_bias, cache)
        return x + self.feed_forward(self.norm_ff(x))

    def alone(self, x: Tensor, states: Tensor, cross_bias: Tensor | None) -> Tensor:
        """A set of positions that do not see each other: x (B, C, D), states (B, L, D) to (B, C, D)."""
        x = x + self.self_attention.alone(self.norm_self(x))
        x = x + self.cross_attention(self.norm_cross(x), states, cross_bias)
        return x + self.feed_forward(self.norm_ff(x))


class CompactPreTrainedModel(PreTrainedModel):
    """Initialisation, shared by encoder and decoder."""

    config: CompactConfig
    config_class: type[CompactConfig] = CompactConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"

    def _init_weights(self, module: nn.Module) -> None:
        match module:
            case nn.Embedding():
                init.normal_(module.weight, std=module.embedding_dim**-0.5)
            case nn.Linear():
                init.normal_(module.weight, std=module.in_features**-0.5)
            case nn.RMSNorm():
                init.ones_(module.weight)
            case nn.Conv1d():  # the stem adds to each word a little of its neighbours, each place of them otherwise
                init.normal_(module.weight, std=_STEM_STD)
            case MixtureOfExperts():
                init.normal_(module.up, std=module.up.shape[-1] ** -0.5)
                init.normal_(module.down, std=module.down.shape[-1] ** -0.5)


class CompactEncoder(CompactPreTrainedModel):
    """Reads the prompt."""

    def __init__(self, config: CompactConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.stem = nn.Conv1d(
            config.d_model,
            config.d_model,
            config.stem_width,
            padding=config.stem_width // 2,
            groups=config.d_model,
            bias=False,
        )
        self.layers = nn.ModuleList(EncoderLayer(config, i) for i in range(config.encoder_layers))
        self.norm = nn.RMSNorm(config.d_model, 1e-6)
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> BaseModelOutput:
        """Token ids (B, L), mask (B, L) with 1 for words, to states (B, L, D)."""
        x = self.embedding(input_ids)
        bias = None
        if attention_mask is not None:
            bias = hide(attention_mask, x.dtype)
            x = x * attention_mask[..., None].to(x.dtype)  # padding must not reach words through the convolution
        x = x + self.stem(x.transpose(1, 2)).transpose(1, 2)
        for layer in self.layers:
            x = layer(x, bias)
        return BaseModelOutput(last_hidden_state=self.norm(x))


class CompactForConditionalGeneration(CompactPreTrainedModel, GenerationMixin):
    """Encoder and decoder, with a language-model head tied to the embeddings and a head that scores commands."""

    _tied_weights_keys = {"lm_head.weight": "encoder.embedding.weight"}

    def __init__(self, config: CompactConfig) -> None:
        super().__init__(config)
        self.encoder = self.make_encoder(config)
        self.layers = nn.ModuleList(DecoderLayer(config, i) for i in range(config.decoder_layers))
        self.norm = nn.RMSNorm(config.d_model, 1e-6)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.command_head = nn.Linear(config.d_model, 1, bias=False)
        self.post_init()
        _start_keys_as_queries(self)  # transformers initialises only what has weights of its own

    def make_encoder(self, config: CompactConfig) -> CompactEncoder:
        """What reads the prompt."""
        return CompactEncoder(config)

    def get_encoder(self, *_: Any, **__: Any) -> CompactEncoder:
        """The prompt's reader, as ``generate`` wants it."""
        return self.encoder

    def get_input_embeddings(self) -> nn.Embedding:
        """Word embeddings (vocab_size, D), shared with the language-model head."""
        return self.encoder.embedding

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """Replace the word embeddings."""
        self.encoder.embedding = value

    def command_states(self, embeddings: Tensor, states: Tensor, mask: Tensor) -> Tensor:
        """Decode a set of commands that do not see each other.

        Args:
            embeddings: one position a command (B, C, D).
            states: the encoder's output (B, L, D).
            mask: 1 for what may be read (B, L or less: what stands after the prompt may always be read).

        Returns:
            (B, C, D).
        """
        bias = hide(cover(mask, states), states.dtype)
        x = embeddings
        for layer in self.layers:
            assert isinstance(layer, DecoderLayer)
            x = layer.alone(x, states, bias)
        return self.norm(x)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        cache: EncoderDecoderCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        **_: Any,
    ) -> Seq2SeqLMOutput:
        """Next-word logits (B, T, vocab_size); with ``labels`` (B, T; -100 is skipped) also the cross-entropy."""
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask)
        if decoder_input_ids is None:
            assert labels is not None, "give decoder_input_ids or labels"
            decoder_input_ids = self.shift_right(labels)
        if cache is None and use_cache:
            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        states = encoder_outputs[0]
        x = self.encoder.embedding(decoder_input_ids)  # (B, T, D)
        past = cache.get_seq_length() if cache is not None else 0
        bias = _causal(x.shape[1], past, x) if x.shape[1] > 1 else None
        cross_bias = hide(cover(attention_mask, states), x.dtype) if attention_mask is not None else None
        for layer in self.layers:
            x = layer(x, states, bias, cross_bias, cache)
        logits = self.lm_head(self.norm(x))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        return Seq2SeqLMOutput(loss=loss, logits=logits, cache=cache, encoder_last_hidden_state=states)

    def shift_right(self, labels: Tensor) -> Tensor:
        """Decoder inputs for teacher forcing: the start token, then all labels but the last."""
        start = labels.new_full((labels.shape[0], 1), self.config.decoder_start_token_id)
        return torch.cat((start, labels[:, :-1].masked_fill(labels[:, :-1] == -100, self.config.pad_token_id)), dim=1)


@torch.no_grad()
def _start_keys_as_queries(model: nn.Module) -> None:
    """Random projections that are equal keep which words are alike; weights that are loaded come later."""
    for module in model.modules():
        match module:
            case SelfAttention():
                queries, keys, _ = module.qkv.weight.chunk(3)
                keys.copy_(queries)
            case CrossAttention():
                module.kv.weight.chunk(2)[0].copy_(module.q.weight)


def _causal(length: int, past: int, like: Tensor) -> Tensor:
    """Bias (length, past + length) that hides later positions."""
    hidden = torch.ones(length, past + length, dtype=torch.bool, device=like.device).triu(past + 1)
    return torch.zeros_like(hidden, dtype=like.dtype).masked_fill(hidden, torch.finfo(like.dtype).min)


AutoConfig.register(CompactConfig.model_type, CompactConfig)
AutoModel.register(CompactConfig, CompactEncoder)
AutoModelForSeq2SeqLM.register(CompactConfig, CompactForConditionalGeneration)
