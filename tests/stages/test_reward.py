"""The stage on a tiny System 1: weights, figures that can be counted again, and the same bytes again."""

import json
from pathlib import Path

import numpy as np
import pytest

from dualmind.data.validation import open_validated
from dualmind.domains.household.progress import FEATURES
from dualmind.learning.irl import IrlParams, RewardWeights, read_weights
from dualmind.learning.step_reward import StepRewardParams
from dualmind.models.checkpoint import Checkpoint
from dualmind.storage import md5_folder
from stages.reward import RewardParams, reward
from tests.learning.play import ACTING
from tests.stages.test_pretrain import RUN

PARAMS = RewardParams(
    demonstrated_games=8,
    sampled_games=12,
    judged_games=6,
    acting=ACTING,
    irl=IrlParams(ridge=0.01, drift_alarm=0.5),
    step=StepRewardParams(questions=20, copies=2, temperature=1.0, ridge=0.01, judged_questions=10, drift_alarm=0.5),
    discount=0.99,
)


def run(pair: Path, out: Path) -> RewardWeights:
    problems = {d: open_validated(Path(f"artifacts/validate/{d}/problems.json")) for d in ("household", "reasoning")}
    checkpoints = {name: Checkpoint.open(pair / "artifacts/pretrain" / name) for name in ("system1", "system2")}
    return reward(PARAMS, RUN, checkpoints, problems, out)


def test_the_reward_ranks_held_out_games_as_success_does_and_is_the_same_bytes_again(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pair)
    found, _ = run(pair, tmp_path / "a"), run(pair, tmp_path / "b")
    assert md5_folder(tmp_path / "a") == md5_folder(tmp_path / "b")
    metrics = json.loads((tmp_path / "a/metrics.json").read_text())
    assert metrics["rank_correlation"] >= 0.8 * metrics["rank_correlation_ceiling"]
    assert 0 < metrics["success"] < 1
    spent = metrics["steps_by_purpose"]
    assert metrics["environment_steps"] == spent["demonstration"] + spent["rollout"]
    assert spent["rollout"] <= 12 * ACTING.max_steps
    weights = json.loads((tmp_path / "a/weights.json").read_text())
    assert weights["features"] == list(FEATURES)
    np.testing.assert_array_equal(weights["weights"], found.raw)
    read = read_weights(tmp_path / "a/weights.json")
    np.testing.assert_array_equal(read.raw, found.raw)
    assert read.names == FEATURES
    # a beginner writes no right step, or its steps are judged: either is said
    assert "skipped" in metrics["step"] or 0 <= metrics["step"]["accuracy"] <= 1
