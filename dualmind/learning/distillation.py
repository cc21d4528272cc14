"""System 2 teaches System 1: the answer that it reaches by steps becomes one that is given at once.

Soft targets are the teacher's distribution at a temperature, hard targets the right answer (Hinton et al. 2015). On
texts that the student samples itself, the teacher scores every word (on-policy distillation, Agarwal et al. 2024): the
student is corrected where it really goes wrong. The teacher teaches only what it gets right itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from dualmind.data.decisions import DecisionRow
from dualmind.errors import DistillationError
from dualmind.learning.batching import batches
from dualmind.learning.writing import IGNORED
from dualmind.models.scoring import HIDDEN, pad_rows
from dualmind.models.system1 import System1
from dualmind.models.system2 import ANSWER, MAX_RATIONALE_WORDS, System2, Thinking
from dualmind.models.text_model import MAX_ANSWER_WORDS, TextModel
from dualmind.progress import Progress

_BATCH = 128  # prompts that the teacher reads at a time
_EVERY = 10  # steps between points of the learning curve


class DistillationParams(BaseModel):
    """How System 1 is taught."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: PositiveInt  # optimiser steps
    batch_size: PositiveInt  # decisions of each kind a step
    lr: PositiveFloat  # peak rate of AdamW
    gradient_clip: PositiveFloat  # largest norm of the gradient
    temperature: PositiveFloat  # T; divides the logits of both
    # of the teacher's distribution over words, the rest is of the right answer; at 0 the vocabularies may differ
    soft_weight: Annotated[float, Field(ge=0, le=1)]
    on_policy: Annotated[float, Field(ge=0, le=1)]  # share of the steps in which the student's own texts are scored
    sampling_temperature: PositiveFloat  # of those texts


@dataclass(frozen=True, slots=True)
class DistillationReport:
    """What was taught."""

    curve: list[dict[str, float]]  # step, and the mean of each loss over the last steps, nats
    offered: int  # decisions that the teacher was asked
    taught: int  # those that it got right


@dataclass(frozen=True, slots=True)
class Lesson:
    """A decision that the teacher gets right.

    Attributes:
        row: the decision.
        steps: ids of what the teacher wrote before its answer, the mark of the answer included; of questions.
        scores: the teacher's log-probabilities over the commands (C,); of decisions with commands.
    """

    row: DecisionRow
    steps: tuple[int, ...]
    scores: Tensor | None


def check_vocabulary(teacher: PreTrainedTokenizerBase, student: PreTrainedTokenizerBase) -> None:
    """Do both give every word the same id?

    Raises:
        DistillationError: they do not; soft targets would teach other words.
    """
    ours, theirs = student.get_vocab(), teacher.get_vocab()
    if ours == theirs:
        return
    if ours.keys() == theirs.keys():
        word = min(word for word in ours if ours[word] != theirs[word])
        problem = f"the same {len(ours)} words in another order ({word!r} is {theirs[word]} and {ours[word]})"
    else:
        word = min(ours.keys() ^ theirs.keys())
        problem = f"{len(theirs)} and {len(ours)} words ({word!r} is known to one of them only)"
    raise DistillationError(f"teacher and student have other vocabularies: {problem}; train both on the same decisions")


def soft_loss(student: Tensor, teacher: Tensor, temperature: float, mask: Tensor) -> Tensor:
    """``T^2 KL(teacher || student)`` at temperature T (Hinton et al. 2015, section 2), a mean over masked positions.

    T^2 keeps the size of the gradient, which falls with 1 / T^2, that of the hard targets.

    Args:
        student: logits (..., V).
        teacher: logits (..., V).
        temperature: T > 0.
        mask: True for positions that count (...).
    """
    said = (student.float() / temperature).log_softmax(-1)
    wanted = (teacher.float() / temperature).log_softmax(-1)
    each = F.kl_div(said, wanted, reduction="none", log_target=True).sum(-1)  # (...)
    return temperature**2 * (each * mask).sum() / mask.sum().clamp_min(1)


@torch.inference_mode()
def ask(teacher: System2, rows: Sequence[DecisionRow]) -> list[Lesson]:
    """The decisions that the teacher gets right, with what it made of them."""
    mark = teacher.command_ids([ANSWER])[0][0]
    lessons: list[Lesson] = []
    progress = Progress("asking System 2", len(rows))
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        choices, questions = [row for row in batch if row.candidates], [row for row in batch if not row.candidates]
        if choices:
            scores = teacher.score([row.prompt for row in choices], [row.candidates for row in choices])
            lessons += [
                Lesson(row, (), own.clone())
                for row, own in zip(choices, scores, strict=True)
                if row.candidates[int(own.argmax())] == row.target
            ]
        if questions:
            written = teacher.write([row.prompt for row in questions], max_words=MAX_RATIONALE_WORDS)
            for row, (own, *_) in zip(questions, written, strict=True):
                answer = Thinking.of(teacher.text(own), own.log_probability, len(own.ids)).answer
                if answer == row.target and mark in own.ids:
                    last = len(own.ids) - own.ids[::-1].index(mark)
                    lessons.append(Lesson(row, own.ids[:last], None))
        progress.update(min(start + _BATCH, len(rows)))
    return lessons


def distill(
    teacher: System2, student: System1, rows: Sequence[DecisionRow], params: DistillationParams, *, seed: int
) -> DistillationReport:
    """Train ``student`` in place on what ``teacher`` gets right.

    Args:
        teacher: is not changed.
        student: with the teacher's vocabulary.
        rows: decisions with commands, questions, or both.
        params: how.
        seed: of the order, of sampled texts and of a published student's dropout.

    Raises:
        DistillationError: the vocabularies differ though words are weighed softly, or the teacher gets nothing right.
    """
    if params.soft_weight:
        check_vocabulary(teacher.tokenizer, student.tokenizer)
    lessons = ask(teacher, rows)
    if not lessons:
        raise DistillationError(f"System 2 gets none of {len(rows)} decisions right, so it can teach nothing; train it")
    draw = _Lessons(lessons, params, seed)
    generator = torch.Generator(device=student.model.device).manual_seed(seed)
    optimizer = torch.optim.AdamW(student.model.parameters(), lr=params.lr, weight_decay=0.0)
    progress = Progress("distilling", params.steps)
    curve: list[dict[str, float]] = []
    recent: list[dict[str, float]] = []
    with torch.random.fork_rng():  # published checkpoints drop out by the global generator
        torch.manual_seed(seed)
        for step in range(params.steps):
            student.scorer.train()
            optimizer.param_groups[0]["lr"] = params.lr * (1 - step / params.steps)
            choices, questions, own_texts = draw.next()
            losses: dict[str, Tensor] = {}
            if choices:
                losses |= _choice_losses(student, choices, params)
            if questions:
                losses |= _answer_losses(teacher, student, questions, params, generator if own_texts else None)
            loss = torch.stack(list(losses.values())).sum()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(student.model.parameters(), params.gradient_clip)
            optimizer.step()
            recent.append({name: float(value.detach()) for name, value in losses.items()})
            if (step + 1) % _EVERY == 0 or step + 1 == params.steps:
                curve.append({"step": step + 1, **_means(recent)})
                recent.clear()
                progress.update(step + 1, f"loss {float(loss.detach()):.3f}")
    student.scorer.eval()
    return DistillationReport(curve, len(rows), len(lessons))


class _Lessons:
    """Batches of both kinds, and whether the student's own texts are scored."""

    def __init__(self, lessons: Sequence[Lesson], params: DistillationParams, seed: int) -> None:
        self._kinds = [
            [lesson for lesson in lessons if lesson.scores is not None],
            [lesson for lesson in lessons if lesson.scores is None],
        ]
        self._orders: list[Iterator[NDArray[np.int64]] | None] = [
            batches([len(one.row.prompt.split()) for one in own], params.batch_size, params.steps, _rng(seed, kind))
            if own
            else None
            for kind, own in enumerate(self._kinds)
        ]
        self._share, self._luck = params.on_policy, _rng(seed, 2)

    def next(self) -> tuple[list[Lesson], list[Lesson], bool]:
        """Decisions with commands, questions, and the luck of one step."""
        choices, questions = (
            [own[i] for i in next(order)] if order is not None else []
            for own, order in zip(self._kinds, self._orders, strict=True)
        )
        return choices, questions, bool(self._luck.random() < self._share)


def _choice_losses(student: System1, lessons: Sequence[Lesson], params: DistillationParams) -> dict[str, Tensor]:
    """Losses over commands."""
    rows = [lesson.row for lesson in lessons]
    batch = student.collate([row.prompt for row in rows], [row.candidates for row in rows]).to(student.model.device)
    logits = student.scorer(batch)  # (B, C)
    wanted = torch.full_like(logits, HIDDEN)
    for i, lesson in enumerate(lessons):
        assert lesson.scores is not None
        wanted[i, : len(lesson.scores)] = lesson.scores
    chosen = torch.tensor([row.candidates.index(row.target) for row in rows], device=logits.device)
    everyone = torch.ones_like(chosen, dtype=torch.bool)
    soft = soft_loss(logits, wanted, params.temperature, everyone)
    return {
        "choice_soft": params.soft_weight * soft,
        "choice_hard": (1 - params.soft_weight) * F.cross_entropy(logits, chosen),
    }


def _answer_losses(
    teacher: System2,
    student: System1,
    lessons: Sequence[Lesson],
    params: DistillationParams,
    generator: torch.Generator | None,
) -> dict[str, Tensor]:
    """Losses over the words of answers; with a generator also over those of the student's own answers."""
    prompts = [lesson.row.prompt for lesson in lessons]
    steps = [lesson.steps for lesson in lessons]
    right = student.command_ids([lesson.row.target for lesson in lessons])
    logits, labels = answer_logits(student, prompts, [()] * len(prompts), right)  # (B, T, V), (B, T)
    hard = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
    losses = {"answer_hard": (1 - params.soft_weight) * hard}
    if not params.soft_weight:
        return losses
    wanted, _ = _without_gradient(teacher, prompts, steps, right)
    losses["answer_soft"] = params.soft_weight * soft_loss(logits, wanted, params.temperature, labels != IGNORED)
    if generator is not None:
        student.scorer.eval()
        own = student.write(
            prompts, max_words=MAX_ANSWER_WORDS, temperature=params.sampling_temperature, generator=generator
        )
        student.scorer.train()
        texts = [written.ids for (written, *_) in own]
        logits, labels = answer_logits(student, prompts, [()] * len(prompts), texts)
        wanted, _ = _without_gradient(teacher, prompts, steps, texts)
        losses["answer_own"] = params.soft_weight * soft_loss(logits, wanted, params.temperature, labels != IGNORED)
    return losses


@torch.no_grad()
def _without_gradient(
    teacher: System2, prompts: Sequence[str], steps: Sequence[tuple[int, ...]], texts: Sequence[tuple[int, ...]]
) -> tuple[Tensor, Tensor]:
    return answer_logits(teacher, prompts, steps, texts)


def answer_logits(
    system: TextModel, prompts: Sequence[str], before: Sequence[tuple[int, ...]], texts: Sequence[tuple[int, ...]]
) -> tuple[Tensor, Tensor]:
    """Logits over each next word of given answers, and the answers with their ends as labels.

    Args:
        system: an encoder-decoder.
        prompts: B of them.
        before: ids of what the system wrote before each answer.
        texts: ids of each answer, without its end.

    Returns:
        Logits (B, T, V) and labels (B, T), IGNORED for padding.
    """
    end = system.model.config.eos_token_id
    ids, mask = pad_rows(system.prompt_ids(prompts), system.pad_id)
    whole, _ = pad_rows([np.array([*a, *b, end], dtype=np.int64) for a, b in zip(before, texts, strict=True)], IGNORED)
    labels, _ = pad_rows([np.array([*text, end], dtype=np.int64) for text in texts], IGNORED)  # (B, T)
    device = system.model.device
    logits = system.model(
        input_ids=ids.to(device), attention_mask=mask.to(device), labels=whole.to(device), use_cache=False
    ).logits
    starts = torch.tensor([len(own) for own in before])[:, None]  # (B, 1)
    places = (starts + torch.arange(labels.shape[1])).clamp_max(whole.shape[1] - 1).to(device)  # (B, T)
    return logits.gather(1, places[..., None].expand(-1, -1, logits.shape[-1])), labels.to(device)


def share_at_error(confidence: Sequence[float], right: Sequence[bool], max_error: float) -> float:
    """Largest share of answers that can be kept by confidence while at most ``max_error`` of the kept ones are wrong.

    Answers of one confidence are kept together, or not at all.

    Args:
        confidence: of each answer.
        right: is it right?
        max_error: share in 0..1.
    """
    values = np.asarray(confidence, dtype=np.float64)
    order = np.argsort(-values, kind="stable")
    wrong = np.cumsum(~np.asarray(right, dtype=np.bool_)[order])
    kept = np.arange(1, len(values) + 1)
    last = np.append(np.diff(values[order]) != 0, True)  # of its confidence
    good = kept[last & (wrong <= max_error * kept)]
    return float(good.max(initial=0)) / max(len(values), 1)


def _rng(seed: int, part: int) -> np.random.Generator:
    return np.random.default_rng([seed, part])


def _means(recent: Sequence[dict[str, float]]) -> dict[str, float]:
    names = sorted({name for losses in recent for name in losses})
    return {name: float(np.mean([losses[name] for losses in recent if name in losses])) for name in names}
