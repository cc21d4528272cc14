"""A system learns new kinds of tasks and keeps what it knew; what it forgets is measured, beside controls."""

import copy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from dualmind.data.decisions import DecisionRow, read_decisions
from dualmind.data.problems import read_problems
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.errors import ParamsError
from dualmind.evaluation.keeping import worse
from dualmind.evaluation.plots import heat_map
from dualmind.html import page
from dualmind.learning.consolidation import ConsolidationParams, Method, consolidate
from dualmind.learning.decision_tasks import choosing_task, writing_task
from dualmind.learning.stream import Task
from dualmind.learning.transfer import Trajectory
from dualmind.models.checkpoint import Checkpoint, Meta, save_checkpoint
from dualmind.models.encoder_decoder import CompactForConditionalGeneration
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.storage import write_json, write_text
from stages.params import RunParams, load_params
from stages.pretrain import DOMAINS, PretrainParams, judge_system, load_system_params, written

SOURCE = Path("artifacts/curriculum/chain")  # whose systems are consolidated; dvc.yaml names it too
Rows = Mapping[str, list[DecisionRow]]  # of each task of the stream


class ConsolidateParams(BaseModel):
    """Which tasks are learnt in which order, and how."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # "reasoning/truth" is one kind of problems, "reasoning" all kinds of a domain that are not named by themselves
    stream: list[str] = Field(min_length=1)
    known: NonNegativeInt  # so many of the first have been learnt before; what comes after them is new
    from_scratch: bool  # new random weights of the same sizes, so that no task has been learnt before
    method: Method  # whose model is kept
    controls: list[Method]  # others that are measured beside it
    max_examples: PositiveInt  # decisions of each task at most
    max_judged: PositiveInt  # decisions of each task, of those kept for choices, that decide whether it is handed on
    tolerance: Annotated[float, Field(ge=0, lt=1)]  # share that may be lost of what was known, or the input is kept
    learning: ConsolidationParams


def consolidate_system(
    params: ConsolidateParams,
    pretrained: PretrainParams,
    run: RunParams,
    checkpoint: Checkpoint,
    decisions: Mapping[str, ValidatedDataset],
    problems: Mapping[str, ValidatedDataset],
    out: Path,
) -> Checkpoint:
    """Learn the stream; write a checkpoint ``out``, its metrics and a page with a heat map beside it.

    Where what was known suffers, or nothing new is learnt, the system is handed on as it came: ``kept_input`` is 1.

    Args:
        params: which tasks, and how.
        pretrained: how the system was cloned: known and new tasks are put to it in the same form.
        run: seed and threads.
        checkpoint: the parent.
        decisions: of each domain.
        problems: of each domain.
        out: the folder.

    Raises:
        ParamsError: a task of the stream is not in the data.
        ConsolidationError: the replay buffer is smaller than its part of a batch.
        CheckpointError: the checkpoint is damaged.
        ReceiptMismatch: the data changed since they were validated.
    """
    torch.set_num_threads(run.threads)
    train, valid = (
        rows_of(params.stream, decisions, problems, split, most)
        for split, most in (("train", params.max_examples), ("valid_train", params.max_judged))
    )
    system = _load(checkpoint)
    before, after = _judge(system, valid, params.known), {}
    found: dict[str, Trajectory] = {}
    kept = None
    if isinstance(system.model, CompactForConditionalGeneration):  # published models give no single gradients
        for method in dict.fromkeys([params.method, *params.controls]):
            system = _start(checkpoint, params.from_scratch, run.seed)
            found[method] = _learn(params, pretrained, run, method, system, train, valid)
            kept = kept or system
        assert kept is not None
        after = _judge(kept, valid, params.known)
    lost = ["nothing is learnt"] if kept is None else worse(before["known"], after["known"], params.tolerance)
    gains = [after["new"][name] - before["new"][name] for name in after.get("new", {})]
    keeps_input = not params.from_scratch and (bool(lost) or not any(gain > 0 for gain in gains))
    if kept is None or keeps_input:
        kept, after = _load(checkpoint), before
    metrics = {method: trajectory.metrics() for method, trajectory in found.items()}
    meta = Meta(
        kind=checkpoint.meta.kind,
        parents={checkpoint.meta.kind: checkpoint.digest, **{f"{d} decisions": s.md5 for d, s in decisions.items()}},
        seed=run.seed,
        threads=run.threads,
        steps=0 if keeps_input else params.learning.steps * (len(params.stream) - params.known),
        num_parameters=kept.num_parameters,
        metrics={f"{part}_{name}": value for part, own in after.items() for name, value in own.items()},
    )
    saved = save_checkpoint(out, kept.model, kept.tokenizer, meta)
    summary = {"kept_input": int(keeps_input), "before": before, "after": after, "methods": metrics}
    _write(out, checkpoint.meta.kind, summary, found)
    return saved


def _write(out: Path, kind: str, summary: Mapping[str, Any], found: Mapping[str, Trajectory]) -> None:
    """Metrics, and a page with a heat map of each method."""
    accuracies = {
        method: {"tasks": list(t.names), "before": t.before.tolist(), "after": t.after.tolist()}
        for method, t in found.items()
    }
    write_json(out.with_suffix(".json"), {**summary, "accuracies": accuracies})
    plots = [
        part for method, t in found.items() for part in (f"<h2>{method}</h2>", heat_map(t.names, t.after.tolist()))
    ]
    lead = "Accuracy on each task (columns) after each was learnt (rows). " + (
        "The system was handed on as it came." if summary["kept_input"] else "What the first one made is handed on."
    )
    write_text(out.with_suffix(".html"), page(f"Consolidation of {kind}", lead, plots))


def _learn(
    params: ConsolidateParams,
    pretrained: PretrainParams,
    run: RunParams,
    method: Method,
    system: System1 | System2,
    train: Rows,
    valid: Rows,
) -> Trajectory:
    """The stream by one method, with the system in place."""
    stream, tests = (
        [tasks_of(name, own, system, pretrained, run.seed) for name, own in rows.items()] for rows in (train, valid)
    )
    return consolidate(
        [task for own in stream for task in own],
        [task for own in tests for task in own],
        method,
        params.learning,
        seed=run.seed,
        vectorized=isinstance(system, System1),
        known=sum(map(len, stream[: params.known])),
    )


def tasks_of(
    name: str, rows: Sequence[DecisionRow], system: System1 | System2, pretrained: PretrainParams, seed: int
) -> list[Task]:
    """What a system learns of some decisions: commands to choose, texts to write, or both (System 2 plans)."""
    choices, texts = [row for row in rows if row.candidates], written(pretrained, rows, seed)
    tasks = [choosing_task(name, choices, system)] if choices else []
    if texts:
        label = f"{name}, plans" if choices else name
        tasks.append(writing_task(label, [row for row, _ in texts], [text for _, text in texts], system))
    return tasks


def rows_of(
    stream: Sequence[str],
    decisions: Mapping[str, ValidatedDataset],
    problems: Mapping[str, ValidatedDataset],
    split: str,
    most: int,
) -> dict[str, list[DecisionRow]]:
    """Decisions of each task of a stream, of many ``most`` evenly spread ones.

    Raises:
        ParamsError: there are none of a task.
        ReceiptMismatch: the data changed since they were validated.
    """
    found: dict[str, list[DecisionRow]] = {name: [] for name in stream}
    kinds: set[str] = set()
    for domain, dataset in decisions.items():
        types = {problem.problem_id: problem.task_type for problem in read_problems(problems[domain], split)}
        for row in read_decisions(dataset, split):
            kinds.add(kind := f"{domain}/{types[row.problem_id]}")
            if (name := kind if kind in found else domain) in found:
                found[name].append(row)
    if missing := [name for name, rows in found.items() if not rows]:
        raise ParamsError(
            f"consolidate.stream holds {missing[0]!r}, of which there are no decisions; there are: "
            f"{', '.join(sorted(kinds | set(decisions)))}"
        )
    return {name: rows[:: -(-len(rows) // most)] for name, rows in found.items()}


def _judge(system: System1 | System2, valid: Rows, known: int) -> dict[str, dict[str, float]]:
    """Shares that are right, of the tasks that were known and of the new ones."""
    names = list(valid)
    parts = {"known": names[:known], "new": names[known:]}
    return {part: judge_system(system, [row for n in own for row in valid[n]]) for part, own in parts.items()}


def _load(checkpoint: Checkpoint) -> System1 | System2:
    return System1.load(checkpoint.path) if checkpoint.meta.kind == "system1" else System2.load(checkpoint.path)


def _start(checkpoint: Checkpoint, from_scratch: bool, seed: int) -> System1 | System2:
    """The system of a checkpoint, or one of its sizes with new weights."""
    system = _load(checkpoint)
    if from_scratch:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return type(system)(type(system.model)(copy.deepcopy(system.model.config)), system.tokenizer)
    return system


def main(item: str) -> None:
    """Run the stage in the current folder."""
    pretrained = load_system_params(item)
    decisions, problems = (
        {domain: open_validated(Path(f"artifacts/validate/{domain}/{name}.json")) for domain in DOMAINS}
        for name in ("decisions", "problems")
    )
    consolidate_system(
        load_params(ConsolidateParams, f"consolidate.{item}"), pretrained, load_params(RunParams, "run"),
        Checkpoint.open(SOURCE / item), decisions, problems, Path("artifacts/consolidate") / item,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1])
