"""System 2: a mixture-of-experts reasoner that writes its steps, then the answer; called when System 1 is unsure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt
from torch import Tensor

from dualmind.models.config import MAX_REASONING_STEPS, ReasonerConfig
from dualmind.models.reasoner import ReasonerForConditionalGeneration
from dualmind.models.text_model import MAX_ANSWER_WORDS, PublishedParams, TextModel, load_published
from dualmind.models.tokenizer import build_tokenizer

ANSWER = "="  # stands between the steps and the answer
MAX_RATIONALE_WORDS = 96
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


@dataclass(frozen=True, slots=True)
class Thinking:
    """What System 2 says."""

    steps: tuple[str, ...]  # "#1 ...", "#2 ...", or its plan
    answer: str
    log_probability: float  # of the whole text, or of the command, in nats
    num_words: int  # that it wrote

    @classmethod
    def of(cls, text: str, log_probability: float, num_words: int) -> "Thinking":
        """Steps and answer of a text: ``#1 v1 #2 v2 = answer``; where there is no "=", all of it is the answer."""
        body, _, answer = text.rpartition(ANSWER)
        steps = tuple(f"#{step.strip()}" for step in body.split("#") if step.strip())
        return cls(steps, answer.strip(), log_probability, num_words)


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

    def answer(self, prompts: Sequence[str], *, max_steps: int | None = None, direct: bool = False) -> list[Thinking]:
        """Answer each prompt in words.

        Args:
            prompts: what is asked.
            max_steps: steps of the reasoning level at most.
            direct: answer without writing steps.
        """
        words, prefix = (MAX_ANSWER_WORDS, ANSWER) if direct else (MAX_RATIONALE_WORDS, "")
        written = self.write(prompts, max_words=words, prefix=prefix, max_steps=max_steps)
        return [Thinking.of(self.text(own[0]), own[0].log_probability, len(own[0].ids)) for own in written]

    def choose(
        self, prompts: Sequence[str], candidates: Sequence[Sequence[str]], *, max_steps: int | None = None
    ) -> list[Thinking]:
        """Plan, then the best of each prompt's commands in the light of the plan."""
        plans = self.plan(prompts, max_steps=max_steps)
        scores = TextModel.score(self, [with_plan(p, plan) for p, plan in zip(prompts, plans, strict=True)], candidates)
        return [
            Thinking((plan,), own[int(score.argmax())], float(score.max()), len(plan.split()))
            for plan, own, score in zip(plans, candidates, scores, strict=True)
        ]

    def plan(self, prompts: Sequence[str], *, max_steps: int | None = None) -> list[str]:
        """What to do next, in words ("search mug")."""
        return [self.text(own[0]) for own in self.write(prompts, max_words=_MAX_PLAN_WORDS, max_steps=max_steps)]

    def score(self, prompts: Sequence[str], candidates: Sequence[Sequence[str]]) -> list[Tensor]:
        """Plan, then log-probabilities over each prompt's commands in the light of the plan."""
        plans = self.plan(prompts)
        return super().score([with_plan(p, plan) for p, plan in zip(prompts, plans, strict=True)], candidates)


def with_plan(prompt: str, plan: str) -> str:
    """A prompt that says what is to be done next."""
    return f"{prompt} | plan : {plan}"
