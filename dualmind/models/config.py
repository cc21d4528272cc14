"""Configurations of our two encoder-decoders: System 1's, and System 2's with experts and levels."""

from typing import Any

from transformers import PreTrainedConfig


class CompactConfig(PreTrainedConfig):
    """Sizes of :class:`~dualmind.models.encoder_decoder.CompactForConditionalGeneration`.

    Args:
        vocab_size: number of words.
        d_model: width of the residual stream; a multiple of ``2 * num_heads`` (rotary positions turn pairs).
        d_ff: width of the feed-forward layers.
        num_heads: attention heads.
        encoder_layers: layers that read the prompt.
        decoder_layers: layers that score commands and write answers.
        rope_base: base of the rotary angles (Su et al. 2021, Eq. 15); small, since prompts have some hundred words.
        stem_width: width of the depthwise convolution on the prompt's embeddings, in words; odd. Seven holds a fact of
            four words ("red key opens blue") from either of its ends.
        num_experts: experts in every second layer; 0 for none.
    """

    model_type = "dualmind-compact"
    attribute_map = {
        "hidden_size": "d_model",
        "num_hidden_layers": "decoder_layers",
        "num_attention_heads": "num_heads",
    }
    keys_to_ignore_at_inference = ["cache"]

    def __init__(
        self,
        vocab_size: int = 512,
        d_model: int = 64,
        d_ff: int = 192,
        num_heads: int = 4,
        encoder_layers: int = 2,
        decoder_layers: int = 1,
        rope_base: float = 100.0,
        stem_width: int = 7,
        num_experts: int = 0,
        pad_token_id: int = 0,
        bos_token_id: int = 1,
        eos_token_id: int = 2,
        decoder_start_token_id: int = 1,
        is_encoder_decoder: bool = True,
        tie_word_embeddings: bool = True,
        use_cache: bool = True,
        **kwargs: object,
    ) -> None:
        if d_model % (2 * num_heads) or stem_width % 2 == 0:
            raise ValueError(
                f"d_model = {d_model} must be a multiple of twice num_heads = {num_heads}, "
                f"and stem_width = {stem_width} must be odd"
            )
        self.vocab_size, self.d_model, self.d_ff, self.num_heads = vocab_size, d_model, d_ff, num_heads
        self.encoder_layers, self.decoder_layers = encoder_layers, decoder_layers
        self.rope_base, self.stem_width, self.use_cache = rope_base, stem_width, use_cache
        self.num_experts = num_experts
        super().__init__(
            pad_token_id=pad_token_id,
            bos_token_id=bos_token_id,
            eos_token_id=eos_token_id,
            decoder_start_token_id=decoder_start_token_id,
            is_encoder_decoder=is_encoder_decoder,
            tie_word_embeddings=tie_word_embeddings,
            **kwargs,
        )


MAX_REASONING_STEPS = 7


class ReasonerConfig(CompactConfig):
    """Sizes of :class:`~dualmind.models.reasoner.ReasonerForConditionalGeneration`, and which levels it has.

    Args:
        num_slots: memory slots that the levels keep.
        reasoning_steps: steps of the reasoning level at most, in 1..7.
        validity_cutoff: logit of validity below which the reasoning level runs again.
        concept: read the input into the slots?
        relation: let the slots attend to each other?
        reasoning: update the slots step by step?
        verification: judge the conclusion?
        kwargs: as for :class:`CompactConfig`.
    """

    model_type = "dualmind-reasoner"

    def __init__(
        self,
        num_slots: int = 4,
        reasoning_steps: int = MAX_REASONING_STEPS,
        validity_cutoff: float = 0.0,
        concept: bool = True,
        relation: bool = True,
        reasoning: bool = True,
        verification: bool = True,
        **kwargs: Any,
    ) -> None:
        if not 1 <= reasoning_steps <= MAX_REASONING_STEPS or num_slots < 1:
            raise ValueError(
                f"reasoning_steps = {reasoning_steps} must be in 1..{MAX_REASONING_STEPS}, "
                f"and num_slots = {num_slots} at least 1"
            )
        self.num_slots, self.reasoning_steps, self.validity_cutoff = num_slots, reasoning_steps, validity_cutoff
        self.concept, self.relation, self.reasoning, self.verification = concept, relation, reasoning, verification
        super().__init__(**kwargs)
