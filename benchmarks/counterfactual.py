"""Counterfactual training: does a System 2 that learns from variants of its wrong outputs correct itself more often?

A small System 2 is cloned for too short a time. From there on, one arm for each rate of replaced words contrasts pairs
made of its wrong outputs while it goes on cloning; the control clones the same lessons for as many steps. Then each
answers held-out questions twice: greedily, and anew from the first step that is doubted. Self-correction is the share
of questions that go from wrong to right minus the share that go from right to wrong.

Two kinds of doubt: System 2's own (its least likely word of a step), and the exact checker's, which never doubts a
right step; an answer that was right in spite of a wrong step may still be lost. At least one word is replaced, so on
chains of ten to twenty words 2 and 5 % are one and the same. Intervals resample questions, both arms of a seed on one
question together; they do not hold how much the arms differ from start to start.

    python -m benchmarks.counterfactual [--seeds 3]
"""

import argparse
import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.results_file import Row, write_rows
from dualmind.agent.second_try import Tries, checker_doubt, try_twice
from dualmind.agent.stepwise import Chain
from dualmind.domains.reasoning.domain import as_prompt
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.generate import Mix, generate_questions
from dualmind.domains.reasoning.question import Question
from dualmind.evaluation.intervals import Interval, bootstrap_mean, paired_bootstrap
from dualmind.learning.cloning import CloningParams, Lessons, clone
from dualmind.learning.counterfactual import CounterfactualParams, Pair, pairs_of, practise, wrong_outputs
from dualmind.learning.skipped import Skipped
from dualmind.learning.step_reward import readings
from dualmind.learning.writing import TokenizedTexts
from dualmind.models.system2 import System2
from dualmind.symbolic.checker import ReasoningChecker
from stages.params import load_params
from stages.pretrain import System2Params

PARAMS = Path(__file__).resolve().parents[1] / "params.yaml"
RATES = (0.02, 0.05, 0.1, 0.2)
NAMES = {"brackets", "keys"}
TRAIN, VARIED, HELD_OUT, MAX_HOPS = 5000, 300, 200, 6
CLONED, STEPS, BATCH, WIDTH = 350, 40, 48, 64  # optimiser steps of the start and of each arm
CLAIMED = 2.4  # times the control's self-correction
DOUBTED = float(np.log(0.5))  # log-probability of a step's least likely word under which System 2 doubts it
Doubt = Callable[[str, Chain], int | None]
COUNTERFACTUAL = CounterfactualParams(
    rate=0.1, variants=128, steps=STEPS, batch_size=24, learning_rate=0.2, beta=0.1, weight=1.0, kl=0.1
)


@dataclass(frozen=True, slots=True)
class Judged:
    """Held-out questions as one arm answered them, first and second try (N,), by each kind of doubt."""

    first: NDArray[np.bool_]
    second: dict[str, NDArray[np.bool_]]

    def corrected(self, kind: str) -> NDArray[np.float64]:
        """1 where wrong became right, -1 where right became wrong, else 0."""
        found: NDArray[np.float64] = self.second[kind].astype(np.float64) - self.first.astype(np.float64)
        return found


def start(questions: Sequence[Question], seed: int) -> tuple[System2, TokenizedTexts, CloningParams]:
    """An under-trained System 2, and what it goes on cloning."""
    params = load_params(System2Params, "pretrain.system2", PARAMS)
    prompts, texts = [as_prompt(q.text) for q in questions], [q.rationale for q in questions]
    small = {"d_model": WIDTH, "d_ff": 2 * WIDTH, "num_experts": 0}
    system = System2.build(params.model.model_copy(update=small), [*prompts, *texts], seed)
    lessons = TokenizedTexts.of(prompts, texts, system.tokenizer)
    cloning = params.cloning.model_copy(update={"steps": CLONED, "writing_batch_size": BATCH})
    clone(system, Lessons(None, lessons), cloning, seed=seed)
    return system, lessons, cloning.model_copy(update={"warmup_steps": 10})


def own_doubt(system: System2) -> Doubt:
    """Doubts the first step with a word that System 2 itself held for unlikely."""

    def doubt(prompt: str, chain: Chain) -> int | None:
        if not chain.steps:
            return 0
        ends = [chain.steps[:end] for end in range(1, len(chain.steps) + 1)]
        least = readings(system, [prompt] * len(ends), ends)[:, -2]
        doubted = np.flatnonzero(least < DOUBTED)
        return int(doubted[0]) if len(doubted) else None

    return doubt


def judge(system: System2, questions: Sequence[Question], seed: int) -> Judged:
    """Both tries at all questions."""
    prompts = [as_prompt(question.text) for question in questions]

    def right(chains: Sequence[Chain]) -> NDArray[np.bool_]:
        return np.array([chain.answer == q.answer for chain, q in zip(chains, questions, strict=True)])

    tries: dict[str, list[Tries]] = {}
    for kind, doubt in (("own", own_doubt(system)), ("checker", checker_doubt(ReasoningChecker()))):
        certain = kind == "checker"
        tries[kind] = try_twice(system, prompts, doubt, certain=certain, generator=torch.Generator().manual_seed(seed))
    first = right([own.first for own in tries["own"]])
    return Judged(first, {kind: right([own.second for own in found]) for kind, found in tries.items()})


def arms(questions: Sequence[Question], seed: int) -> tuple[dict[float, Judged], dict[float, list[Pair]]]:
    """Every arm of one seed, judged; rate 0 is the control. Also the pairs of each rate."""
    train = [question for question in questions if question.split == "train"]
    held_out = [question for question in questions if question.split == "valid_unseen"]
    system, lessons, cloning = start(train[:-VARIED], seed)
    vocabulary = {
        name: {word for q in train if q.family == name for word in q.rationale.split()} for name in sorted(NAMES)
    }
    wrongs = wrong_outputs(system, train[-VARIED:], vocabulary)
    judged, pairs = {}, {}
    for rate in (0.0, *RATES):
        own = copy.deepcopy(system)
        params = COUNTERFACTUAL.model_copy(update={"rate": rate or COUNTERFACTUAL.rate})
        found = pairs_of(wrongs, params, np.random.default_rng([seed, 3])) if rate else []
        if isinstance(found, Skipped):
            raise SystemExit(f"rate {rate}, seed {seed}: {found.reason}")
        curve = practise(own, found, lessons, params, cloning, seed=seed)
        judged[rate], pairs[rate] = judge(own, held_out, seed), found
        gains = {kind: float(judged[rate].corrected(kind).mean()) for kind in judged[rate].second}
        print(
            f"seed {seed}, rate {rate}: {len(found)} pairs of {len(wrongs)} wrong outputs, {curve[-1]}, "
            f"right {judged[rate].first.mean():.3f}, corrected {gains}", flush=True,
        )  # fmt: skip
    return judged, pairs


def ratio(ours: NDArray[np.float64], control: NDArray[np.float64]) -> Interval | None:
    """Ratio of two mean corrections over the same questions; None where the control's may be 0 or less."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(ours), size=(4000, len(ours)))
    bottoms = control[chosen].mean(1)
    low, high = np.percentile(bottoms, (2.5, 97.5))
    if low <= 0 or high <= 0:
        return None
    bounds = np.percentile(ours[chosen].mean(1) / np.maximum(bottoms, 1e-9), (2.5, 97.5))
    return Interval(float(ours.mean() / control.mean()), float(bounds[0]), float(bounds[1]))


def rate_rows(
    rate: float, judged: Sequence[dict[float, Judged]], pairs: Sequence[dict[float, list[Pair]]], begun: float
) -> list[Row]:
    """What one rate gives against the control."""
    words: dict[str, Any] = {"begun": begun, "seeds": len(judged), "command": "python -m benchmarks.counterfactual"}

    def all_of(arm: float, kind: str) -> NDArray[np.float64]:
        return np.concatenate([own[arm].corrected(kind) for own in judged])

    replaced = np.mean([pair.replaced for own in pairs for pair in own[rate]])
    number = np.mean([len(own[rate]) for own in pairs])
    rows = []
    for kind in ("own", "checker"):
        ours, control = all_of(rate, kind), all_of(0.0, kind)
        told = (
            f"control {control.mean():+.3f}, this arm {ours.mean():+.3f} of all questions (wrong to right "
            f"{(ours > 0).mean():.3f}, right to wrong {(ours < 0).mean():.3f})"
        )
        found = ratio(ours, control)
        why = "" if found else "; no ratio: the control's interval reaches 0"
        rows.append(
            Row.of(
                found, target=CLAIMED, unit="times", baseline=told + why, **words,
                claim=f"self-correction at {rate:.0%} replaced words, {kind} doubt, against cloning on as long",
            )
        )  # fmt: skip
        gain = paired_bootstrap(ours.tolist(), control.tolist(), np.random.default_rng(0))
        rows.append(
            Row.of(
                gain, target=None, unit="share of questions", baseline=told, **words,
                claim=f"self-correction at {rate:.0%} minus the control's, {kind} doubt",
            )
        )  # fmt: skip
    firsts = [np.concatenate([own[arm].first for own in judged]).astype(float) for arm in (rate, 0.0)]
    gain = paired_bootstrap(firsts[0].tolist(), firsts[1].tolist(), np.random.default_rng(0))
    rows.append(
        Row.of(
            gain, target=None, unit="share of questions", **words,
            claim=f"first answers right at {rate:.0%} replaced words, minus the control's",
            baseline=f"control {firsts[1].mean():.3f}; {number:.0f} pairs a seed, {replaced:.1f} words replaced",
        )
    )  # fmt: skip
    return rows


def best_row(judged: Sequence[dict[float, Judged]], begun: float) -> Row:
    """Are 5 and 10 % better than 2 and 20 %?"""
    middle, outer = (
        np.concatenate([np.mean([own[rate].corrected("own") for rate in rates], axis=0) for own in judged])
        for rates in ((0.05, 0.1), (0.02, 0.2))
    )
    means = {rate: float(np.mean([own[rate].corrected("own").mean() for own in judged])) for rate in (0.0, *RATES)}
    return Row.of(
        paired_bootstrap(middle.tolist(), outer.tolist(), np.random.default_rng(0)), target=0.0, begun=begun,
        claim="self-correction at 5 and 10 % minus that at 2 and 20 %, own doubt", unit="share of questions",
        baseline=", ".join(f"{rate:.0%}: {mean:+.3f}" for rate, mean in means.items()) + " (0%: control)",
        seeds=len(judged), command="python -m benchmarks.counterfactual",
    )  # fmt: skip


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counterfactual")
    parser.add_argument("--seeds", type=int, default=3, help="starts")
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    begun = time.monotonic()
    families = [family for family in FAMILIES if family.name in NAMES]
    mix = Mix(easy_share=None, max_hops=MAX_HOPS)
    questions = generate_questions({"train": TRAIN + VARIED, "valid_unseen": HELD_OUT}, mix, 0, families)
    found = [arms(questions, seed) for seed in range(seeds)]
    judged, pairs = [own for own, _ in found], [own for _, own in found]
    rows = [row for rate in RATES for row in rate_rows(rate, judged, pairs, begun)]
    rows.append(best_row(judged, begun))
    firsts = [float(own[0.0].first.mean()) for own in judged]
    rows.append(
        Row.of(
            bootstrap_mean(firsts, np.random.default_rng(0)), target=None, begun=begun,
            claim="the control's first answers right", unit="share of questions",
            baseline=f"{CLONED} steps of cloning and {STEPS} more", seeds=seeds,
            command="python -m benchmarks.counterfactual",
        )
    )  # fmt: skip
    write_rows("counterfactual", rows)
    for row in rows:
        print(f"{row.claim}: {row.value} [{row.low}, {row.high}] reached={row.reached} ({row.baseline})", flush=True)


if __name__ == "__main__":
    main()
