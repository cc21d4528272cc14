"""The pair that `make repro` made: what System 1 keeps, what System 2 adds, and what the gate and the tiers save.

Held-out questions of the traffic mix, which took no part in training, in the gate or in the threshold. One training
seed; intervals resample questions, all ways to answer one question together.

    python -m benchmarks.pair [--questions 1000]
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.results_file import Row, write_rows
from dualmind.agent.agent import Agent, Request
from dualmind.agent.trial import Answered, answer_questions
from dualmind.data.problems import read_problems
from dualmind.domains.reasoning.domain import Reasoning, as_problem, as_prompt
from dualmind.domains.reasoning.generate import Mix, generate_questions
from dualmind.evaluation.intervals import Interval, bootstrap_mean
from stages.calibrate import read_questions
from stages.evaluate import Judged, open_data
from stages.params import RunParams, load_params

COMMAND = "make repro && python -m benchmarks.pair"
RESAMPLES = 2000
TIMED = 200


def ratio(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> Interval:
    """Ratio of two means over the same questions, with its percentile bootstrap interval."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(top), size=(RESAMPLES, len(top)))
    found = top[chosen].mean(1) / np.maximum(bottom[chosen].mean(1), 1e-12)
    low, high = np.percentile(found, (2.5, 97.5))
    return Interval(float(top.mean() / bottom.mean()), float(low), float(high))


def flops(answered: Sequence[Answered]) -> NDArray[np.float64]:
    return np.array([own.reply.flops for own in answered], dtype=np.float64)


def right(answered: Sequence[Answered]) -> NDArray[np.float64]:
    return np.array([own.right for own in answered], dtype=np.float64)


def hard_rows(judged: Judged, answered: Sequence[Answered]) -> list[Row]:
    """System 2 alone by hops, and on more hops than it has ever seen."""
    begun = time.monotonic()
    hard = bootstrap_mean([own.right for own in answered if own.hops >= 3], np.random.default_rng(0))
    low1 = float(np.mean([own.right for own in answered if own.hops <= 2]))
    rows = [
        Row.of(
            hard, target=0.95, begun=begun, claim="System 2 on questions of 3 to 8 hops, held out",
            unit="share right", baseline=f"1 and 2 hops: {low1:.3f}", seeds=1, command=COMMAND,
        )
    ]  # fmt: skip
    begun = time.monotonic()
    longer = generate_questions({"valid_unseen": 3000}, Mix(easy_share=None, max_hops=12), 99)
    longer = [question for question in longer if question.hops >= 9][:400]
    asked = answer_questions(
        Agent(judged.system1, judged.system2, judged.gate, np.inf, np.inf),
        Reasoning(longer),
        [as_problem(question) for question in longer],
        "9 to 12 hops",
    )
    found = bootstrap_mean(right(asked).tolist(), np.random.default_rng(0))
    longest = Row.of(
        found, target=None, begun=begun, claim="System 2 on 9 to 12 hops, more than it was trained on",
        unit="share right", baseline="reported only", seeds=1, command=COMMAND,
    )  # fmt: skip
    rows.append(longest)
    return rows


def share_row(judged: Judged, pair: Sequence[Answered]) -> Row:
    """What System 1 keeps at the proven threshold, and how often it is then wrong."""
    begun = time.monotonic()
    kept = np.array([own.reply.tier == "system1" for own in pair])
    errors = 1 - right(pair)[kept].mean() if kept.any() else float("nan")
    return Row.of(
        bootstrap_mean(kept.astype(float).tolist(), np.random.default_rng(0)),
        target=0.85,
        begun=begun,
        claim=f"share of the traffic mix that System 1 keeps at an error of at most {judged.threshold.alpha:.0%}",
        unit="share of questions",
        baseline=f"its error there: {errors:.3f}; both systems together right: {right(pair).mean():.3f}",
        seeds=1,
        command=COMMAND,
    )


def gate_row(judged: Judged, alone: Sequence[Answered], deep: Sequence[Answered]) -> Row:
    """System 2 calls that the gate saves against the best threshold on confidence, at equal accuracy."""
    begun = time.monotonic()
    score = np.array([own.reply.score for own in alone])
    confidence = np.array([own.reply.confidence for own in alone])
    one, two = right(alone), right(deep)
    called = score < judged.threshold.value
    target = np.where(called, two, one).mean()
    fewest = float("inf")
    for cut in np.unique(confidence):
        own = confidence < cut
        if np.where(own, two, one).mean() >= target:
            fewest = min(fewest, own.mean())
    fixed = confidence < 0.7
    luck = np.random.default_rng(0).random(len(called)) < called.mean()
    saved = 1 - called.mean() / fewest if np.isfinite(fewest) and fewest > 0 else 0.0
    spread = bootstrap_mean(called.astype(float).tolist(), np.random.default_rng(0))
    bounds = [1 - x / fewest if np.isfinite(fewest) and fewest > 0 else 0.0 for x in (spread.high, spread.low)]
    return Row.of(
        Interval(float(saved), float(bounds[0]), float(bounds[1])),
        target=0.3,
        begun=begun,
        claim="System 2 calls saved by the gate against the best threshold on confidence, at equal accuracy",
        unit="share of calls",
        baseline=f"gate calls {called.mean():.3f} for {target:.3f} right; 0.7 fixed calls {fixed.mean():.3f} for "
        f"{np.where(fixed, two, one).mean():.3f}; a random gate of the same share is right on "
        f"{np.where(luck, two, one).mean():.3f}",
        seeds=1,
        command=COMMAND,
    )


def tier_rows(pair: Sequence[Answered], deep: Sequence[Answered]) -> list[Row]:
    """Compute of the pair with its tiers against always the full System 2."""
    begun = time.monotonic()
    cost = ratio(flops(pair), flops(deep))
    lost = right(deep).mean() - right(pair).mean()
    return [
        Row.of(
            Interval(1 - cost.value, 1 - cost.high, 1 - cost.low),
            target=0.4,
            begun=begun,
            claim="floating-point operations saved by the tiers against always the full System 2",
            unit="share",
            baseline=f"right answers lost: {lost:.3f} (at most 0.03 are allowed)",
            seeds=1,
            command=COMMAND,
        )
    ]


def latency_row(judged: Judged, prompts: Sequence[str]) -> Row:
    """Mean wall time of single questions, in pairs one after the other."""
    begun = time.monotonic()
    agents = [
        Agent(judged.system1, judged.system2, judged.gate, judged.threshold.value),
        Agent(judged.system1, judged.system2, judged.gate, np.inf, np.inf),
    ]
    times = np.array(
        [[agent.act([Request(Reasoning.name, prompt)])[0].latency_ms for agent in agents] for prompt in prompts]
    )  # (questions, 2)
    return Row.of(
        ratio(times[10:, 1], times[10:, 0]),
        target=1.8,
        begun=begun,
        claim="mean latency of always System 2 against the pair, batch 1, traffic mix",
        unit="times",
        baseline=f"{times[10:, 1].mean():.1f} ms against {times[10:, 0].mean():.1f} ms",
        seeds=1,
        command=COMMAND,
    )


def main() -> None:
    """Measure all and write them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pair")
    parser.add_argument("--questions", type=int, default=1000)
    number = parser.parse_args().questions
    torch.set_num_threads(load_params(RunParams, "run").threads)
    judged = Judged.load(Path("artifacts"))
    questions, asked = read_questions(read_problems(open_data()["reasoning problems"], "valid_unseen"))
    domain, asked = Reasoning(questions), asked[:number]
    tries = {
        name: answer_questions(Agent(judged.system1, judged.system2, judged.gate, threshold, deep), domain, asked, name)
        for name, threshold, deep in (
            ("system 1 alone", -np.inf, None),
            ("system 2 alone", np.inf, np.inf),
            ("pair", judged.threshold.value, None),
        )
    }
    rows = [
        *hard_rows(judged, tries["system 2 alone"]),
        share_row(judged, tries["pair"]),
        gate_row(judged, tries["system 1 alone"], tries["system 2 alone"]),
        *tier_rows(tries["pair"], tries["system 2 alone"]),
        latency_row(judged, [as_prompt(problem.text) for problem in asked[: TIMED + 10]]),
    ]
    write_rows("pair", rows)
    for row in rows:
        print(f"{row.claim}: {row.value:.3f} [{row.low:.3f}, {row.high:.3f}] {row.unit} ({row.baseline})", flush=True)


if __name__ == "__main__":
    main()
