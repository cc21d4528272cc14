"""One phase of the curriculum: System 2 practises until it passes the phase's gate, or the pipeline stops.

Each phase takes the pair that the one before it made. System 1 has no part in it and is handed on as it came.
"""

import copy
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
import torch

from dualmind.data.decisions import read_decisions
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.domains.reasoning.question import Question
from dualmind.errors import LearningError, ParamsError
from dualmind.evaluation.choosing import share_chosen
from dualmind.learning.cloning import CloningParams
from dualmind.learning.irl import drift
from dualmind.learning.phases import Phase, PhaseParams, fitting, judge, practise
from dualmind.learning.skipped import Skipped
from dualmind.learning.step_reward import StepReward, StepRewardParams, checked_steps, fit, judge_steps, questions_of
from dualmind.models.checkpoint import Checkpoint, Meta, save_checkpoint
from dualmind.models.system2 import System2
from dualmind.progress import Progress
from dualmind.storage import write_json
from stages.params import RunParams, load_params
from stages.pretrain import DataParams, System2Params

T = TypeVar("T")
BEFORE: dict[Phase, str] = {"step": "cotrain", "coherence": "curriculum/step", "chain": "curriculum/coherence"}


def curriculum(
    phase: Phase,
    params: PhaseParams,
    run: RunParams,
    cloning: CloningParams,
    pair: Mapping[str, Checkpoint],
    problems: ValidatedDataset,
    decisions: ValidatedDataset,
    out: Path,
    held_back: Collection[str] = (),
) -> Checkpoint:
    """Practise a phase; write ``system1`` and ``system2`` to ``out`` and the metrics beside it.

    System 2 is the best of its rounds on valid_train, the one that came in among them; practice ends at the gate. A
    round that cost it household decisions does not count.

    Args:
        phase: which one.
        params: its lengths and its gate.
        run: seed and threads.
        cloning: how System 2 was cloned.
        pair: what the phase before made.
        problems: of reasoning.
        decisions: of the household, to be rehearsed.
        out: the folder.
        held_back: kinds of questions that are taught later.

    Raises:
        ParamsError: there is no question of these lengths.
        LearningError: the gate was missed; the metrics are written, no checkpoint is.
        ReceiptMismatch: the data changed since they were validated.
    """
    torch.set_num_threads(run.threads)
    train = _questions(phase, params, questions_of(problems, "train", held_back), "train")
    valid = _questions(phase, params, questions_of(problems, "valid_train", held_back), "valid_train")
    valid = valid[: params.judged_questions]
    rehearsed = read_decisions(decisions, "train")
    shown = read_decisions(decisions, "valid_train")[: params.judged_decisions]
    system2 = System2.load(pair["system2"].path)
    best, kept, notes, trained = judge(system2, phase, valid), share_chosen(system2, shown), list[str](), 0
    weights = copy.deepcopy(system2.model.state_dict())
    curve: list[dict[str, float]] = [{"round": 0, "valid_reward": best, "household": kept}]
    progress = Progress(f"curriculum, {phase}", params.rounds)
    for index in range(params.rounds if best < params.gate else 0):
        rng = np.random.default_rng([run.seed, 17, index])
        chosen, again = _some(train, params.questions, rng), _some(rehearsed, params.rehearsal, rng)
        done = practise(system2, phase, params, cloning, chosen, again, run.seed + index)
        if isinstance(done, Skipped):
            notes.append(f"round {index + 1}: {done.reason}")
            continue
        trained += params.steps
        reached, household = judge(system2, phase, valid), share_chosen(system2, shown)
        curve.append({"round": index + 1, "valid_reward": reached, "household": household, **done})
        progress.update(index + 1, f"reward {reached:.1%}, gate {params.gate:.1%}, household {household:.1%}")
        if reached > best and household >= kept - params.may_lose:
            best, weights = reached, copy.deepcopy(system2.model.state_dict())
        if best >= params.gate:
            break
    metrics = {"gate": params.gate, "valid_reward": best, "passed": best >= params.gate, "curve": curve, "notes": notes}
    if best < params.gate:
        write_json(out.with_suffix(".json"), metrics)
        raise LearningError(_missed(phase, params, best, len(valid), notes))
    system2.model.load_state_dict(weights)
    shutil.rmtree(out / "system1", ignore_errors=True)
    shutil.copytree(pair["system1"].path, out / "system1")
    saved = save_checkpoint(
        out / "system2",
        system2.model,
        system2.tokenizer,
        Meta(
            kind="system2",
            parents={"system2": pair["system2"].digest, "reasoning problems": problems.md5},
            seed=run.seed,
            threads=run.threads,
            steps=trained,
            num_parameters=system2.num_parameters,
            metrics={f"{phase}_reward": best},
        ),
    )
    write_json(out.with_suffix(".json"), metrics)
    return saved


def follow(
    params: StepRewardParams,
    run: RunParams,
    before: Path,
    checkpoint: Checkpoint,
    problems: ValidatedDataset,
    out: Path,
    held_back: Collection[str] = (),
) -> dict[str, Any]:
    """Keep the reward of steps in step with System 2: fit it anew, write it to ``out``, and say how far it moved.

    Both are asked for the same steps, those that the new System 2 writes for questions of valid_train.

    Raises:
        LearningError: the reward before cannot be read.
    """
    system2, old = System2.load(checkpoint.path), StepReward.load(before)
    asked, other = (questions_of(problems, split, held_back) for split in ("train", "valid_train"))
    learnt = checked_steps(system2, params, asked[: params.questions], run.seed)
    found = fit(system2, checkpoint.digest, learnt, params.ridge)
    if isinstance(found, Skipped):
        write_json(out, asdict(found))
        return {"skipped": found.reason}
    write_json(out, found.to_dict())
    judged = checked_steps(system2, params, other[: params.judged_questions], run.seed + 1)
    metrics: dict[str, Any] = judge_steps(found, system2, judged)
    if isinstance(old, StepReward) and judged:
        steps = [own.prompt for own in judged], [own.steps for own in judged]
        moved = drift(old.score(system2, *steps), found.score(system2, *steps))
        metrics |= {"drift": moved, "alarm": moved > params.drift_alarm}
    return metrics


def _some(pool: Sequence[T], number: int, rng: np.random.Generator) -> list[T]:
    return [pool[i] for i in rng.permutation(len(pool))[:number]]


def _questions(phase: Phase, params: PhaseParams, found: Sequence[Question], split: str) -> list[Question]:
    if not (own := fitting(found, params)):
        raise ParamsError(
            f"curriculum.{phase}: {split} has no question of {params.min_hops} to {params.max_hops} hops; change "
            "min_hops and max_hops, or reasoning.traffic_mix and reasoning.num_questions"
        )
    return own


def _missed(phase: Phase, params: PhaseParams, best: float, number: int, notes: Sequence[str]) -> str:
    remedy = (
        f"clone System 2 longer (pretrain.system2.cloning.steps), raise curriculum.{phase}.rounds or questions, "
        f"or lower curriculum.{phase}.gate"
    )
    return (
        f"phase {phase!r} of the curriculum reached {best:.3f} on {number} questions of {params.min_hops} to "
        f"{params.max_hops} hops, {params.gate - best:.3f} below curriculum.{phase}.gate = {params.gate}; {remedy}"
        + (f"; {notes[-1]}" if notes else "")
    )


def main(item: str) -> None:
    """Run the stage in the current folder."""
    phases = {name: name for name in get_args(Phase)}
    if item not in phases:
        raise SystemExit(f"there is no phase {item!r}; give {', '.join(phases)}")
    phase: Phase = phases[item]
    run, out, before = (
        load_params(RunParams, "run"),
        Path("artifacts/curriculum") / phase,
        Path("artifacts") / BEFORE[phase],
    )
    problems = open_validated(Path("artifacts/validate/reasoning/problems.json"))
    held_back = load_params(DataParams, "pretrain.data").held_back
    saved = curriculum(
        phase,
        load_params(PhaseParams, f"curriculum.{phase}"),
        run,
        load_params(System2Params, "pretrain.system2").cloning,
        {name: Checkpoint.open(before / name) for name in ("system1", "system2")},
        problems,
        open_validated(Path("artifacts/validate/household/decisions.json")),
        out,
        held_back,
    )
    judged_by = Path("artifacts/reward/step.json") if phase == "step" else before / "step_reward.json"
    step = load_params(StepRewardParams, "reward.step")
    moved = follow(step, run, judged_by, saved, problems, out / "step_reward.json", held_back)
    write_json(out / "step_reward_metrics.json", moved)


if __name__ == "__main__":
    main(sys.argv[1])
