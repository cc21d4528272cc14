"""Clones the experts into a system: from validated decisions to a checkpoint."""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from accelerate import PartialState
from pydantic import BaseModel, ConfigDict, Field

from dualmind.data.decisions import DecisionRow, read_decisions
from dualmind.data.problems import read_problems
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.domains.household.belief import object_words
from dualmind.errors import ParamsError
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
DEMONSTRATED = ("train", "valid_train")  # splits of which there are decisions
EASY = 2  # hops of a question that System 1 is meant to answer


class DataParams(BaseModel):
    """What both systems do not learn here, but later (see :mod:`stages.consolidate`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    held_back: list[
        str
    ]  # kinds of problems, such as "reasoning/boolean"; their words are in the vocabulary all the same


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
    params: PretrainParams,
    run: RunParams,
    decisions: Mapping[str, ValidatedDataset],
    out: Path,
    held_back: Collection[str] = (),
) -> Checkpoint:
    """Train a system on the experts' decisions; write a checkpoint folder ``out`` and its metrics beside it.

    Runs on one process, or on several under ``accelerate launch -m stages.pretrain system1``: the first one writes.

    Args:
        params: of which system.
        run: seed and threads.
        decisions: of each domain.
        out: the folder.
        held_back: ids of the problems whose decisions are neither learnt nor judged.

    Raises:
        ReceiptMismatch: the data changed since they were validated.
        CheckpointError: a published checkpoint cannot be loaded.
    """
    torch.set_num_threads(run.threads)
    everything, valid = (
        [row for dataset in decisions.values() for row in read_decisions(dataset, split)]
        for split in ("train", "valid_train")
    )
    system = build(params, everything, run.seed)
    train, valid = ([row for row in rows if row.problem_id not in held_back] for rows in (everything, valid))
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


def problems_of(kinds: Collection[str], problems: Mapping[str, ValidatedDataset]) -> frozenset[str]:
    """Ids of all problems of some kinds that experts demonstrate.

    Args:
        kinds: such as "reasoning/boolean".
        problems: of each domain.

    Raises:
        ParamsError: there are no problems of such a kind.
        ReceiptMismatch: the data changed since they were validated.
    """
    found: dict[str, set[str]] = {}
    for domain in problems if kinds else ():
        for split in DEMONSTRATED:
            for row in read_problems(problems[domain], split):
                found.setdefault(f"{domain}/{row.task_type}", set()).add(row.problem_id)
    if missing := [kind for kind in kinds if kind not in found]:
        raise ParamsError(
            f"pretrain.data.held_back holds {missing[0]!r}, of which there are no problems; there are: "
            f"{', '.join(sorted(found))}"
        )
    return frozenset(problem for kind in kinds for problem in found[kind])


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
    choices = [row for row in rows if row.candidates]
    thinks = isinstance(params, System2Params)
    prompts = [with_plan(row.prompt, row.rationale) if thinks else row.prompt for row in choices]
    pairs = [(row.prompt, text) for row, text in written(params, rows, seed)]
    return Lessons(
        scoring=TokenizedDecisions.of(choices, system, prompts) if choices else None,
        writing=TokenizedTexts.of([p for p, _ in pairs], [t for _, t in pairs], system.tokenizer) if pairs else None,
        renameable=renameable(choices, system),
    )


def written(params: PretrainParams, rows: Sequence[DecisionRow], seed: int) -> list[tuple[DecisionRow, str]]:
    """Decisions of which a system learns to write a text, and the text: questions first, then plans (System 2)."""
    choices, questions = [row for row in rows if row.candidates], [row for row in rows if not row.candidates]
    luck = np.random.default_rng([seed, 3]).random(len(questions))
    if isinstance(params, System1Params):
        kept = luck < params.hard_share
        return [(row, row.target) for row, keep in zip(questions, kept, strict=True) if keep or row.hops <= EASY]
    pairs = [
        (row, f"{ANSWER} {row.target}" if short else row.rationale)
        for row, short in zip(questions, luck < params.direct_share, strict=True)
    ]
    return pairs + [(row, row.rationale) for row in choices]


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


def load_system_params(item: str) -> PretrainParams:
    """How a system is cloned, by the name that DVC gives a stage.

    Raises:
        ParamsError: the section is missing or out of form.
    """
    match item:
        case "system1":
            return load_params(System1Params, f"pretrain.{item}")
        case "system2":
            return load_params(System2Params, f"pretrain.{item}")
        case _:
            raise SystemExit(f"there is no system {item!r}; give system1 or system2")


def main(item: str) -> None:
    """Run the stage in the current folder."""
    params, data = load_system_params(item), load_params(DataParams, "pretrain.data")
    decisions, problems = (
        {domain: open_validated(Path(f"artifacts/validate/{domain}/{name}.json")) for domain in DOMAINS}
        for name in ("decisions", "problems")
    )
    held_back = problems_of(data.held_back, problems)
    pretrain(params, load_params(RunParams, "run"), decisions, Path("artifacts/pretrain") / item, held_back)


if __name__ == "__main__":
    main(sys.argv[1])
