"""Fits the gate and proves the first threshold, on held-out problems that nothing was trained on.

The gate is fitted on one part of the problems, and the threshold is proven on another.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from dualmind.agent.agent import SHALLOW_STEPS
from dualmind.agent.gate import Gate, make_gate
from dualmind.agent.labelling import Labelled, columns, label_games, label_questions, one_a_problem, split_problems
from dualmind.calibration.sample import Sample
from dualmind.calibration.threshold import Threshold
from dualmind.calibration.threshold import calibrate as prove
from dualmind.data.problems import ProblemRow, read_problems
from dualmind.data.tables import write_table
from dualmind.data.validation import ValidatedDataset, open_validated
from dualmind.domains.base import Problem
from dualmind.domains.household.domain import Household, as_problem
from dualmind.domains.household.expert import LocationPrior
from dualmind.domains.household.game import Game
from dualmind.domains.reasoning.domain import Reasoning
from dualmind.domains.reasoning.domain import as_problem as as_question
from dualmind.domains.reasoning.question import Question
from dualmind.evaluation.reliability import expected_calibration_error, reliability
from dualmind.models.checkpoint import Checkpoint
from dualmind.models.system1 import System1
from dualmind.models.system2 import System2
from dualmind.storage import md5_file, write_json
from stages.params import RunParams, load_params

SPLIT = "valid_seen"
SOURCE = Path("artifacts/compress")  # folder of the pair that serves: the threshold is proven on its very bytes


class CalibrateParams(BaseModel):
    """What is promised, and how the gate is fitted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    alpha: Annotated[float, Field(gt=0, lt=1)]  # highest error rate of what System 1 answers
    delta: Annotated[float, Field(gt=0, lt=1)]  # probability that the proof is wrong
    grid_points: Annotated[int, Field(ge=10)]  # thresholds that are tried, evenly spaced in (0, 1)
    fit_share: Annotated[float, Field(gt=0, lt=1)]  # of the problems, on which the gate is fitted
    num_clusters: PositiveInt  # k-means centres of the difficulty
    value_width: PositiveInt  # of the value head
    shallow_loss: Annotated[float, Field(ge=0, le=1)]  # share of right answers that the short tier may lose
    max_steps: PositiveInt  # commands after which a game is lost


def calibrate(
    params: CalibrateParams,
    run: RunParams,
    checkpoints: Mapping[str, Checkpoint],
    problems: Mapping[str, ValidatedDataset],
    out: Path,
) -> Threshold:
    """Write ``gate.json``, ``threshold.json``, ``decisions.parquet`` and ``metrics.json`` to ``out``.

    Args:
        params: what is promised.
        run: seed and threads.
        checkpoints: of system1 and system2.
        problems: of each domain.
        out: the folder.

    Raises:
        NoValidThreshold: none passes; nothing is written.
        ReceiptMismatch: the data changed since they were validated.
    """
    torch.set_num_threads(run.threads)
    system1, system2 = System1.load(checkpoints["system1"].path), System2.load(checkpoints["system2"].path)
    rng = np.random.default_rng([run.seed, 7])
    labelled = _label(params, system1, problems)
    parts = [split_problems(own, params.fit_share, rng) for own in labelled.values()]
    fit = [own for part, _ in parts for own in part]
    proof = one_a_problem([own for _, part in parts for own in part], rng)
    weights = checkpoints["system1"].digest
    gate = _fit(params, run, weights, fit, deep=0.0)
    gate = _with_tiers(params, gate, system2, [own for own in fit if not own.request.candidates])
    scores = _scores(gate, proof)
    right = np.array([own.right for own in proof])
    out.mkdir(parents=True, exist_ok=True)
    write_table(out / "decisions.parquet", _table(gate, fit, proof))
    threshold = prove(
        Sample.of(scores, right, grid(params.grid_points)),
        alpha=params.alpha,
        delta=params.delta,
        pilot=_scores(gate, one_a_problem(fit, rng)),
        weights_digest=weights,
        gate_digest=gate.save(out / "gate.json"),
        calibration_digest=md5_file(out / "decisions.parquet"),
        previous_value=None,
    )
    threshold.write(out / "threshold.json")
    write_json(out / "metrics.json", _metrics(params, gate, threshold, proof, scores, right))
    return threshold


def grid(points: int) -> np.ndarray:
    """Thresholds from 0 to 1, both left out; fixed before anything is looked at."""
    return np.linspace(0, 1, points + 2)[1:-1]


def _label(
    params: CalibrateParams, system1: System1, problems: Mapping[str, ValidatedDataset]
) -> dict[str, list[Labelled]]:
    games = [Game.from_json(row.payload) for row in read_problems(problems["household"], "train")]
    prior = LocationPrior.learn(games)  # as in preparing: from training games
    held = [as_problem(Game.from_json(row.payload)) for row in read_problems(problems["household"], SPLIT)]
    questions, asked = read_questions(read_problems(problems["reasoning"], SPLIT))
    return {
        Household.name: label_games(system1, held, prior, params.max_steps),
        Reasoning.name: label_questions(system1, Reasoning(questions), asked),
    }


def read_questions(rows: Sequence[ProblemRow]) -> tuple[list[Question], list[Problem]]:
    """Questions of rows, and the same as problems."""
    questions = [Question.from_json(row.payload) for row in rows]
    return questions, [as_question(question) for question in questions]


def _fit(params: CalibrateParams, run: RunParams, weights: str, fit: Sequence[Labelled], deep: float) -> Gate:
    confidence, log_probabilities, readings, repeats, domains, right = columns(fit)
    return make_gate(
        weights,
        confidence=confidence,
        log_probabilities=log_probabilities,
        embeddings=readings,
        monitor=repeats,
        domains=domains,
        right=right,
        num_clusters=params.num_clusters,
        value_width=params.value_width,
        deep=deep,
        seed=run.seed,
    )


def _with_tiers(params: CalibrateParams, gate: Gate, system2: System2, questions: Sequence[Labelled]) -> Gate:
    """The gate with the score below which System 2 must write its steps.

    Of the questions that System 1 may hand on, it is the lowest score from which on the short tier loses no more than
    ``shallow_loss`` against the full one.
    """
    scores = _scores(gate, questions)
    order = [int(i) for i in np.argsort(-scores) if scores[i] < 1 - params.alpha]  # from easy to hard
    if not order:
        return gate
    prompts = [questions[i].request.prompt for i in order]
    targets = [questions[i] for i in order]
    shallow = _answers(system2, prompts, direct=True)
    full = _answers(system2, prompts, direct=False)
    truth = [own.truth for own in targets]
    lost = np.array(full) == np.array(truth)
    kept = np.array(shallow) == np.array(truth)
    loss = np.cumsum(lost.astype(int) - kept.astype(int)) / np.arange(1, len(order) + 1)
    fine = np.flatnonzero(loss <= params.shallow_loss)
    deep = 1.0 if not fine.size else float(scores[order[int(fine[-1])]])
    return Gate.of(gate.file.model_copy(update={"deep": deep}))


def _answers(system2: System2, prompts: Sequence[str], *, direct: bool) -> list[str]:
    steps = SHALLOW_STEPS if direct else None
    return [
        thought.answer
        for start in range(0, len(prompts), 128)
        for thought in system2.answer(prompts[start : start + 128], max_steps=steps, direct=direct)
    ]


def _scores(gate: Gate, labelled: Sequence[Labelled]) -> np.ndarray:
    confidence, _, readings, repeats, domains, _ = columns(labelled)
    return gate.scores(gate.signals(confidence, readings, repeats), domains)


def _table(gate: Gate, fit: Sequence[Labelled], proof: Sequence[Labelled]) -> pa.Table:
    """The labelled decisions, so that a proof can be checked row by row."""
    rows = [*fit, *proof]
    confidence, log_probabilities, readings, repeats, domains, right = columns(rows)
    signals = gate.signals(confidence, readings, repeats)
    return pa.table(
        {
            "part": ["fit"] * len(fit) + ["proof"] * len(proof),
            "domain": domains,
            "problem_id": [own.problem_id for own in rows],
            "hops": [own.hops for own in rows],
            "confidence": confidence,
            "difficulty": signals.difficulty,
            "curvature": signals.curvature,
            "monitor": repeats,
            "log_probability": log_probabilities,
            "score": gate.scores(signals, domains),
            "right": right,
        }
    )


def _metrics(
    params: CalibrateParams,
    gate: Gate,
    threshold: Threshold,
    proof: Sequence[Labelled],
    scores: np.ndarray,
    right: np.ndarray,
) -> dict[str, Any]:
    raw = np.exp(np.array([own.first.log_probability for own in proof]))
    domains = [own.request.domain for own in proof]
    calibrated = gate.probabilities(np.log(np.maximum(raw, 1e-12)), domains)
    kept = scores >= threshold.value
    return {
        "threshold": threshold.value,
        "alpha": params.alpha,
        "upper_bound": threshold.upper_bound,
        "system1_share": threshold.system1_share,
        "system1_right": float(right.mean()),
        "share_by_domain": {name: float(kept[np.array(domains) == name].mean()) for name in sorted(set(domains))},
        "expected_calibration_error": {
            "raw": expected_calibration_error(raw, right),
            "temperature": expected_calibration_error(calibrated, right),
            "score": expected_calibration_error(scores, right),
        },
        "reliability": {"raw": reliability(raw, right), "score": reliability(scores, right)},
        "deep": gate.file.deep,
        "coefficients": dict(
            zip(("confidence", "difficulty", "curvature", "monitor"), gate.file.coefficients, strict=True)
        ),
    }


def main() -> None:
    """Run the stage in the current folder."""
    calibrate(
        load_params(CalibrateParams, "calibrate"),
        load_params(RunParams, "run"),
        {name: Checkpoint.open(SOURCE / name) for name in ("system1", "system2")},
        {name: open_validated(Path(f"artifacts/validate/{name}/problems.json")) for name in ("household", "reasoning")},
        Path("artifacts/calibrate"),
    )


if __name__ == "__main__":
    main()
