"""A phase on a tiny pair: it practises, passes or stops with what was missing, and gives the same bytes again."""

import json
from pathlib import Path

import pytest

from dualmind.data.validation import open_validated
from dualmind.errors import LearningError, ParamsError
from dualmind.learning.phases import Phase, PhaseParams
from dualmind.learning.skipped import Skipped
from dualmind.learning.step_reward import StepReward, StepRewardParams
from dualmind.models.checkpoint import Checkpoint
from dualmind.storage import md5_file, md5_folder, write_json
from stages.curriculum import curriculum, follow
from tests.stages.test_pretrain import CLONING, RUN

PHASE = PhaseParams(
    min_hops=1, max_hops=2, gate=0.0, rounds=1, questions=12, copies=2, temperature=1.0, good_enough=0.5, steps=2,
    rate=0.1, rehearsal=8, judged_questions=6, judged_decisions=8, may_lose=1.0,
)  # fmt: skip
STEP = StepRewardParams(questions=10, copies=2, temperature=1.0, ridge=0.01, judged_questions=6, drift_alarm=0.5)


def run(pair: Path, out: Path, params: PhaseParams, phase: Phase = "step") -> Checkpoint:
    checkpoints = {name: Checkpoint.open(pair / "artifacts/pretrain" / name) for name in ("system1", "system2")}
    problems = open_validated(Path("artifacts/validate/reasoning/problems.json"))
    decisions = open_validated(Path("artifacts/validate/household/decisions.json"))
    return curriculum(phase, params, RUN, CLONING, checkpoints, problems, decisions, out)


def test_a_phase_that_is_passed_at_once_hands_the_pair_on_as_it_came(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pair)
    saved = run(pair, tmp_path / "step", PHASE)
    before = pair / "artifacts/pretrain"
    assert md5_folder(tmp_path / "step/system1") == md5_folder(before / "system1")
    assert md5_file(saved.path / "model.safetensors") == md5_file(before / "system2/model.safetensors")
    assert saved.meta.parents["system2"] == Checkpoint.open(before / "system2").digest
    metrics = json.loads((tmp_path / "step.json").read_text())
    assert metrics["passed"]
    assert len(metrics["curve"]) == 1


@pytest.mark.parametrize("phase", ["step", "coherence", "chain"])
def test_a_phase_that_misses_its_gate_stops_with_what_was_missing(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: Phase
) -> None:
    monkeypatch.chdir(pair)
    params = PHASE.model_copy(update={"gate": 1.0})
    message = rf"phase '{phase}' of the curriculum reached 0\.\d+ on 6 questions of 1 to 2 hops, .* below "
    message += rf"curriculum\.{phase}\.gate = 1\.0; clone System 2 longer"
    for name in ("a", "b"):
        with pytest.raises(LearningError, match=message):
            run(pair, tmp_path / name, params, phase)
        assert not (tmp_path / name).exists()
    assert md5_file(tmp_path / "a.json") == md5_file(tmp_path / "b.json")
    assert not json.loads((tmp_path / "a.json").read_text())["passed"]


def test_lengths_that_no_question_has_are_refused(pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pair)
    with pytest.raises(ParamsError, match=r"curriculum.step: train has no question of 11 to 12 hops; change min_hops"):
        run(pair, tmp_path / "out", PHASE.model_copy(update={"min_hops": 11, "max_hops": 12}))


def test_the_reward_of_steps_follows_system_2_or_says_why_it_cannot(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pair)
    saved = Checkpoint.open(pair / "artifacts/pretrain/system2")
    problems = open_validated(Path("artifacts/validate/reasoning/problems.json"))
    write_json(tmp_path / "before.json", {"reason": "a beginner"})
    metrics = follow(STEP, RUN, tmp_path / "before.json", saved, problems, tmp_path / "after.json")
    found = StepReward.load(tmp_path / "after.json", saved.digest)
    assert isinstance(found, Skipped) == ("skipped" in metrics)
    with pytest.raises(LearningError, match="holds no step reward"):
        follow(STEP, RUN, tmp_path / "none.json", saved, problems, tmp_path / "after.json")
