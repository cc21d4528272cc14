"""System 2 teaches System 1; what counts is the share of decisions that System 1 can keep afterwards."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from dualmind.data.decisions import DecisionRow, read_decisions
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.learning.distillation import DistillationParams, distill, share_at_error
from dualmind.models.checkpoint import Checkpoint, Meta, save_checkpoint
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.storage import write_json
from stages.params import RunParams, load_params

DOMAINS = ("household", "reasoning")
SOURCE = Path("artifacts/consolidate")  # folder of the stage whose systems teach and learn; dvc.yaml names it too
_BATCH = 128


class DistillParams(BaseModel):
    """What is taught and how it is judged."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_decisions: PositiveInt  # of each domain that System 2 is asked
    max_judged: PositiveInt  # of each domain that both are judged on
    max_error: Annotated[float, Field(ge=0, lt=1)]  # of the answers that System 1 keeps
    tolerance: Annotated[float, Field(ge=0, lt=1)]  # accuracy that may be lost in a domain, or the input is kept
    learning: DistillationParams


def distill_system1(
    params: DistillParams,
    run: RunParams,
    teacher: Checkpoint,
    student: Checkpoint,
    decisions: Mapping[str, ValidatedDataset],
    out: Path,
) -> Checkpoint:
    """Teach; write a checkpoint ``out`` and its metrics beside it.

    Where System 1 loses accuracy in a domain, or can keep fewer decisions, it is handed on as it came: ``kept_input``
    is 1.

    Raises:
        DistillationError: the vocabularies differ, or System 2 gets nothing right.
        CheckpointError: a checkpoint is damaged.
        ReceiptMismatch: the data changed since they were validated.
    """
    torch.set_num_threads(run.threads)
    system2, system1 = System2.load(teacher.path), System1.load(student.path)
    train = [row for data in decisions.values() for row in _spread(data, "train", params.max_decisions)]
    valid = {domain: _spread(data, "valid_train", params.max_judged) for domain, data in decisions.items()}
    said = {domain: _said(system2, rows) for domain, rows in valid.items()}
    before = {domain: judge(system1, rows, said[domain], params.max_error) for domain, rows in valid.items()}
    report = distill(system2, system1, train, params.learning, seed=run.seed)
    after = {domain: judge(system1, rows, said[domain], params.max_error) for domain, rows in valid.items()}
    gain = statistics.fmean(after[domain]["share"] - before[domain]["share"] for domain in valid)
    lost = [d for d in valid if before[d]["accuracy"] - after[d]["accuracy"] > params.tolerance]
    if keeps_input := bool(lost) or gain < 0:
        system1 = System1.load(student.path)
    handed_on = before if keeps_input else after
    meta = Meta(
        kind="system1",
        parents={
            "system1": student.digest,
            "system2": teacher.digest,
            **{f"{domain} decisions": data.md5 for domain, data in decisions.items()},
        },
        seed=run.seed,
        threads=run.threads,
        steps=0 if keeps_input else params.learning.steps,
        num_parameters=system1.num_parameters,
        metrics={f"{domain}_{name}": value for domain, own in handed_on.items() for name, value in own.items()},
    )
    saved = save_checkpoint(out, system1.model, system1.tokenizer, meta)
    summary: dict[str, Any] = {
        "kept_input": int(keeps_input), "share_gained": gain, "before": before, "after": after,
        "offered": report.offered, "taught": report.taught,
    }  # fmt: skip
    write_json(out.with_suffix(".json"), {**summary, "curve": report.curve})
    return saved


def _spread(data: ValidatedDataset, split: str, most: int) -> list[DecisionRow]:
    """Decisions of a split, of many ``most`` evenly spread ones."""
    rows = read_decisions(data, split)
    return rows[:: max(1, -(-len(rows) // most))]


def judge(system1: System1, rows: Sequence[DecisionRow], said: Sequence[str], max_error: float) -> dict[str, float]:
    """Accuracy of System 1, its agreement with System 2, and the share that it can keep at an error.

    Args:
        system1: is judged.
        rows: decisions, at least one.
        said: System 2's answer to each.
        max_error: of the answers that System 1 keeps.
    """
    answers = [
        answer
        for start in range(0, len(rows), _BATCH)
        for answer in system1.answer(
            [row.prompt for row in rows[start : start + _BATCH]],
            [row.candidates for row in rows[start : start + _BATCH]],
        )
    ]
    right = [answer.answer == row.target for answer, row in zip(answers, rows, strict=True)]
    agreed = [answer.answer == other for answer, other in zip(answers, said, strict=True)]
    return {
        "accuracy": statistics.fmean(right),
        "agreement": statistics.fmean(agreed),
        "share": share_at_error([answer.confidence for answer in answers], right, max_error),
    }


def _said(system2: System2, rows: Sequence[DecisionRow]) -> list[str]:
    """System 2's answers, its commands chosen by its plan."""
    found: dict[str, str] = {}
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        choices, questions = [row for row in batch if row.candidates], [row for row in batch if not row.candidates]
        if choices:
            chosen = system2.choose([row.prompt for row in choices], [row.candidates for row in choices])
            found |= {row.example_id: own.answer for row, own in zip(choices, chosen, strict=True)}
        if questions:
            written = system2.answer([row.prompt for row in questions])
            found |= {row.example_id: own.answer for row, own in zip(questions, written, strict=True)}
    return [found[row.example_id] for row in rows]


def main() -> None:
    """Run the stage in the current folder."""
    decisions = {domain: open_validated(Path(f"artifacts/validate/{domain}/decisions.json")) for domain in DOMAINS}
    pair = [Checkpoint.open(SOURCE / name) for name in ("system2", "system1")]
    params, run = load_params(DistillParams, "distill"), load_params(RunParams, "run")
    distill_system1(params, run, pair[0], pair[1], decisions, Path("artifacts/distill/system1"))


if __name__ == "__main__":
    main()
