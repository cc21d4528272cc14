from pathlib import Path

import numpy as np
import pytest

from dualmind.lineage.bundle import Bundle
from dualmind.lineage.checks import Check
from dualmind.lineage.keys import SigningKey
from dualmind.lineage.record import Machine
from tasks.audit import reexecute, sample_stages
from tests.lineage.project import MACHINE, REPOSITORY, TIME, commit, dvc, release


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))


def again(
    root: Path, names: list[str], *, name: str = "r1", minutes: float = 10, here: Machine = MACHINE
) -> list[Check]:
    bundle = Bundle.open(root / "releases" / name)
    return reexecute(bundle, root, names, minutes=minutes, here=here, log=lambda _: None)


def test_honest_stages_make_the_same_bytes_again_and_the_project_is_left_alone(project: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in project.rglob("*") if p.is_file() and ".dvc/tmp" not in str(p)}
    checks = again(project, ["distill", "calibrate"])
    assert [(own.ok, own.reason) for own in checks] == [
        (True, "stage distill was run again and made the same bytes"),
        (True, "stage calibrate was run again and made the same bytes"),
    ]
    after = {p: p.stat().st_mtime_ns for p in project.rglob("*") if p.is_file() and ".dvc/tmp" not in str(p)}
    assert after == before


@pytest.fixture
def random_stage(project: Path, key: SigningKey) -> Path:
    """A stage that is not reproducible: it writes what the system's entropy gives."""
    make = project / "make.py"
    make.write_text(make.read_text().replace('{"success": 0.9}', '{"success": os.urandom(8).hex()}'))
    dvc(project, "repro", "-q")
    commit(project, "random")
    release(project, key, "r2", TIME)
    return project


def test_a_stage_that_makes_other_bytes_is_found_and_another_machine_is_named(random_stage: Path) -> None:
    check = again(random_stage, ["evaluate"], name="r2")[0]
    assert not check.ok
    assert check.reason == "stage evaluate made another artifacts/evaluate/metrics.json when it was run again"
    assert check.expected != check.found
    assert "not reproducible" in check.remedy
    other = again(random_stage, ["evaluate"], name="r2", here=MACHINE.model_copy(update={"cpu": "Other CPU"}))[0]
    assert other.reason.endswith("that was on another CPU (Test CPU then, Other CPU here)")
    changed = {**MACHINE.packages, "torch": "9.9.9"}
    packages = again(random_stage, ["evaluate"], name="r2", here=MACHINE.model_copy(update={"packages": changed}))[0]
    assert packages.reason.endswith("other packages are installed (torch 2.13.0 then, 9.9.9 here)")


def test_a_budget_that_is_used_up_and_lost_inputs_are_no_pass(project: Path) -> None:
    assert "the budget was used up" in again(project, ["evaluate"], minutes=0)[0].reason
    for path in (project / ".dvc/cache/files").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.unlink()
    check = again(project, ["evaluate"])[0]
    assert not check.ok
    assert "not in the cache" in check.reason
    assert "dvc fetch" in check.remedy


def test_cheap_stages_are_drawn_more_often_and_each_once(project: Path) -> None:
    """By the formula: two stages that train 5 steps weigh 1 / 1.05, four others 1."""
    bundle, rng = Bundle.open(project / "releases/r1"), np.random.default_rng(0)
    assert sorted(sample_stages(bundle, 99, rng)) == sorted(own.name for own in bundle.lock.stages)
    record = bundle.release
    costly = [c.model_copy(update={"meta": c.meta.model_copy(update={"steps": 900})}) for c in record.checkpoints]
    bundle = Bundle(bundle.path, record.model_copy(update={"checkpoints": costly}), bundle.lock)
    drawn = [sample_stages(bundle, 1, rng)[0] for _ in range(4000)]
    share = sum(name in {"pretrain", "distill"} for name in drawn) / 4000
    expected = 0.2 / (0.2 + 4)  # each of the two costs ten times as much
    assert abs(share - expected) < 4 * (expected * (1 - expected) / 4000) ** 0.5
