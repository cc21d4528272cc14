"""System 2's model: the encoder-decoder with experts, and four levels of attention between reading and writing."""

from typing import Any

from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSeq2SeqLM
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput

from dualmind.models.config import CompactConfig, ReasonerConfig
from dualmind.models.encoder_decoder import CompactEncoder, CompactForConditionalGeneration
from dualmind.models.levels import Levels, Thought


class ReasonerEncoder(CompactEncoder):
    """Reads the prompt and thinks about it: its output is the words' states followed by the memory slots."""

    config: ReasonerConfig
    config_class = ReasonerConfig

    def __init__(self, config: ReasonerConfig) -> None:
        super().__init__(config)
        self.levels = Levels(config, self.embedding) if has_levels(config) else None
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        _init_levels(module)

    def think(
        self, input_ids: Tensor, attention_mask: Tensor, max_steps: int | None = None, *, early_stop: bool = True
    ) -> Thought | None:
        """All that the levels made of the prompt, or None where they are all off.

        Args:
            input_ids: token ids (B, L).
            attention_mask: 1 for words (B, L).
            max_steps: reasoning steps at most; the configuration's if None.
            early_stop: see :meth:`dualmind.models.levels.Levels.forward`.
        """
        if self.levels is None:
            return None
        states = super().forward(input_ids, attention_mask)[0]
        most = self.config.reasoning_steps if max_steps is None else min(max_steps, self.config.reasoning_steps)
        thought: Thought = self.levels(states, attention_mask, most, early_stop=early_stop)
        return thought

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> BaseModelOutput:
        """Token ids (B, L) to the memory that the decoder reads (B, L + K, D)."""
        mask = input_ids.new_ones(input_ids.shape) if attention_mask is None else attention_mask
        thought = self.think(input_ids, mask)
        if thought is None:
            return super().forward(input_ids, mask)
        return BaseModelOutput(last_hidden_state=thought.memory)


class ReasonerForConditionalGeneration(CompactForConditionalGeneration):
    """The encoder-decoder of System 2."""

    config: ReasonerConfig
    config_class = ReasonerConfig
    encoder: ReasonerEncoder

    def make_encoder(self, config: CompactConfig) -> ReasonerEncoder:
        """What reads the prompt and thinks about it."""
        assert isinstance(config, ReasonerConfig)
        return ReasonerEncoder(config)

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        _init_levels(module)


def has_levels(config: ReasonerConfig) -> bool:
    """Is any level on?"""
    return config.concept or config.relation or config.reasoning or config.verification


def _init_levels(module: nn.Module) -> None:
    if isinstance(module, Levels):
        init.normal_(module.slots, std=module.slots.shape[-1] ** -0.5)
        init.zeros_(module.halt.bias)
        init.zeros_(module.valid.bias)


AutoConfig.register(ReasonerConfig.model_type, ReasonerConfig)
AutoModelForSeq2SeqLM.register(ReasonerConfig, ReasonerForConditionalGeneration)
