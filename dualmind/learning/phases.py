"""A curriculum for chains of thought in three phases: each step right, the steps coherent, the whole chain complete.

In each round System 2 writes several chains for every question; each chain gets the phase's reward, and the best one of
a question, where it is good enough, is cloned (RAFT, Dong et al. 2023; with a checker in place of known answers it is
STaR, Zelikman et al. 2022). No expert's steps are shown, so what is learnt is what System 2 found by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

from dualmind.data.decisions import DecisionRow
from dualmind.domains.reasoning.domain import as_prompt
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.question import MAX_HOPS, Question, parse_output
from dualmind.learning.batching import TokenizedDecisions
from dualmind.learning.cloning import CloningParams, Lessons, clone
from dualmind.learning.skipped import Skipped
from dualmind.learning.writing import TokenizedTexts
from dualmind.models.system2 import MAX_RATIONALE_WORDS, System2, with_plan

Phase = Literal["step", "coherence", "chain"]
_FAMILIES = {family.name: family for family in FAMILIES}
_BATCH = 128


class PhaseParams(BaseModel):
    """One phase."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_hops: Annotated[int, Field(ge=1, le=MAX_HOPS)]  # of the questions
    max_hops: Annotated[int, Field(ge=1, le=MAX_HOPS)]
    gate: Annotated[float, Field(ge=0, le=1)]  # mean reward on valid_train that the phase must reach
    rounds: NonNegativeInt  # of writing and learning, at most: a phase ends at its gate
    questions: PositiveInt  # of train, a round
    copies: PositiveInt  # chains a question
    temperature: PositiveFloat  # of the draws
    good_enough: Annotated[float, Field(gt=0, le=1)]  # reward from which on a chain is learnt from
    steps: PositiveInt  # optimiser steps a round
    rate: PositiveFloat  # times the peak rates of cloning
    rehearsal: PositiveInt  # household decisions that are learnt again beside the chains
    judged_questions: PositiveInt  # of valid_train
    judged_decisions: PositiveInt  # of valid_train, of the household
    may_lose: Annotated[float, Field(ge=0, le=1)]  # share of those that a better reward may cost


@dataclass(frozen=True, slots=True)
class Said:
    """What System 2 wrote."""

    question: Question
    text: str
    reward: float


def reward_of(phase: Phase, question: Question, text: str) -> float:
    """Reward of a chain in a phase, 0..1.

    ``step``: share of the question's steps that are valid after those before them; one too many counts as one that is
    wrong. ``coherence``: share of the steps up to the first one that does not follow. ``chain``: 1 where all steps are
    there, each follows and the answer is right, else 0.
    """
    steps, answer = parse_output(text)
    check = _FAMILIES[question.family].check
    valid = [check(question, steps[:end]) for end in range(1, len(steps) + 1)]
    length = max(len(steps), question.hops)
    unbroken = valid.index(False) if False in valid else len(valid)
    match phase:
        case "step":
            return sum(valid) / length
        case "coherence":
            return unbroken / length
        case "chain":
            whole = unbroken == len(steps) == question.hops
            return float(whole and _FAMILIES[question.family].score(question, answer) == 1.0)


def fitting(questions: Sequence[Question], params: PhaseParams) -> list[Question]:
    """Questions of the phase's lengths, in their order."""
    return [question for question in questions if params.min_hops <= question.hops <= params.max_hops]


def judge(system2: System2, phase: Phase, questions: Sequence[Question]) -> float:
    """Mean reward of what System 2 writes greedily."""
    return float(np.mean([said.reward for own in _write(system2, phase, questions, 1, 0.0, None) for said in own]))


def practise(
    system2: System2,
    phase: Phase,
    params: PhaseParams,
    cloning: CloningParams,
    questions: Sequence[Question],
    rehearsed: Sequence[DecisionRow],
    seed: int,
) -> dict[str, float] | Skipped:
    """One round: write, reward, and learn from the best chain of each question; what was done.

    Args:
        system2: is trained in place.
        phase: whose reward.
        params: how.
        cloning: how it was cloned; what the phase says is changed.
        questions: to practise on.
        rehearsed: household decisions that are not to be lost.
        seed: of the draws and of training.

    Returns:
        Mean reward and number of chains that were learnt from; the reason where there was none.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = _write(system2, phase, questions, params.copies, params.temperature, generator)
    best = [max(own, key=lambda said: said.reward) for own in rows]
    good = [said for said in best if said.reward >= params.good_enough]
    mean = float(np.mean([said.reward for own in rows for said in own]))
    if not good:
        return Skipped(
            f"none of {len(rows)} questions got a chain of reward {params.good_enough}, their mean is {mean:.2f}; "
            f"lower curriculum.{phase}.good_enough, or clone System 2 longer"
        )
    report = clone(
        system2,
        _lessons(system2, good, rehearsed),
        cloning.model_copy(
            update={
                "steps": params.steps,
                "muon_lr": cloning.muon_lr * params.rate,
                "adamw_lr": cloning.adamw_lr * params.rate,
                "warmup_steps": min(cloning.warmup_steps, params.steps // 5),
            }
        ),
        seed=seed,
    )
    return {"reward": mean, "learnt_chains": float(len(good)), "loss": report.curve[-1]["loss"]}


def _lessons(system2: System2, good: Sequence[Said], rehearsed: Sequence[DecisionRow]) -> Lessons:
    pairs = [(as_prompt(said.question.text), said.text) for said in good]
    pairs += [(row.prompt, row.rationale) for row in rehearsed]
    planned = [with_plan(row.prompt, row.rationale) for row in rehearsed]
    return Lessons(
        scoring=TokenizedDecisions.of(rehearsed, system2, planned),
        writing=TokenizedTexts.of([prompt for prompt, _ in pairs], [text for _, text in pairs], system2.tokenizer),
    )


def _write(
    system2: System2, phase: Phase, questions: Sequence[Question], copies: int, temperature: float,
    generator: torch.Generator | None,
) -> list[list[Said]]:  # fmt: skip
    found: list[list[Said]] = []
    for start in range(0, len(questions), _BATCH):
        batch = questions[start : start + _BATCH]
        rows = system2.write(
            [as_prompt(question.text) for question in batch], max_words=MAX_RATIONALE_WORDS, copies=copies,
            temperature=temperature, generator=generator,
        )  # fmt: skip
        for question, row in zip(batch, rows, strict=True):
            texts = [system2.text(written) for written in row]
            found.append([Said(question, text, reward_of(phase, question, text)) for text in texts])
    return found
