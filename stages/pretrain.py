"""Clones an expert into a system: from validated decisions to a checkpoint."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from pydantic import BaseModel, ConfigDict

from dualmind.data.decisions import DecisionRow, read_decisions
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.domains.household.belief import object_words
from dualmind.learning.batching import TokenizedDecisions
from dualmind.learning.cloning import CloningParams, CloningReport, clone
from dualmind.models.checkpoint import Checkpoint, Meta, save_checkpoint
from dualmind.models.system1 import ModelParams, System1
from dualmind.storage import write_json
from stages.params import RunParams, load_params


class PretrainParams(BaseModel):
    """Which model, and how it is cloned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: ModelParams
    cloning: CloningParams


def pretrain(params: PretrainParams, run: RunParams, decisions: ValidatedDataset, out: Path) -> Checkpoint:
    """Train System 1 on an expert's decisions; write a checkpoint folder ``out`` and its metrics beside it.

    Runs on one process, or on several under ``accelerate launch -m stages.pretrain system1``: the first one writes.

    Raises:
        ReceiptMismatch: the data changed since they were validated.
        CheckpointError: a published checkpoint cannot be loaded.
    """
    torch.set_num_threads(run.threads)
    train, valid = read_decisions(decisions, "train"), read_decisions(decisions, "valid_train")
    system1 = System1.build(params.model, texts(train), run.seed)
    report = clone(
        system1,
        TokenizedDecisions.of(train, system1),
        TokenizedDecisions.of(valid, system1),
        params.cloning,
        renameable=renameable(train, system1),
        seed=run.seed,
    )
    meta = Meta(
        kind="system1",
        parents={"decisions": decisions.md5},
        seed=run.seed,
        threads=run.threads,
        steps=params.cloning.steps,
        num_parameters=system1.num_parameters,
        metrics={"valid_loss": report.valid_loss, "valid_accuracy": report.valid_accuracy},
    )
    if PartialState().is_main_process:
        save_checkpoint(out, system1.model, system1.tokenizer, meta)
        write_json(out.with_suffix(".json"), _metrics(report, system1, train))
    PartialState().wait_for_everyone()
    return Checkpoint.open(out)


def texts(rows: Sequence[DecisionRow]) -> list[str]:
    """All text that a model reads of these decisions, for a vocabulary."""
    return [text for row in rows for text in (row.prompt, *row.candidates)]


def renameable(rows: Sequence[DecisionRow], system1: System1) -> frozenset[int]:
    """Ids of words for things that can be taken; words that are unknown or of several tokens stay as they are."""
    words = sorted(object_words(candidate for row in rows for candidate in row.candidates))
    ids = system1.command_ids(words)
    return frozenset(own[0] for own in ids if len(own) == 1 and own[0] != system1.tokenizer.unk_token_id)


def _metrics(report: CloningReport, system1: System1, train: list[DecisionRow]) -> dict[str, Any]:
    return {
        "valid_loss": report.valid_loss,
        "valid_accuracy": report.valid_accuracy,
        "num_parameters": system1.num_parameters,
        "train_decisions": len(train),
        "curve": [{"step": step, "loss": loss} for step, loss in report.curve],
    }


def main(item: str) -> None:
    """Run the stage in the current folder."""
    params = load_params(PretrainParams, f"pretrain.{item}")
    decisions = open_validated(Path("artifacts/validate/household/decisions.json"))
    pretrain(params, load_params(RunParams, "run"), decisions, Path("artifacts/pretrain") / item)


if __name__ == "__main__":
    main(sys.argv[1])
