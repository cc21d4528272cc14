"""Counterfactual training: what if some words of a wrong output had been others?

Of each wrong output variants are made with a share of the words replaced, each is scored by a checker, and System 2
learns from the pair of the best variant and the output it wrote: the one becomes likelier, the other less likely. That
is direct preference optimisation (Rafailov et al. 2023, Eq. 7) on pairs that need no person and no second model; beyond
it stand the divergence from the reference over the better text and, in every step, ordinary cloning, so that what was
known is not unlearnt.
"""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn import functional as F
from transformers.modeling_outputs import BaseModelOutput

from dualmind.domains.reasoning.domain import as_prompt
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.question import Question, parse_output
from dualmind.errors import LearningError
from dualmind.learning.batching import batches
from dualmind.learning.cloning import CloningParams
from dualmind.learning.learner import Learner
from dualmind.learning.optim import build_optimizers, learning_rate
from dualmind.learning.phases import reward_of
from dualmind.learning.skipped import Skipped
from dualmind.learning.writing import IGNORED, TokenizedTexts, WritingBatch
from dualmind.models.encoder_decoder import CompactForConditionalGeneration
from dualmind.models.experts import MixtureOfExperts
from dualmind.models.reasoner import ReasonerForConditionalGeneration
from dualmind.models.system2 import ANSWER, MAX_RATIONALE_WORDS, System2
from dualmind.progress import Progress

_FAMILIES = {family.name: family for family in FAMILIES}
_BATCH = 128
Score = Callable[[str], float]  # of a text, more is better


class CounterfactualParams(BaseModel):
    """How System 2 learns from what it got wrong."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: Annotated[float, Field(gt=0, le=1)]  # share of the words that a variant replaces (0.05 to 0.1)
    variants: PositiveInt  # of each wrong output
    steps: PositiveInt  # optimiser steps
    batch_size: PositiveInt  # pairs a step
    learning_rate: PositiveFloat  # times the peak rates of cloning
    beta: PositiveFloat  # of the preference loss
    weight: NonNegativeFloat  # of the contrastive loss beside cloning; 0 clones alone
    kl: NonNegativeFloat  # weight of the divergence from the reference, inside the contrastive loss


@dataclass(frozen=True, slots=True)
class Wrong:
    """An output that is not right, and what its words may be replaced by."""

    question: Question
    text: str
    pool: tuple[str, ...]  # distinct words: those of the prompt and of the family


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts for one prompt."""

    prompt: str
    better: str
    worse: str
    gain: float  # of the score, > 0
    replaced: int  # words


def worth(question: Question, text: str) -> float:
    """Score of an output, 0..1: the mean of the share of steps that follow unbroken, and of the answer being right."""
    right = _FAMILIES[question.family].score(question, parse_output(text)[1])
    return (reward_of("coherence", question, text) + right) / 2


def wrong_outputs(
    system2: System2, questions: Sequence[Question], vocabulary: Mapping[str, Collection[str]]
) -> list[Wrong]:
    """What System 2 writes greedily and gets wrong; what has no word in it teaches nothing and is left out.

    Args:
        system2: writes.
        questions: to answer.
        vocabulary: words of each family.
    """
    found: list[Wrong] = []
    for start in range(0, len(questions), _BATCH):
        own = questions[start : start + _BATCH]
        rows = system2.write([as_prompt(question.text) for question in own], max_words=MAX_RATIONALE_WORDS)
        for question, row in zip(own, rows, strict=True):
            text = system2.text(row[0])
            if text.split() and worth(question, text) < 1:
                pool = {*as_prompt(question.text).split(), *vocabulary[question.family]}
                found.append(Wrong(question, text, tuple(sorted(word for word in pool if not _is_mark(word)))))
    return found


def vary(text: str, pool: Sequence[str], rate: float, number: int, rng: np.random.Generator) -> list[str]:
    """Variants of an output with a share of its words replaced; marks of steps and of the answer stay.

    Args:
        text: the output.
        pool: distinct words to draw from, at least two.
        rate: share of all words that is replaced, above 0 and at most 1; at least one word always is.
        number: of variants.
        rng: source of the draws.

    Raises:
        LearningError: the rate is out of range, the output has no words to replace, or there are no other words.
    """
    if not 0 < rate <= 1:  # NaN too
        raise LearningError(f"rate = {rate}: give the share of words to be replaced, above 0 and at most 1")
    words = text.split()
    places = [i for i, word in enumerate(words) if not _is_mark(word)]
    if not places:
        raise LearningError(f"the output {text[:80]!r} has no words that can be replaced; leave it out")
    if len(set(pool)) < 2:
        raise LearningError(f"the output {text[:80]!r} has the words {list(pool)[:1]} to choose from; give two or more")
    count = min(max(1, round(rate * len(words))), len(places))
    made = []
    for _ in range(number):
        own = list(words)
        for place in rng.choice(places, count, replace=False):
            while (word := pool[int(rng.integers(len(pool)))]) == words[place]:
                pass
            own[place] = word
        made.append(" ".join(own))
    return made


def pair_of(wrong: Wrong, params: CounterfactualParams, score: Score, rng: np.random.Generator) -> Pair | None:
    """The best variant against the output, or None where no variant is better.

    Raises:
        LearningError: a score is no finite number, or as in :func:`vary`.
    """
    variants = vary(wrong.text, wrong.pool, params.rate, params.variants, rng)
    scores = [score(text) for text in (wrong.text, *variants)]
    if not np.isfinite(scores).all():
        bad = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise LearningError(
            f"the score of {(wrong.text, *variants)[bad][:80]!r} is {scores[bad]}; a variant can be compared by a "
            "finite number alone: see what the scorer makes of this text"
        )
    best = int(np.argmax(scores[1:]))
    gain = scores[1 + best] - scores[0]
    if gain <= 0:
        return None
    changed = sum(a != b for a, b in zip(wrong.text.split(), variants[best].split(), strict=True))
    return Pair(as_prompt(wrong.question.text), variants[best], wrong.text, gain, changed)


def pairs_of(
    wrongs: Sequence[Wrong],
    params: CounterfactualParams,
    rng: np.random.Generator,
    score: Callable[[Question, str], float] = worth,
) -> list[Pair] | Skipped:
    """Pairs of all outputs that a variant improves, or the reason why there are none.

    Raises:
        LearningError: see :func:`pair_of`.
    """
    if not wrongs:
        return Skipped("there is no wrong output to vary: System 2 answers all questions right; give harder ones")
    made = [pair_of(own, params, lambda text, own=own: score(own.question, text), rng) for own in wrongs]  # type: ignore[misc]  # own is bound now
    found = [pair for pair in made if pair is not None]
    if not found:
        return Skipped(
            f"none of {params.variants} variants of {len(wrongs)} wrong outputs is better than the output; "
            "make more variants, or change the rate"
        )
    return found


def contrastive_loss(
    better: Tensor, worse: Tensor, better_reference: Tensor, worse_reference: Tensor, beta: float
) -> Tensor:
    """``-log sigmoid(beta ((better - better_ref) - (worse - worse_ref)))``, a mean (Rafailov et al. 2023, Eq. 7).

    Args:
        better: log-probabilities of the better texts (B,), nats.
        worse: of the worse ones.
        better_reference: of the better ones by the reference.
        worse_reference: of the worse ones by the reference.
        beta: > 0; the larger, the closer to the reference.
    """
    margin = (better - better_reference) - (worse - worse_reference)  # (B,)
    return -F.logsigmoid(beta * margin).mean()


def practise(
    system2: System2,
    pairs: Sequence[Pair],
    lessons: TokenizedTexts,
    params: CounterfactualParams,
    cloning: CloningParams,
    *,
    seed: int,
) -> list[dict[str, float]]:
    """Train ``system2`` in place: each step clones a batch of lessons and contrasts a batch of pairs.

    Without pairs, or with a weight of 0, the same lessons are cloned in the same order for as many steps: the control.

    Returns:
        Losses of each step: cloning's sum, and the contrastive one and the divergence where there are pairs.

    Raises:
        LearningError: System 2 is a published model, or the loss is no number any more.
    """
    model = system2.model
    if not isinstance(model, CompactForConditionalGeneration):
        raise LearningError(
            "counterfactual training reads our own System 2; set pretrain.system2.model.kind to reasoner"
        )
    contrast = _Contrast(system2, pairs, params, seed) if pairs and params.weight else None
    drawn = batches(lessons.lengths, cloning.writing_batch_size, params.steps, np.random.default_rng([seed, 0]))
    optimizers = build_optimizers(model, cloning.optimizer, muon_lr=cloning.muon_lr, adamw_lr=cloning.adamw_lr)
    peaks = [optimizer.param_groups[0]["lr"] * params.learning_rate for optimizer in optimizers]
    learner, curve = Learner(system2, cloning.weights).train(), []
    progress = Progress("counterfactuals" if contrast else "cloning on", params.steps)
    for step, indices in enumerate(drawn):
        rate = learning_rate(step, params.steps, cloning.warmup_steps, cloning.final_lr_fraction)
        losses: dict[str, Tensor] = {"clone": learner(None, None, lessons.batch(indices.tolist()))["loss"]}
        if contrast is not None:
            losses |= contrast.losses()
        loss = losses["clone"] + params.weight * (losses.get("contrast", 0) + params.kl * losses.get("kl", 0))
        if not bool(torch.isfinite(loss)):
            raise LearningError(f"the loss is {float(loss.detach())} at step {step + 1}; lower learning_rate or weight")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), cloning.gradient_clip)
        for optimizer, peak in zip(optimizers, peaks, strict=True):
            optimizer.param_groups[0]["lr"] = peak * rate
            optimizer.step()
            optimizer.zero_grad()
        curve.append({name: float(own.detach()) for name, own in losses.items()})
        progress.update(step + 1)
    system2.scorer.eval()
    return curve


class _Contrast:
    """The contrastive losses of batch after batch of pairs."""

    def __init__(self, system2: System2, pairs: Sequence[Pair], params: CounterfactualParams, seed: int) -> None:
        self._model, self._params = system2.model, params
        for module in system2.model.modules():
            if isinstance(module, MixtureOfExperts):
                module.routing = None  # of a former step; what has a gradient cannot be copied
        self._reference = copy.deepcopy(system2.model).eval().requires_grad_(False)
        prompts = [pair.prompt for pair in pairs]
        self._better = TokenizedTexts.of(prompts, [pair.better for pair in pairs], system2.tokenizer)
        self._worse = TokenizedTexts.of(prompts, [pair.worse for pair in pairs], system2.tokenizer)
        rng = np.random.default_rng([seed, 1])
        self._drawn = batches(self._better.lengths, params.batch_size, params.steps, rng)

    def losses(self) -> dict[str, Tensor]:
        """``contrast`` and ``kl`` of the next batch."""
        indices = next(self._drawn).tolist()
        better, worse = self._better.batch(indices), self._worse.batch(indices)
        good, bad = words(self._model, better), words(self._model, worse)
        with torch.no_grad():
            good_before, bad_before = words(self._reference, better), words(self._reference, worse)
        contrast = contrastive_loss(
            likelihood(good, better), likelihood(bad, worse),
            likelihood(good_before, better), likelihood(bad_before, worse), self._params.beta,
        )  # fmt: skip
        mask = better.labels != IGNORED  # (B, T)
        away = F.kl_div(good, good_before, reduction="none", log_target=True).sum(-1)[mask].mean()
        return {"contrast": contrast, "kl": away}


def words(model: CompactForConditionalGeneration, batch: WritingBatch) -> Tensor:
    """Log-probabilities over the vocabulary at each word of the texts (B, T, V), nats."""
    thought = None
    if isinstance(model, ReasonerForConditionalGeneration):
        thought = model.encoder.think(batch.prompt_ids, batch.prompt_mask, early_stop=False)
    memory = model.encoder(batch.prompt_ids, batch.prompt_mask)[0] if thought is None else thought.memory
    logits: Tensor = model(
        encoder_outputs=BaseModelOutput(last_hidden_state=memory), attention_mask=batch.prompt_mask, labels=batch.labels
    ).logits
    return logits.log_softmax(-1)


def likelihood(log_probabilities: Tensor, batch: WritingBatch) -> Tensor:
    """Log-probability of each text with its end (B,), nats."""
    said = log_probabilities.gather(2, batch.labels.clamp_min(0)[:, :, None]).squeeze(2)  # (B, T)
    return said.masked_fill(batch.labels == IGNORED, 0.0).sum(1)


def _is_mark(word: str) -> bool:
    return word.startswith("#") or word == ANSWER
