"""What makes look-ups learnable: keys that start equal to queries, a stem that hears neighbours, steps that spell all.

Each variant trains the same small reasoner on the same questions about keys and judges it on others.

    python -m benchmarks.look_up [--steps 300]
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.results_file import Row, write_rows
from dualmind.domains.reasoning.domain import as_prompt
from dualmind.domains.reasoning.families import FAMILIES
from dualmind.domains.reasoning.generate import Mix, generate_questions
from dualmind.domains.reasoning.question import Question, value, write_output
from dualmind.evaluation.intervals import bootstrap_mean
from dualmind.learning.cloning import Lessons, clone
from dualmind.learning.writing import TokenizedTexts
from dualmind.models.encoder_decoder import CompactEncoder
from dualmind.models.layers import CrossAttention, SelfAttention
from dualmind.models.system2 import System2
from stages.params import load_params
from stages.pretrain import System2Params

PARAMS = Path(__file__).resolve().parents[1] / "params.yaml"
VARIANTS = ("as it is", "keys drawn apart from queries", "stem starts at zero", "both", "steps say values only")
TRAIN, HELD_OUT, BATCH = 10_000, 800, 64


def spoil(system: System2, variant: str) -> None:
    """Take from an untrained model what the variant does without."""
    for module in system.model.modules():
        with torch.no_grad():
            if variant in {VARIANTS[1], VARIANTS[3]}:
                match module:
                    case SelfAttention():
                        torch.nn.init.normal_(module.qkv.weight.chunk(3)[1], std=module.out.in_features**-0.5)
                    case CrossAttention():
                        torch.nn.init.normal_(module.kv.weight.chunk(2)[0], std=module.out.in_features**-0.5)
            if variant in VARIANTS[2:4] and isinstance(module, CompactEncoder):
                module.stem.weight.zero_()


def rationale(question: Question, variant: str) -> str:
    """Steps and answer; of the last variant without what the steps take."""
    steps = [value(step) for step in question.steps] if variant == VARIANTS[4] else question.steps
    return write_output(steps, question.answer)


def learn(variant: str, questions: Sequence[Question], steps: int) -> list[bool]:
    """Train the variant; which held-out questions does it answer right?"""
    params = load_params(System2Params, "pretrain.system2", PARAMS)
    train = [question for question in questions if question.split == "train"]
    held_out = [question for question in questions if question.split != "train"]
    prompts, texts = [as_prompt(q.text) for q in train], [rationale(q, variant) for q in train]
    system = System2.build(params.model, [*prompts, *texts], seed=0)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        spoil(system, variant)
    lessons = Lessons(None, TokenizedTexts.of(prompts, texts, system.tokenizer))
    clone(system, lessons, params.cloning.model_copy(update={"steps": steps, "writing_batch_size": BATCH}), seed=0)
    said = system.answer([as_prompt(question.text) for question in held_out])
    return [own.answer == question.answer for own, question in zip(said, held_out, strict=True)]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.look_up")
    parser.add_argument("--steps", type=int, default=300, help="optimiser steps of each variant")
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    keys = [family for family in FAMILIES if family.name == "keys"]
    questions = generate_questions(
        {"train": TRAIN, "valid_unseen": HELD_OUT}, Mix(easy_share=None, max_hops=8), 0, keys
    )
    rows = []
    for variant in VARIANTS:
        begun = time.monotonic()
        found = bootstrap_mean(learn(variant, questions, steps), np.random.default_rng(0))
        row = Row.of(
            found, target=None, begun=begun, claim=f"key questions of 1 to 8 hops after {steps} steps: {variant}",
            unit="share right", baseline=f"{HELD_OUT} held-out questions", seeds=1,
            command=f"python -m benchmarks.look_up --steps {steps}",
        )  # fmt: skip
        rows.append(row)
        print(f"{variant}: {found.value:.3f} [{found.low:.3f}, {found.high:.3f}]", flush=True)
    write_rows("look_up", rows)


if __name__ == "__main__":
    main()
