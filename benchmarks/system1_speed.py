"""System 1's latency, and its cloning throughput beside Hugging Face's ``Seq2SeqTrainer`` in one run.

Both train the same model on the same decisions with the same loss, batch size and thread, and both embed each distinct
command of a batch once; the trainer has AdamW and draws batches at random, ours has Muon and batches of like length.

    python -m benchmarks.system1_speed
"""

import tempfile
import time
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, set_seed

from benchmarks.household_success import demonstrations
from benchmarks.results_file import Row, write_rows
from dualmind.data.decisions import DecisionRow
from dualmind.domains.household.generate import generate_games
from dualmind.evaluation.intervals import bootstrap_mean
from dualmind.evaluation.latency import latency
from dualmind.learning.batching import TokenizedDecisions
from dualmind.learning.cloning import CloningParams, Lessons, clone
from dualmind.models.system1 import System1
from stages.params import load_params
from stages.pretrain import System1Params, texts

STEPS, BATCH, REPEATS = 30, 64, 3


class ForTrainer(nn.Module):
    """The scorer as a model whose forward gives the loss."""

    def __init__(self, system1: System1) -> None:
        super().__init__()
        self.scorer = system1.scorer

    def forward(self, batch: Any, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": F.cross_entropy(self.scorer(batch), labels)}


def ours(system1: System1, decisions: TokenizedDecisions, params: CloningParams) -> float:
    """Decisions per second of our loop."""
    start = time.perf_counter()
    clone(system1, Lessons(decisions, None), params, seed=0)
    return STEPS * BATCH / (time.perf_counter() - start)


def theirs(system1: System1, decisions: TokenizedDecisions) -> float:
    """Decisions per second of the trainer's loop, by its own clock."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = Seq2SeqTrainingArguments(
            output_dir=folder, max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=3e-3, use_cpu=True,
            save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True, remove_unused_columns=False,
        )  # fmt: skip

        def collate(indices: list[int]) -> dict[str, Any]:
            batch, labels = decisions.batch(indices)
            return {"batch": batch, "labels": labels}

        trainer = Seq2SeqTrainer(
            model=ForTrainer(system1), args=arguments, train_dataset=range(len(decisions)), data_collator=collate
        )
        trainer._prepare_inputs = lambda inputs: inputs  # our batch is no dict of tensors; it is on the CPU already
        seconds = trainer.train().metrics["train_runtime"]
    return STEPS * BATCH / float(seconds)


def throughput_row(rows: list[DecisionRow], params: System1Params) -> Row:
    """Ratio of the two, in pairs one after the other."""
    begun, pairs = time.monotonic(), []
    cloning = params.cloning.model_copy(update={"steps": STEPS, "batch_size": BATCH, "warmup_steps": 0})
    for seed in range(REPEATS):
        set_seed(seed)
        systems = [System1.build(params.model, texts(rows), seed) for _ in range(2)]
        decisions = TokenizedDecisions.of(rows, systems[0])
        pairs.append((ours(systems[0], decisions, cloning), theirs(systems[1], decisions)))
    ratio = bootstrap_mean([a / b for a, b in pairs], np.random.default_rng(0))
    mine, other = (float(np.mean(side)) for side in zip(*pairs, strict=True))
    return Row.of(
        ratio,
        target=1.5,
        begun=begun,
        claim="cloning throughput against Seq2SeqTrainer, same model, loss, batch and data",
        unit="times",
        baseline=f"{mine:,.0f} decisions/s, Seq2SeqTrainer {other:,.0f} decisions/s",
        seeds=REPEATS,
        command="python -m benchmarks.system1_speed",
    )


def latency_row(rows: list[DecisionRow], params: System1Params) -> Row:
    """The 99th percentile over decisions; the interval is over repetitions."""
    begun = time.monotonic()
    system1 = System1.build(params.model, texts(rows), 0)
    system1.scorer.eval()
    found = [latency(system1, [(row.prompt, row.candidates) for row in rows[:500]]) for _ in range(5)]
    p99 = bootstrap_mean([one.p99_ms for one in found], np.random.default_rng(0))
    p50 = float(np.mean([one.p50_ms for one in found]))
    return Row.of(
        p99,
        target=50.0,
        at_most=True,
        begun=begun,
        claim="System 1 p99 latency, batch 1, from text to log-probabilities",
        unit="ms",
        baseline=f"median {p50:.1f} ms",
        seeds=5,
        command="python -m benchmarks.system1_speed",
    )


def main() -> None:
    """Measure both and write them."""
    warnings.simplefilter("ignore")  # the trainer's own
    torch.set_num_threads(1)
    rows = demonstrations(generate_games({"train": 300}, seed=0))
    params = load_params(System1Params, "pretrain.system1")
    found = [latency_row(rows, params), throughput_row(rows, params)]
    write_rows("system1_speed", found)
    for row in found:
        print(f"{row.claim}: {row.value:.2f} {row.unit} [{row.low:.2f}, {row.high:.2f}] ({row.baseline})")


if __name__ == "__main__":
    main()
