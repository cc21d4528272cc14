"""Configuration of the compact encoder-decoder."""

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
        stem_width: width of the depthwise convolution on the prompt's embeddings, in words; odd.
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
        stem_width: int = 3,
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
        super().__init__(
            pad_token_id=pad_token_id,
            bos_token_id=bos_token_id,
            eos_token_id=eos_token_id,
            decoder_start_token_id=decoder_start_token_id,
            is_encoder_decoder=is_encoder_decoder,
            tie_word_embeddings=tie_word_embeddings,
            **kwargs,
        )
