"""A system learns one kind of task after the other; what it forgets is measured, beside controls."""

import copy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from dualmind.data.decisions import DecisionRow, read_decisions
from dualmind.data.problems import read_problems
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.errors import ParamsError
from dualmind.evaluation.plots import heat_map
from dualmind.html import page
from dualmind.learning.consolidation import ConsolidationParams, Method, consolidate
from dualmind.learning.decision_tasks import decision_task
from dualmind.learning.stream import Task
from dualmind.learning.transfer import Trajectory
from dualmind.models.checkpoint import Checkpoint, Meta, save_checkpoint
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.storage import write_json, write_text
from stages.params import RunParams, load_params

DOMAINS = ("household", "reasoning")


class ConsolidateParams(BaseModel):
    """Which tasks are learnt in which order, and how."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stream: list[str] = Field(min_length=1)  # task types and families, such as "household/pick_and_place_simple"
    from_scratch: bool  # new random weights of the same sizes, so that no task has been learnt before
    method: Method  # whose model is kept
    controls: list[Method]  # others that are measured beside it
    max_examples: PositiveInt  # decisions of each task at most
    learning: ConsolidationParams


def consolidate_system(
    params: ConsolidateParams,
    run: RunParams,
    checkpoint: Checkpoint,
    decisions: Mapping[str, ValidatedDataset],
    problems: Mapping[str, ValidatedDataset],
    out: Path,
) -> Checkpoint:
    """Learn the stream; write a checkpoint ``out``, its metrics and a page with a heat map beside it.

    Raises:
        ParamsError: a task of the stream is not in the data.
        ConsolidationError: the replay buffer is smaller than its part of a batch.
        CheckpointError: the checkpoint is damaged.
        ReceiptMismatch: the data changed since they were validated.
    """
    torch.set_num_threads(run.threads)
    train, valid = (_rows(decisions, problems, split, params.max_examples) for split in ("train", "valid_train"))
    found: dict[str, Trajectory] = {}
    kept: System1 | System2 | None = None
    for method in dict.fromkeys([params.method, *params.controls]):
        system = _start(checkpoint, params.from_scratch, run.seed)
        stream, tests = (_tasks(params.stream, rows, system) for rows in (train, valid))
        found[method] = consolidate(
            stream, tests, method, params.learning, seed=run.seed, vectorized=isinstance(system, System1)
        )
        kept = kept or system
    assert kept is not None
    metrics = {method: trajectory.metrics() for method, trajectory in found.items()}
    meta = Meta(
        kind=checkpoint.meta.kind,
        parents={checkpoint.meta.kind: checkpoint.digest, **{f"{d} decisions": s.md5 for d, s in decisions.items()}},
        seed=run.seed,
        threads=run.threads,
        steps=params.learning.steps * len(params.stream),
        num_parameters=kept.num_parameters,
        metrics=metrics[params.method],
    )
    saved = save_checkpoint(out, kept.model, kept.tokenizer, meta)
    matrices = {method: {"before": t.before.tolist(), "after": t.after.tolist()} for method, t in found.items()}
    write_json(out.with_suffix(".json"), {"stream": params.stream, "methods": metrics, "accuracies": matrices})
    plots = [
        part for method, t in found.items() for part in (f"<h2>{method}</h2>", heat_map(t.names, t.after.tolist()))
    ]
    lead = "Accuracy on each task (columns) after each was learnt (rows)."
    write_text(out.with_suffix(".html"), page(f"Consolidation of {checkpoint.meta.kind}", lead, plots))
    return saved


def _start(checkpoint: Checkpoint, from_scratch: bool, seed: int) -> System1 | System2:
    """The system of a checkpoint, or one of its sizes with new weights."""
    system: System1 | System2
    system = System1.load(checkpoint.path) if checkpoint.meta.kind == "system1" else System2.load(checkpoint.path)
    if from_scratch:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return type(system)(type(system.model)(copy.deepcopy(system.model.config)), system.tokenizer)
    return system


def _rows(
    decisions: Mapping[str, ValidatedDataset], problems: Mapping[str, ValidatedDataset], split: str, most: int
) -> dict[str, list[DecisionRow]]:
    """Decisions of each task, the first ``most`` of it."""
    rows: dict[str, list[DecisionRow]] = {}
    for domain, dataset in decisions.items():
        types = {problem.problem_id: problem.task_type for problem in read_problems(problems[domain], split)}
        for row in read_decisions(dataset, split):
            own = rows.setdefault(f"{domain}/{types[row.problem_id]}", [])
            if len(own) < most:
                own.append(row)
    return rows


def _tasks(names: Sequence[str], rows: Mapping[str, list[DecisionRow]], system: System1 | System2) -> list[Task]:
    if missing := [name for name in names if name not in rows]:
        raise ParamsError(
            f"consolidate.stream holds {missing[0]!r}, of which there are no decisions; there are: "
            f"{', '.join(sorted(rows))}"
        )
    return [decision_task(name, rows[name], system) for name in names]


def main(item: str) -> None:
    """Run the stage in the current folder."""
    receipts = {
        name: {domain: open_validated(Path(f"artifacts/validate/{domain}/{name}.json")) for domain in DOMAINS}
        for name in ("decisions", "problems")
    }
    consolidate_system(
        load_params(ConsolidateParams, f"consolidate.{item}"), load_params(RunParams, "run"),
        Checkpoint.open(Path("artifacts/pretrain") / item), receipts["decisions"], receipts["problems"],
        Path("artifacts/consolidate") / item,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
