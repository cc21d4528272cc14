"""The stage on a tiny pair: killed and taken up again it ends with the same bytes, and nothing to learn is said."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dualmind.data.validation import open_validated
from dualmind.learning.channels import ChannelParams
from dualmind.learning.cotrain_state import CotrainParams, TickParams
from dualmind.learning.irl import IrlParams
from dualmind.learning.steps import ClockParams
from dualmind.models.checkpoint import Checkpoint
from dualmind.storage import md5_file, md5_folder
from stages.cotrain import UNFINISHED, choose, cotrain
from tests.learning.play import ACTING
from tests.learning.test_ppo import PARAMS as PPO
from tests.stages.test_pretrain import PARAMS, RUN, SYSTEM2

TICK = TickParams(steps=1, batch_size=16, rate=1.0)
COTRAIN = CotrainParams(
    rounds=3, imitation_rounds=1, games=6, teacher="searcher", won_only=False,
    acting=ACTING.model_copy(update={"max_steps": 12}), channels=ChannelParams(confidence=0.999, capacity=200),
    clocks=ClockParams(system1=20, system2=50, reward=60), rehearsal=8, system1=TICK, system2=TICK,
    ppo=PPO.model_copy(update={"kl": 0.25, "epochs": 1}), irl=IrlParams(ridge=0.1, drift_alarm=0.01),
    dense_scale=0.1, demonstrated_games=4, judged_games=3, judged_questions=10,
    may_lose=0.0,
)  # fmt: skip


def run(root: Path, out: Path, params: CotrainParams = COTRAIN) -> dict[str, object]:
    artifacts = root / "artifacts"
    cotrain(
        params,
        RUN,
        {"system1": PARAMS, "system2": SYSTEM2},
        {
            "system1": Checkpoint.open(artifacts / "pretrain/system1"),
            "system2": Checkpoint.open(artifacts / "pretrain/system2"),
        },
        {
            name: open_validated(Path(f"artifacts/validate/{name}/decisions.json"))
            for name in ("household", "reasoning")
        },
        open_validated(Path("artifacts/validate/household/problems.json")),
        None,
        out,
    )
    found: dict[str, object] = json.loads((out / "metrics.json").read_text())
    return found


_KILLED = """
import os, signal, sys
from pathlib import Path
from dualmind.learning import cotraining
from tests.stages.test_cotrain import run

saves, write = 0, cotraining.write_json

def die_while_saving(path, value):
    global saves
    saves += 1
    if saves == 3:  # the start and the first round are on disk, the second is half written
        os.kill(os.getpid(), signal.SIGKILL)
    write(path, value)

cotraining.write_json = die_while_saving
run(Path.cwd(), Path(sys.argv[1]))
"""


@pytest.mark.timeout(1800)
def test_killed_in_the_middle_it_goes_on_and_ends_with_the_same_bytes(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _KILLED, str(tmp_path / "broken")]
    done = subprocess.run(command, cwd=pair, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    state = json.loads((tmp_path / "broken" / UNFINISHED / "state.json").read_text())
    assert state["round"] == 1
    monkeypatch.chdir(pair)
    unbroken, broken = (run(pair, tmp_path / name) for name in ("unbroken", "broken"))
    assert unbroken == broken
    for name in ("system1", "system2"):
        assert md5_folder(tmp_path / "broken" / name) == md5_folder(tmp_path / "unbroken" / name)
    assert md5_file(tmp_path / "broken/metrics.json") == md5_file(tmp_path / "unbroken/metrics.json")
    assert sorted(p.name for p in (tmp_path / "broken").iterdir()) == ["metrics.json", "system1", "system2"]
    _check(pair, unbroken, tmp_path / "unbroken")


def _check(pair: Path, metrics: dict[str, object], out: Path) -> None:
    """Counts, clocks and parents of the run above."""
    spent, curve = metrics["steps_by_purpose"], metrics["curve"]
    assert isinstance(spent, dict)
    assert isinstance(curve, list)
    assert metrics["environment_steps"] == spent["demonstration"] + spent["rollout"] + spent["look_ahead"]
    assert spent["rollout"] == sum(round(point["steps"] * COTRAIN.games) for point in curve)
    assert spent["evaluation"] > 0
    start = spent["demonstration"]
    for name, every in (("system1", 20), ("system2", 50), ("reward", 60)):
        ticks = sum(point[f"{name}_ticks"] for point in curve)
        assert ticks == metrics["environment_steps"] // every - start // every  # type: ignore[operator]  # it is a number
    assert "system1_loss" in curve[0]
    assert "system2_loss" in curve[0]
    assert metrics["reward"] is not None
    meta = Checkpoint.open(out / "system1").meta
    assert meta.parents["system1 cloned"] == Checkpoint.open(pair / "artifacts/pretrain/system1").digest
    assert meta.metrics["environment_steps"] == metrics["environment_steps"]
    assert md5_folder(out / "system1") != md5_folder(pair / "artifacts/pretrain/system1")


def test_without_sure_decisions_and_without_success_it_says_so_and_comes_to_its_end(
    pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pair)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    params = COTRAIN.model_copy(
        update={
            "rounds": 2,
            "games": 3,
            "teacher": "system2",
            "acting": ACTING.model_copy(update={"max_steps": 2}),
            "channels": ChannelParams(confidence=1.0, capacity=200),
            "clocks": ClockParams(system1=1, system2=10_000, reward=10_000),
            "dense_scale": 0.0,
        }
    )
    metrics = run(pair, tmp_path / "out", params)
    notes = metrics["notes"]
    assert isinstance(notes, list)
    assert len(notes) == 2
    assert "no decision of System 1 reached the confidence 1.0" in notes[0]
    assert "every reward of 3 games is 0.0" in notes[1]
    for name in ("system1", "system2"):  # neither has learnt anything
        was, now = (folder / name / "model.safetensors" for folder in (pair / "artifacts/pretrain", tmp_path / "out"))
        assert md5_file(was) == md5_file(now)


def test_what_another_run_left_is_not_taken_up(pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dualmind.learning import cotraining

    monkeypatch.chdir(pair)
    short = COTRAIN.model_copy(update={"rounds": 1, "games": 2, "imitation_rounds": 0, "dense_scale": 0.0})
    with monkeypatch.context() as patch:
        patch.setattr(cotraining._Run, "round", _broken)
        with pytest.raises(RuntimeError, match="lights out"):
            run(pair, tmp_path / "out", short)
    assert (tmp_path / "out" / UNFINISHED).exists()
    other = short.model_copy(update={"games": 3})
    metrics = run(pair, tmp_path / "out", other)
    curve = metrics["curve"]
    assert isinstance(curve, list)
    assert len(curve) == 1
    assert not (tmp_path / "out" / UNFINISHED).exists()


@pytest.mark.parametrize(
    ("household", "reasoning", "wanted"),
    [
        (0.9, 0.6, "cotrained"),  # as good as before
        (0.95, 0.595, "cotrained"),  # a gain that costs less than may_lose
        (0.95, 0.58, "input"),  # a gain that costs more
        (0.89, 0.6, "input"),
        (0.9, 0.599, "input"),  # nothing was won for it
        (0.0, 1.0, "input"),
    ],
)
def test_what_got_worse_is_not_handed_on(household: float, reasoning: float, wanted: str) -> None:
    before = {"household": 0.9, "reasoning": 0.6}
    assert choose(before, {"household": household, "reasoning": reasoning}, 0.01) == wanted


def _broken(_: object) -> None:
    raise RuntimeError("lights out")
