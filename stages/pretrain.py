"""Clones the experts into a system: from validated decisions to a checkpoint."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from accelerate import PartialState
from pydantic import BaseModel, ConfigDict, Field

from dualmind.data.decisions import DecisionRow, read_decisions
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.domains.household.belief import object_words
from dualmind.evaluation.answering import share_right
from dualmind.learning.batching import TokenizedDecisions
from dualmind.learning.cloning import CloningParams, CloningReport, Lessons, clone, judge
from dualmind.learning.writing import TokenizedTexts
from dualmind.models import system1, system2
from dualmind.models.checkpoint import Checkpoint, Meta, save_checkpoint
from dualmind.models.experts import routings
from dualmind.models.system1 import System1
from dualmind.models.system2 import ANSWER, System2, with_plan
from dualmind.models.text_model import TextModel
from dualmind.storage import write_json
from stages.params import RunParams, load_params

DOMAINS = ("household", "reasoning")
EASY = 2  # hops of a question that System 1 is meant to answer


class System1Params(BaseModel):
    """Which model is System 1, and how it is cloned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: system1.ModelParams
    hard_share: Annotated[float, Field(ge=0, le=1)]  # of the questions of 3 hops and more that it learns from
    cloning: CloningParams


class System2Params(BaseModel):
    """Which model is System 2, and how it is cloned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: system2.ModelParams
    direct_share: Annotated[float, Field(ge=0, le=1)]  # of questions answered without written steps, for the short tier
    cloning: CloningParams


PretrainParams = System1Params | System2Params


def pretrain(
    params: PretrainParams, run: RunParams, decisions: Mapping[str, ValidatedDataset], out: Path
) -> Checkpoint:
    """Train a system on the experts' decisions; write a checkpoint folder ``out`` and its metrics beside it.

    Runs on one process, or on several under ``accelerate launch -m stages.pretrain system1``: the first one writes.

    Args:
        params: of which system.
        run: seed and threads.
        decisions: of each domain.
        out: the folder.

    Raises:
        ReceiptMismatch: the data changed since they were validated.
        CheckpointError: a published checkpoint cannot be loaded.
    """
    torch.set_num_threads(run.threads)
    train = [row for dataset in decisions.values() for row in read_decisions(dataset, "train")]
    valid = [row for dataset in decisions.values() for row in read_decisions(dataset, "valid_train")]
    system = build(params, train, run.seed)
    report = clone(system, lessons(params, train, system, run.seed), params.cloning, seed=run.seed)
    metrics = judge_system(system, valid)
    meta = Meta(
        kind="system1" if isinstance(system, System1) else "system2",
        parents={f"{domain} decisions": dataset.md5 for domain, dataset in decisions.items()},
        seed=run.seed,
        threads=run.threads,
        steps=params.cloning.steps,
        num_parameters=system.num_parameters,
        metrics=metrics,
    )
    if PartialState().is_main_process:
        save_checkpoint(out, system.model, system.tokenizer, meta)
        write_json(out.with_suffix(".json"), _summary(report, system, train, metrics))
    PartialState().wait_for_everyone()
    return Checkpoint.open(out)


def build(params: PretrainParams, rows: Sequence[DecisionRow], seed: int) -> System1 | System2:
    """An untrained system with a vocabulary over all that either system reads or writes of these decisions."""
    if isinstance(params, System1Params):
        return System1.build(params.model, texts(rows), seed)
    return System2.build(params.model, texts(rows), seed)


def texts(rows: Iterable[DecisionRow]) -> list[str]:
    """All text of these decisions; the same for both systems, so that one can teach the other."""
    return [
        with_plan("", ANSWER),
        *(t for row in rows for t in (row.prompt, *row.candidates, row.target, row.rationale)),
    ]


def lessons(params: PretrainParams, rows: Sequence[DecisionRow], system: TextModel, seed: int) -> Lessons:
    """What a system learns: to choose commands, and to write answers (System 1), or steps and plans (System 2)."""
    choices, questions = [row for row in rows if row.candidates], [row for row in rows if not row.candidates]
    prompts = [row.prompt for row in choices]
    luck = np.random.default_rng([seed, 3]).random(len(questions))
    if isinstance(params, System1Params):
        kept = luck < params.hard_share
        pairs = [
            (row.prompt, row.target) for row, keep in zip(questions, kept, strict=True) if keep or row.hops <= EASY
        ]
    else:
        pairs = [
            (row.prompt, f"{ANSWER} {row.target}" if short else row.rationale)
            for row, short in zip(questions, luck < params.direct_share, strict=True)
        ]
        pairs += [(row.prompt, row.rationale) for row in choices]
        prompts = [with_plan(row.prompt, row.rationale) for row in choices]
    return Lessons(
        scoring=TokenizedDecisions.of(choices, system, prompts) if choices else None,
        writing=TokenizedTexts.of([p for p, _ in pairs], [t for _, t in pairs], system.tokenizer) if pairs else None,
        renameable=renameable(choices, system),
    )


def renameable(rows: Sequence[DecisionRow], system: TextModel) -> frozenset[int]:
    """Ids of words for things that can be taken; words that are unknown or of several tokens stay as they are."""
    words = sorted(object_words(candidate for row in rows for candidate in row.candidates))
    ids = system.command_ids(words)
    return frozenset(own[0] for own in ids if len(own) == 1 and own[0] != system.tokenizer.unk_token_id)


def judge_system(system: System1 | System2, valid: Sequence[DecisionRow]) -> dict[str, float]:
    """Metrics on decisions that were not learnt from."""
    choices, questions = [row for row in valid if row.candidates], [row for row in valid if not row.candidates]
    metrics: dict[str, float] = {}
    if choices:
        shown = [row.prompt if isinstance(system, System1) else with_plan(row.prompt, row.rationale) for row in choices]
        loss, accuracy = judge(system, TokenizedDecisions.of(choices, system, shown))
        metrics |= {"valid_loss": loss, "valid_accuracy": accuracy}
    if questions:
        metrics |= share_right(system, questions)
    return metrics


def _summary(
    report: CloningReport, system: TextModel, train: Sequence[DecisionRow], metrics: Mapping[str, float]
) -> dict[str, Any]:
    return {
        **metrics,
        "num_parameters": system.num_parameters,
        "train_decisions": {domain: sum(row.domain == domain for row in train) for domain in DOMAINS},
        "expert_shares": [routing.share.tolist() for routing in routings(system.model)],
        "curve": report.curve,
    }


def main(item: str) -> None:
    """Run the stage in the current folder."""
    params: PretrainParams
    match item:
        case "system1":
            params = load_params(System1Params, f"pretrain.{item}")
        case "system2":
            params = load_params(System2Params, f"pretrain.{item}")
        case _:
            raise SystemExit(f"there is no system {item!r}; give system1 or system2")
    decisions = {domain: open_validated(Path(f"artifacts/validate/{domain}/decisions.json")) for domain in DOMAINS}
    pretrain(params, load_params(RunParams, "run"), decisions, Path("artifacts/pretrain") / item)


if __name__ == "__main__":
    main(sys.argv[1])
