"""Judges the pair on games and questions that were used neither in training nor in any choice."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, PositiveInt

from dualmind.agent.agent import Agent
from dualmind.agent.gate import Gate
from dualmind.agent.trial import answer_questions, play_games, play_planner, price, shares
from dualmind.calibration.threshold import Threshold
from dualmind.data.decisions import DecisionRow, read_decisions
from dualmind.data.problems import read_problems
from dualmind.data.validation import Receipt, ValidatedDataset, open_validated
from dualmind.domains.household.domain import HOPS
from dualmind.domains.household.engine import HouseholdEngine
from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.game import Game
from dualmind.domains.household.rollout import Outcome
from dualmind.domains.reasoning.domain import Reasoning
from dualmind.evaluation.latency import latency, throughput
from dualmind.evaluation.metrics import CommandAccuracy, MeanSteps, measure, success
from dualmind.evaluation.playing import Mode, play
from dualmind.evaluation.report import Sample, Timing, render_report
from dualmind.models.checkpoint import Checkpoint
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.storage import md5_file, write_json, write_text
from stages.calibrate import SOURCE, read_questions
from stages.params import RunParams, load_params

MODES: tuple[Mode, ...] = ("greedy", "sampled")  # argmax policies can loop: both are always reported


class EvaluateParams(BaseModel):
    """What is played and timed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    splits: list[Literal["valid_seen", "valid_unseen"]]
    max_steps: PositiveInt  # commands after which a game is lost; 50 in ALFWorld
    batch_size: PositiveInt  # games open at a time
    timed_decisions: PositiveInt  # decisions for latency and throughput


@dataclass(frozen=True, slots=True)
class Judged:
    """What is judged: both systems and what decides between them."""

    system1: System1
    system2: System2
    gate: Gate
    threshold: Threshold

    @classmethod
    def load(cls, artifacts: Path) -> "Judged":
        """Read what the stages made.

        Raises:
            CheckpointError: a checkpoint is incomplete or damaged.
            GateError: the gate was fitted on another System 1.
            ThresholdMismatch: the threshold was proven for others.
        """
        one, two = (Checkpoint.open(artifacts / SOURCE.name / name) for name in ("system1", "system2"))
        path = artifacts / "calibrate" / "gate.json"
        gate = Gate.load(path, one.digest)
        threshold = Threshold.read(artifacts / "calibrate" / "threshold.json").for_weights(one.digest, md5_file(path))
        return cls(System1.load(one.path), System2.load(two.path), gate, threshold)


def evaluate(
    params: EvaluateParams,
    run: RunParams,
    judged: Judged,
    data: Mapping[str, ValidatedDataset],
    out: Path,
) -> dict[str, Any]:
    """Play and answer; write ``metrics.json`` and ``plots/``, which are reproducible, and ``timing.json`` and a report.

    Args:
        params: what is played and timed.
        run: seed and threads.
        judged: the pair.
        data: "household decisions", "household problems" and "reasoning problems".
        out: the folder.

    Raises:
        ReceiptMismatch: the data changed since they were validated.
    """
    torch.set_num_threads(run.threads)
    system1, problems = judged.system1, data["household problems"]
    splits: dict[str, dict[str, Any]] = {}
    samples: list[Sample] = []
    for split in params.splits:
        games = [Game.from_json(row.payload) for row in read_problems(problems, split)]
        outcomes = {mode: _play(system1, games, mode, params, run, split) for mode in MODES}
        splits[split] = {mode: _measure(own, params.max_steps) for mode, own in outcomes.items()}
        samples += _samples(games, outcomes["greedy"], split)
    rows = read_decisions(data["household decisions"], "valid_train")
    metrics = {
        "splits": splits,
        "agreement": _agreement(system1, rows, params.batch_size),
        "size": _size(system1),
        "pair": _try_pair(params, judged, data),
        "calibration": _read("artifacts/calibrate/metrics.json"),
    }
    write_json(out / "metrics.json", metrics)
    metrics = _read(str(out / "metrics.json"))  # in the file's order, in which the report may be made again
    write_json(out / "plots" / "success.json", _plot_rows(splits))
    timing = _time(system1, rows[: params.timed_decisions], run)
    write_json(out / "timing.json", asdict(timing))
    training, prepared = _read("artifacts/pretrain/system1.json"), _read("artifacts/prepare/household/summary.json")
    receipts = [Receipt.read(dataset.receipt) for dataset in data.values()]
    write_text(out / "report.html", render_report(metrics, timing, training, prepared, samples, receipts=receipts))
    return metrics


def _play(
    system1: System1, games: Sequence[Game], mode: Mode, params: EvaluateParams, run: RunParams, split: str
) -> list[Outcome]:
    rng = np.random.default_rng([run.seed, MODES.index(mode)])
    label = f"{split}, {mode}"
    return play(system1, games, mode, rng, batch_size=params.batch_size, max_steps=params.max_steps, label=label)


def _try_pair(params: EvaluateParams, judged: Judged, data: Mapping[str, ValidatedDataset]) -> dict[str, Any]:
    """Each system alone, the pair and the planner, on the unseen games and questions."""
    games = [Game.from_json(row.payload) for row in read_problems(data["household problems"], "valid_unseen")]
    seen = [Game.from_json(row.payload) for row in read_problems(data["household problems"], "train")]
    questions, asked = read_questions(read_problems(data["reasoning problems"], "valid_unseen"))
    domain = Reasoning(questions)
    rows: dict[str, Any] = {"household": {}, "reasoning": {}}
    for name, threshold, deep in (
        ("system 1 alone", -np.inf, None),
        ("system 2 alone", np.inf, np.inf),
        ("pair", judged.threshold.value, None),
    ):
        agent = Agent(judged.system1, judged.system2, judged.gate, threshold, deep)
        outcomes, replies = play_games(agent, games, params.max_steps, f"games, {name}")
        rows["household"][name] = {**success([o.success for o in outcomes]), **price(replies)}
        answered = answer_questions(agent, domain, asked, f"questions, {name}")
        rows["reasoning"][name] = {
            **success([own.right for own in answered]),
            **price([own.reply for own in answered]),
            "by_hops": shares(answered, lambda own: own.hops),
            "by_family": shares(answered, lambda own: own.family),
        }
        if name == "pair":
            kept = [own.right for own in answered if own.reply.tier == "system1"]
            rows["reasoning"][name]["error_of_system1"] = 1 - float(np.mean(kept)) if kept else None
    planned = play_planner(games, LocationPrior.learn(seen), params.max_steps)
    rows["household"]["planner, hand-written"] = success([outcome.success for outcome in planned])
    return rows


def _measure(outcomes: Sequence[Outcome], max_steps: int) -> dict[str, Any]:
    """Success overall, by task type and by sub-goals, and the share won within each number of commands."""
    by_task: dict[str, list[bool]] = {}
    by_hops: dict[str, list[bool]] = {}
    for outcome in outcomes:
        by_task.setdefault(outcome.task_type, []).append(outcome.success)
        by_hops.setdefault(str(HOPS[outcome.task_type]), []).append(outcome.success)
    steps = np.array([outcome.steps if outcome.success else max_steps + 1 for outcome in outcomes])
    return {
        **success([outcome.success for outcome in outcomes]),
        "steps": measure(MeanSteps, predictions=[o.steps for o in outcomes], rng=np.random.default_rng(0)),
        "by_task_type": {task: success(won) for task, won in sorted(by_task.items())},
        "by_hops": {hops: success(won) for hops, won in sorted(by_hops.items())},
        "within_steps": [[limit, float(np.mean(steps <= limit))] for limit in range(1, max_steps + 1)],
    }


def _size(system1: System1) -> dict[str, int]:
    return {"num_parameters": system1.num_parameters, "bytes": system1.num_bytes}


def _agreement(system1: System1, rows: Sequence[DecisionRow], batch_size: int) -> dict[str, Any]:
    """How often the best command is the expert's, on validation decisions."""
    best = []
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        scores = system1.score([row.prompt for row in batch], [row.candidates for row in batch])
        best += [row.candidates[int(own.argmax())] for row, own in zip(batch, scores, strict=True)]
    return measure(CommandAccuracy, predictions=best, references=[row.target for row in rows])


def _plot_rows(splits: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"split": split, "mode": mode, "commands": limit, "share_won": share}
        for split, modes in splits.items()
        for mode, results in modes.items()
        for limit, share in results["within_steps"]
    ]


def _samples(games: Sequence[Game], outcomes: Sequence[Outcome], split: str) -> list[Sample]:
    """The first game that was won and the first that was lost, replayed in the engine."""
    shown = []
    for won in (True, False):
        for game, outcome in zip(games, outcomes, strict=True):
            if outcome.success is won:
                engine = HouseholdEngine(game)
                lines = [engine.reset().split("\n\n", 1)[1]]
                lines += [f"> {command}\n{engine.step(command)[0]}" for command in outcome.commands[:20]]
                title = f"{split.replace('_', ' ')}, {'won' if won else 'lost'} in {outcome.steps} commands"
                shown.append(Sample(title, lines))
                break
    return shown


def _time(system1: System1, rows: Sequence[DecisionRow], run: RunParams) -> Timing:
    pairs = [(row.prompt, row.candidates) for row in rows]
    single = latency(system1, pairs)
    return Timing(single.p50_ms, single.p99_ms, throughput(system1, pairs, batch_size=64), run.threads)


def open_data() -> dict[str, ValidatedDataset]:
    """The data sets of the current folder that the pair is judged on.

    Raises:
        ReceiptMismatch: one was not validated, or changed since.
    """
    names = ("household decisions", "household problems", "reasoning problems")
    return {name: open_validated(Path(f"artifacts/validate/{name.replace(' ', '/')}.json")) for name in names}


def _read(path: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return content


def main() -> None:
    """Run the stage in the current folder."""
    params, run = load_params(EvaluateParams, "evaluate"), load_params(RunParams, "run")
    evaluate(params, run, Judged.load(Path("artifacts")), open_data(), Path("artifacts/evaluate"))


if __name__ == "__main__":
    main()
