"""System 2: a mixture-of-experts reasoner that writes its steps, then the answer; called when System 1 is unsure."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt
from torch import Tensor

from dualmind.models.config import MAX_REASONING_STEPS, ReasonerConfig
from dualmind.models.reasoner import ReasonerForConditionalGeneration
from dualmind.models.text_model import PublishedParams, TextModel, load_published
from dualmind.models.tokenizer import build_tokenizer

ANSWER = "="  # stands between the steps and the answer
_MAX_PLAN_WORDS = 8  # "put alarmclock in sidetable" has four


class ReasonerParams(BaseModel):
    """Our own model; its levels can be turned off one by one, to be compared."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["reasoner"]
    d_model: PositiveInt  # width; a multiple of 2 * num_heads
    d_ff: PositiveInt  # width of one expert, and of the feed-forward layers
    num_heads: PositiveInt
    encoder_layers: PositiveInt
    decoder_layers: PositiveInt
    num_experts: NonNegativeInt  # in every second layer; 0: plain feed-forward layers
    num_slots: PositiveInt  # memory slots of the levels
    reasoning_steps: Annotated[int, Field(ge=1, le=MAX_REASONING_STEPS)]
    validity_cutoff: float  # logit; below it the reasoning level runs again
    concept: bool
    relation: bool
    reasoning: bool
    verification: bool


ModelParams = Annotated[ReasonerParams | PublishedParams, Field(discriminator="kind")]


class System2(TextModel):
    """Writes steps and an answer; where there are commands, writes a plan in words and scores them by it."""

    @classmethod
    def build(cls, params: ModelParams, texts: Iterable[str], seed: int) -> "System2":
        """A new model for training: random weights from ``seed``, or a published checkpoint's.

        Args:
            params: which model.
            texts: training text, for the vocabulary of our own tokenizer.
            seed: of the random weights.

        Raises:
            CheckpointError: the published checkpoint is not on this machine.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            match params:
                case ReasonerParams():
                    tokenizer = build_tokenizer(texts)
                    sizes = params.model_dump(exclude={"kind"})
                    model = ReasonerForConditionalGeneration(ReasonerConfig(vocab_size=len(tokenizer), **sizes))
                    return cls(model, tokenizer)
                case PublishedParams():
                    key = "pretrain.system2.model.checkpoint"
                    return cls(*load_published(key, params.checkpoint, decoder_only=True))

    def plan(self, prompts: Sequence[str]) -> list[str]:
        """What to do next, in words ("search mug")."""
        return [self.text(own[0]) for own in self.write(prompts, max_words=_MAX_PLAN_WORDS)]

    def score(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[Tensor]:
        """Plan, then log-probabilities over each prompt's commands in the light of the plan."""
        plans = self.plan(prompts)
        return super().score([with_plan(p, plan) for p, plan in zip(prompts, plans, strict=True)], candidates)


def with_plan(prompt: str, plan: str) -> str:
    """A prompt that says what is to be done next."""
    return f"{prompt} | plan : {plan}"
