"""The memory gateway on repeated traffic: hits by level, System 2's calls that are saved, and what that costs in truth.

A small pair is trained first. Then the same questions come again and again, some much more often than others (Zipf);
System 1 keeps half of the distinct ones, and what it is unsure of goes to System 2 or its memory. A memory's answer
counts as wrong where System 2, asked at that moment, says something else. Intervals resample whole streams of traffic.

    python -m benchmarks.memory_gateway
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.results_file import Row, write_rows
from dualmind.agent.agent import Agent, Reply, Request
from dualmind.agent.gate import Gate, confidence_gate
from dualmind.domains.reasoning.domain import Reasoning, as_prompt
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.generate import Mix, generate_questions
from dualmind.domains.reasoning.question import Question
from dualmind.evaluation.intervals import bootstrap_mean
from dualmind.learning.cloning import CloningParams, Lessons, clone
from dualmind.learning.writing import TokenizedTexts
from dualmind.memory.core import Core
from dualmind.memory.gateway import Gateway
from dualmind.memory.recall import Recall, Tally
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.symbolic.checker import ReasoningChecker
from stages.params import load_params
from stages.pretrain import System1Params, System2Params

PARAMS = Path(__file__).resolve().parents[1] / "params.yaml"
COMMAND = "python -m benchmarks.memory_gateway"
WIDTH = 64  # of both systems
STEPS, BATCH = (150, 400), (32, 48)  # of System 1 and System 2
DISTINCT, REQUESTS, EXPONENT = 400, 1200, 1.1
EPISODE, STREAMS = 100, 3  # requests a working memory lives for; streams of traffic
WORKING, SHARED, CORE = 8, 32, 10_000
PROBES = 0.02
ONE, TWO = "system 1 of this benchmark", "system 2 of this benchmark"


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream as it went."""

    rates: dict[str, float]
    tally: Tally
    wrong: float  # share of remembered answers that System 2 would not give
    near_wrong: float  # share of new questions whose most similar one has another answer


def questions() -> list[Question]:
    """For training and for traffic, of a family that a System 2 of this size learns within a minute."""
    families = [family for family in FAMILIES if family.name == "brackets"]
    mix = Mix(easy_share=None, max_hops=8)
    return generate_questions({"train": 4000, "valid_unseen": DISTINCT}, mix, 0, families)


def train(asked: Sequence[Question]) -> tuple[System1, System2]:
    """A small pair: System 1 learns answers, System 2 steps and answers."""
    own = [question for question in asked if question.split == "train"]
    prompts = [as_prompt(question.text) for question in own]
    texts = [*prompts, *(question.rationale for question in own)]
    one, two = (
        load_params(System1Params, "pretrain.system1", PARAMS),
        load_params(System2Params, "pretrain.system2", PARAMS),
    )
    small = {"d_model": WIDTH, "d_ff": 2 * WIDTH}
    system1 = System1.build(one.model.model_copy(update=small), texts, 0)
    system2 = System2.build(two.model.model_copy(update={**small, "num_experts": 0}), texts, 0)

    def params(cloning: CloningParams, system: int) -> CloningParams:
        return cloning.model_copy(update={"steps": STEPS[system], "writing_batch_size": BATCH[system]})

    answers = [question.answer for question in own]
    clone(
        system1, Lessons(None, TokenizedTexts.of(prompts, answers, system1.tokenizer)), params(one.cloning, 0), seed=0
    )
    steps = [question.rationale for question in own]
    clone(system2, Lessons(None, TokenizedTexts.of(prompts, steps, system2.tokenizer)), params(two.cloning, 1), seed=0)
    return system1, system2


def gate_of(system1: System1, system2: System2, requests: Sequence[Request]) -> tuple[Gate, float]:
    """A gate that goes by confidence alone, and the threshold at which System 1 keeps half of the questions."""
    gate = confidence_gate(ONE, [Reasoning.name], WIDTH)
    firsts = system1.answer([request.prompt for request in requests], [()] * len(requests))
    _, scores = Agent(system1, system2, gate, 0.0).judge(requests, firsts)
    return gate, float(np.median(scores))


def play(plain: Agent, requests: Sequence[Request], truths: Sequence[str], path: Path, seed: int) -> Stream:
    """A stream of traffic to the agent with an empty memory."""
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, DISTINCT + 1) ** EXPONENT
    order = rng.permutation(DISTINCT)[rng.choice(DISTINCT, REQUESTS, p=chances / chances.sum())]
    with Gateway(Core(path, CORE), shared=SHARED, working=WORKING) as gateway:
        memory = Recall(gateway, system1=ONE, system2=TWO, rng=rng, probe_share=PROBES, checker=ReasoningChecker())
        agent = Agent(plain.system1, plain.system2, plain.gate, plain.threshold, plain.deep, memory)
        replies: list[Reply] = []
        for number, index in enumerate(order):
            if number and number % EPISODE == 0:
                memory.new_episode()
            replies += agent.act([requests[index]])
        wrong = [r.answer != truths[i] for r, i in zip(replies, order, strict=True) if r.remembered]
        gateway.flush()
        near_wrong = nearest(plain, gateway, requests, truths)
        return Stream(gateway.counts.hit_rates(), memory.tally, float(np.mean(wrong)), near_wrong)


def nearest(plain: Agent, gateway: Gateway, requests: Sequence[Request], truths: Sequence[str]) -> float:
    """Were the most similar question's answer given: how often is it another than System 2's?"""
    firsts = plain.system1.answer([request.prompt for request in requests], [()] * len(requests))
    wrong = []
    for first, truth in zip(firsts, truths, strict=True):
        found = gateway.near(Reasoning.name, ONE, first.reading.astype(np.float32), 2)
        others = [entry for entry, cosine in found if cosine < 1 - 1e-6]  # not the question itself
        if others:
            wrong.append(others[0].answer != truth)
    return float(np.mean(wrong))


def rows(streams: Sequence[Stream], begun: float) -> list[Row]:
    """One row a figure."""
    traffic = f"{REQUESTS} requests for {DISTINCT} questions, Zipf {EXPONENT}"

    def row(
        values: Sequence[float], claim: str, baseline: str, *, target: float | None = None, most: bool = False
    ) -> Row:
        return Row.of(
            bootstrap_mean(values, np.random.default_rng(0)), target=target, at_most=most, begun=begun,
            claim=claim, unit="share", baseline=baseline, seeds=len(streams), command=COMMAND,
        )  # fmt: skip

    sizes = {"working": WORKING, "shared": SHARED, "core": CORE}
    made = [
        row(
            [stream.rates[name] for stream in streams],
            f"hit rate of the {name} level, of the reads that reach it", f"{sizes[name]} entries; {traffic}",
        )
        for name in sizes
    ]  # fmt: skip
    made.append(row([stream.rates["all"] for stream in streams], "hit rate of all levels together", traffic))
    saved = [stream.tally.recalled / stream.tally.asked for stream in streams]
    refused = float(np.mean([stream.tally.refused / stream.tally.asked for stream in streams]))
    made.append(
        row(saved, "System 2's calls that the memory saves",
            f"without a memory 0; {PROBES} of hits ask all the same, {refused:.3f} of calls give answers that the "
            "checker refuses to keep")
    )  # fmt: skip
    made.append(
        row([stream.wrong for stream in streams], "remembered answers that System 2 would not give now",
            "System 2 asked anew for each", target=0.0, most=True)
    )  # fmt: skip
    made.append(
        row([stream.near_wrong for stream in streams],
            "answers of the most similar other question that System 2 would not give",
            "why only the exact question is answered from memory")
    )  # fmt: skip
    return made


def main() -> None:
    """Train, measure and write."""
    begun = time.monotonic()
    torch.set_num_threads(1)
    asked = questions()
    system1, system2 = train(asked)
    requests = [Request(Reasoning.name, as_prompt(own.text)) for own in asked if own.split != "train"]
    gate, threshold = gate_of(system1, system2, requests)
    plain = Agent(system1, system2, gate, threshold, np.inf)
    truths = [thought.answer for thought in system2.answer([request.prompt for request in requests])]
    with tempfile.TemporaryDirectory() as folder:
        streams = [play(plain, requests, truths, Path(folder) / f"{seed}.db", seed) for seed in range(STREAMS)]
    made = rows(streams, begun)
    write_rows("memory_gateway", made)
    for row in made:
        print(f"{row.claim}: {row.value:.3f} [{row.low:.3f}, {row.high:.3f}] ({row.baseline})", flush=True)


if __name__ == "__main__":
    main()
