"""Makes a system small: int8 weights, and of System 2 fewer experts and mostly zeros, with training to recover."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator

from dualmind.data.decisions import DecisionRow, read_decisions
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.evaluation.keeping import worse
from dualmind.learning.cloning import CloningParams, clone
from dualmind.models.checkpoint import Checkpoint, Meta, save_checkpoint
from dualmind.models.compression import expert_use, prune_experts, sparse, sparsity_of
from dualmind.models.experts import MixtureOfExperts
from dualmind.models.int8 import to_int8
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2, with_plan
from dualmind.storage import write_json
from stages.params import RunParams, load_params
from stages.pretrain import DOMAINS, PretrainParams, judge_system, lessons, load_system_params

SOURCES = {"system1": Path("artifacts/distill/system1"), "system2": Path("artifacts/consolidate/system2")}
_BATCH = 64


class CompressSystem1Params(BaseModel):
    """System 1 becomes int8; there is nothing to choose but what it is judged on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_judged: PositiveInt  # decisions of each domain that both sizes are judged on
    tolerance: Annotated[float, Field(ge=0, lt=1)]  # share of each measure that may be lost, or the input is kept


class CompressSystem2Params(BaseModel):
    """How much of System 2 is pruned before it becomes int8, and how it recovers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_judged: PositiveInt  # decisions of each domain that both sizes are judged on
    tolerance: Annotated[float, Field(ge=0, lt=1)]  # share of each measure that may be lost, or the input is kept
    keep_experts: PositiveInt  # of each mixture, >= 2
    sparsity: Annotated[float, Field(ge=0, lt=1)]  # share of each matrix that becomes zero
    recovery: CloningParams

    @field_validator("recovery")
    @classmethod
    def _whole_weights(cls, value: CloningParams) -> CloningParams:
        if value.memory.base != "float32":
            raise ValueError("memory.base must be float32: adapters would undo the zeros")
        return value


CompressParams = CompressSystem1Params | CompressSystem2Params


def compress(
    params: CompressParams,
    pretrained: PretrainParams,
    run: RunParams,
    checkpoint: Checkpoint,
    decisions: Mapping[str, ValidatedDataset],
    out: Path,
) -> Checkpoint:
    """Compress a checkpoint; write the small one to ``out`` and its metrics beside it.

    System 2 is pruned and becomes int8; where that loses more than ``tolerance`` it only becomes int8, and where that
    does as well, the system is handed on as it came: ``kept_input`` is 1.

    Args:
        params: of which system.
        pretrained: how it was cloned: the lessons for recovery are the same.
        run: seed and threads.
        checkpoint: the parent, which the small one names.
        decisions: of each domain.
        out: the folder.

    Raises:
        ParamsError: all experts or all weights would be pruned.
        CheckpointError: the checkpoint is damaged.
        ReceiptMismatch: the data changed since they were validated.
    """
    torch.set_num_threads(run.threads)
    valid = [row for data in decisions.values() for row in read_decisions(data, "valid_train")[: params.max_judged]]
    before = judge_system(_load(checkpoint), valid)
    tries = [True, False] if isinstance(params, CompressSystem2Params) else [False]
    tried: list[dict[str, float]] = []
    for pruned in tries:
        system, zeros = _smaller(params, pretrained, run, checkpoint, decisions, pruned=pruned)
        tried.append(judge_system(system, valid))
        if not worse(before, tried[-1], params.tolerance):
            break
    keeps_input = bool(worse(before, tried[-1], params.tolerance))
    if keeps_input:
        system, zeros, pruned = _load(checkpoint), 0.0, False
    after = before if keeps_input else tried[-1]
    meta = Meta(
        kind=checkpoint.meta.kind,
        parents={
            checkpoint.meta.kind: checkpoint.digest,
            **{f"{domain} decisions": data.md5 for domain, data in decisions.items()},
        },
        seed=run.seed,
        threads=run.threads,
        steps=params.recovery.steps if isinstance(params, CompressSystem2Params) and pruned else 0,
        num_parameters=system.num_parameters,
        metrics=after,
    )
    saved = save_checkpoint(out, system.model, system.tokenizer, meta)
    sizes = [sum(file.stat().st_size for file in one.path.iterdir()) for one in (checkpoint, saved)]
    summary = {
        "kept_input": int(keeps_input), "pruned": int(pruned), "before": before, "after": after, "tried": tried,
        "zeros": zeros, "bytes_before": sizes[0], "bytes_after": sizes[1], "bytes_ratio": sizes[1] / sizes[0],
    }  # fmt: skip
    write_json(out.with_suffix(".json"), summary)
    return saved


def _load(checkpoint: Checkpoint) -> System1 | System2:
    return System1.load(checkpoint.path) if checkpoint.meta.kind == "system1" else System2.load(checkpoint.path)


def _smaller(
    params: CompressParams,
    pretrained: PretrainParams,
    run: RunParams,
    checkpoint: Checkpoint,
    decisions: Mapping[str, ValidatedDataset],
    *,
    pruned: bool,
) -> tuple[System1 | System2, float]:
    """The system of a checkpoint in int8, and the share of its weights that is zero."""
    system = _load(checkpoint)
    if pruned:
        assert isinstance(params, CompressSystem2Params) and isinstance(system, System2)
        train = [row for data in decisions.values() for row in read_decisions(data, "train")]
        system = prune(params, pretrained, run, system, train)
    zeros = sparsity_of(system.model)
    to_int8(system.model)
    return system, zeros


def prune(
    params: CompressSystem2Params,
    pretrained: PretrainParams,
    run: RunParams,
    system: System2,
    rows: list[DecisionRow],
) -> System2:
    """Fewer experts, then fewer weights, with the lessons of cloning once more."""
    if any(isinstance(module, MixtureOfExperts) for module in system.model.modules()):
        use = expert_use(system.model, _passes(system, rows))
        system = System2(prune_experts(system.model, use, params.keep_experts), system.tokenizer)
    with sparse(system.model, params.sparsity):
        clone(system, lessons(pretrained, rows, system, run.seed), params.recovery, seed=run.seed)
    return system


def _passes(system: System2, rows: list[DecisionRow]) -> Iterator[object]:
    """Some of the decisions through the model: their prompts, and the commands or the steps."""
    choices, questions = [row for row in rows if row.candidates], [row for row in rows if not row.candidates]
    if choices:
        some = choices[:: max(1, len(choices) // _BATCH)][:_BATCH]
        prompts = [with_plan(row.prompt, row.rationale) for row in some]
        yield system.scorer(system.collate(prompts, [row.candidates for row in some]))
    if questions:
        some = questions[:: max(1, len(questions) // _BATCH)][:_BATCH]
        yield system.write([row.prompt for row in some], max_words=1)


def main(item: str) -> None:
    """Run the stage in the current folder."""
    pretrained = load_system_params(item)
    params: CompressParams
    if item == "system1":
        params = load_params(CompressSystem1Params, f"compress.{item}")
    else:
        params = load_params(CompressSystem2Params, f"compress.{item}")
    decisions = {domain: open_validated(Path(f"artifacts/validate/{domain}/decisions.json")) for domain in DOMAINS}
    parent = Checkpoint.open(SOURCES[item])
    compress(params, pretrained, load_params(RunParams, "run"), parent, decisions, Path("artifacts/compress") / item)


if __name__ == "__main__":
    main(sys.argv[1])
