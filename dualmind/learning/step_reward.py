"""A reward for each step of a chain of thought: a small head on what System 2 has in mind as it has written the step.

A process reward (Lightman et al. 2023): steps that a checker calls right or wrong teach a logistic head, which then
judges steps that no checker can. The head reads one model's states, so it is kept in step with that model: after each
change of the model it is fitted anew, and how far its scores moved is measured.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt, TypeAdapter, ValidationError
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput

from dualmind.data.problems import read_problems
from dualmind.data.validation import ValidatedDataset
from dualmind.domains.base import Split
from dualmind.domains.reasoning.domain import as_prompt
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.question import Question, number_steps, parse_output
from dualmind.errors import LearningError
from dualmind.learning.skipped import Skipped
from dualmind.models.encoder_decoder import CompactForConditionalGeneration
from dualmind.models.reasoner import ReasonerForConditionalGeneration
from dualmind.models.scoring import pad_rows
from dualmind.models.system2 import MAX_RATIONALE_WORDS, System2

Floats = NDArray[np.float64]
Check = Callable[[Sequence[str]], bool]  # is the last of these steps right, given those before it?
_BATCH = 64


class StepRewardParams(BaseModel):
    """From what steps the head learns."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    questions: PositiveInt  # of train, of which System 2 writes chains
    copies: PositiveInt  # chains a question
    temperature: PositiveFloat  # of the draws: wrong steps are needed too
    ridge: PositiveFloat  # weight of half the squared norm of the head, a decision
    judged_questions: PositiveInt  # of valid_train
    drift_alarm: PositiveFloat  # distance of two score distributions, in standard deviations, that is reported


@dataclass(frozen=True, slots=True)
class CheckedSteps:
    """Steps of a prompt, with what a checker says of the last one."""

    prompt: str
    steps: tuple[str, ...]  # at least one
    right: bool


@dataclass(frozen=True, slots=True)
class StepReward:
    """A logistic head on D states and three figures; ``digest`` is of the System 2 whose states it reads."""

    weights: Floats  # (D + 3,)
    bias: float
    digest: str

    def score(self, system2: System2, prompts: Sequence[str], chains: Sequence[Sequence[str]]) -> Floats:
        """Probability that the last step of each chain is right (N,)."""
        found: Floats = expit(readings(system2, prompts, chains) @ self.weights + self.bias)
        return found

    def function(self, system2: System2) -> Callable[[str, Sequence[Sequence[str]]], list[float]]:
        """For :class:`~dualmind.agent.stepwise.FunctionScorer`: scores several chains of one prompt."""
        return lambda prompt, chains: self.score(system2, [prompt] * len(chains), chains).tolist()

    def to_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return {"weights": self.weights.tolist(), "bias": self.bias, "digest": self.digest}

    @classmethod
    def load(cls, path: Path, digest: str | None = None) -> "StepReward | Skipped":
        """Read what :meth:`to_dict` gave.

        Args:
            path: the file.
            digest: of the System 2 that it is to be used with; None where that is not asked.

        Returns:
            The reward, or the reason why there was none to write.

        Raises:
            LearningError: the file is missing or damaged, or belongs to another System 2.
        """
        try:
            found = _FILE.validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise LearningError(f"{path} holds no step reward ({error}); run `dvc repro reward`") from error
        if isinstance(found, Skipped):
            return found
        if digest is not None and found.digest != digest:
            raise LearningError(
                f"{path} was fitted to System 2 {found.digest[:12]}, not to {digest[:12]}: its states mean something "
                "else there; run `dvc repro` so that it is fitted anew"
            )
        return cls(np.array(found.weights), found.bias, found.digest)


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: list[float]
    bias: float
    digest: str


_FILE: TypeAdapter[_File | Skipped] = TypeAdapter(_File | Skipped)


def questions_of(problems: ValidatedDataset, split: Split, held_back: Collection[str]) -> list[Question]:
    """Questions of a split, but none of the kinds held back ("reasoning/boolean"): they are taught later.

    Raises:
        ReceiptMismatch: the data changed since they were validated.
    """
    rows = read_problems(problems, split)
    return [Question.from_json(row.payload) for row in rows if f"{row.domain}/{row.task_type}" not in held_back]


def checked_steps(
    system2: System2, params: StepRewardParams, questions: Sequence[Question], seed: int
) -> list[CheckedSteps]:
    """Steps that System 2 writes for questions, each checked by its family."""
    families = {family.name: family for family in FAMILIES}
    checks = [partial(families[question.family].check, question) for question in questions]
    prompts = [as_prompt(question.text) for question in questions]
    return sample_checked(system2, prompts, checks, copies=params.copies, temperature=params.temperature, seed=seed)


def sample_checked(
    system2: System2, prompts: Sequence[str], checks: Sequence[Check], *, copies: int, temperature: float, seed: int
) -> list[CheckedSteps]:
    """Steps that System 2 writes, each checked up to the first wrong one of its chain.

    Args:
        system2: writes.
        prompts: what is asked.
        checks: the checker of each prompt.
        copies: chains a prompt.
        temperature: of the draws.
        seed: of the draws.
    """
    generator = torch.Generator().manual_seed(seed)
    found: dict[tuple[str, tuple[str, ...]], CheckedSteps] = {}
    for start in range(0, len(prompts), _BATCH):
        batch = prompts[start : start + _BATCH]
        rows = system2.write(
            batch, max_words=MAX_RATIONALE_WORDS, copies=copies, temperature=temperature, generator=generator
        )
        for prompt, check, row in zip(batch, checks[start : start + _BATCH], rows, strict=True):
            for written in row:
                steps = parse_output(system2.text(written))[0]
                for end in range(1, len(steps) + 1):
                    own = CheckedSteps(prompt, steps[:end], check(steps[:end]))
                    found[prompt, own.steps] = own
                    if not own.right:
                        break
    return list(found.values())


def fit(system2: System2, digest: str, steps: Sequence[CheckedSteps], ridge: float) -> StepReward | Skipped:
    """A head on the states of ``system2``; the reason where there is none: all steps are right, or all wrong."""
    right = np.array([own.right for own in steps], dtype=bool)
    if not len(steps) or right.all() or not right.any():
        kind = "right" if len(steps) and right.all() else "wrong"
        return Skipped(
            f"all {len(steps)} checked steps are {kind}: a step reward needs both; change step.temperature, "
            "step.questions, or how long System 2 is cloned"
        )
    x = readings(system2, [own.prompt for own in steps], [own.steps for own in steps])
    mean, scale = x.mean(0), np.where(x.std(0) > 0, x.std(0), 1.0)
    head = LogisticRegression(C=1 / (ridge * len(steps)), max_iter=500)
    head.fit((x - mean) / scale, right)
    weights = head.coef_[0] / scale
    return StepReward(weights, float(head.intercept_[0] - mean @ weights), digest)


def judge_steps(reward: StepReward, system2: System2, steps: Sequence[CheckedSteps]) -> dict[str, float | None]:
    """How well a reward tells right steps from wrong ones; None where all are alike.

    ``auc`` is the share of pairs of a right and a wrong step that are ordered rightly, and ``auc_log_probability`` that
    of ordering them by what System 2 itself thinks of the step.
    """
    prompts, chains = [own.prompt for own in steps], [own.steps for own in steps]
    if not steps:
        return {"steps": 0, "right": None, "accuracy": None, "auc": None, "auc_log_probability": None}
    right = np.array([own.right for own in steps], dtype=bool)
    known = bool(right.any() and not right.all())
    scores = reward.score(system2, prompts, chains)
    likely = readings(system2, prompts, chains)[:, -3]
    return {
        "steps": len(steps),
        "right": float(right.mean()),
        "accuracy": float(((scores >= 0.5) == right).mean()),
        "auc": float(roc_auc_score(right, scores)) if known else None,
        "auc_log_probability": float(roc_auc_score(right, likely)) if known else None,
    }


@torch.inference_mode()
def readings(system2: System2, prompts: Sequence[str], chains: Sequence[Sequence[str]]) -> Floats:
    """What System 2 has in mind at the end of each chain's last step (N, D + 3).

    The decoder's state there (D), the log-probability of the step's words, that of the least likely one, and the
    number of steps.

    Raises:
        LearningError: System 2 is a published model, whose states this head does not read.
    """
    model = system2.model
    if not isinstance(model, CompactForConditionalGeneration):
        raise LearningError(
            "a step reward reads the states of our own System 2; set pretrain.system2.model.kind to reasoner"
        )
    found = np.zeros((len(prompts), model.config.d_model + 3))
    texts = [" ".join(number_steps(steps)) for steps in chains]
    order = np.argsort([len(text) for text in texts], kind="stable")
    for start in range(0, len(order), _BATCH):
        own = order[start : start + _BATCH]
        words = [np.asarray(ids, np.int64) for ids in system2.command_ids([texts[i] for i in own])]
        last = [len(system2.command_ids([f"#{len(chains[i])} {chains[i][-1]}"])[0]) for i in own]
        states, said = _decode(system2, [prompts[i] for i in own], words)
        for row, i in enumerate(own):
            end, step = len(words[row]), said[row, len(words[row]) - last[row] : len(words[row])]
            figures = [float(step.sum()), float(step.min()), float(len(chains[i]))]
            found[i] = np.concatenate([states[row, end].numpy().astype(np.float64), figures])
    return found


def _decode(system2: System2, prompts: Sequence[str], words: Sequence[NDArray[np.int64]]) -> tuple[Tensor, Tensor]:
    """States after each word (B, T + 1, D), the first before any, and log-probabilities of the words (B, T)."""
    model = system2.model
    assert isinstance(model, CompactForConditionalGeneration)
    ids, mask = pad_rows(system2.prompt_ids(prompts), system2.pad_id)
    thought = model.encoder.think(ids, mask) if isinstance(model, ReasonerForConditionalGeneration) else None
    memory = model.encoder(ids, mask)[0] if thought is None else thought.memory
    text, _ = pad_rows(words, system2.pad_id)
    start = text.new_full((len(text), 1), model.config.decoder_start_token_id)
    kept: list[Tensor] = []
    hook = model.lm_head.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0]))
    try:
        logits = model(
            decoder_input_ids=torch.cat((start, text), 1),
            encoder_outputs=BaseModelOutput(last_hidden_state=memory),
            attention_mask=mask,
        ).logits
    finally:
        hook.remove()
    said = logits[:, :-1].log_softmax(-1).gather(2, text[:, :, None]).squeeze(2)
    return kept[0], said
