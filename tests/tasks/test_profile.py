import subprocess
from pathlib import Path

import pytest

from dualmind.errors import ParamsError, PipelineError
from tasks.profile import make_copy


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "params").mkdir(parents=True)
    (root / "stages").mkdir()
    (root / "stages" / "a.py").write_text("1")
    (root / "params.yaml").write_text("x: default")
    (root / "params" / "quick.yaml").write_text("x: quick")
    (root / ".gitignore").write_text("/.profiles/\n/artifacts/\n")
    (root / "artifacts").mkdir()
    (root / "artifacts" / "model").write_text("precious")
    (root / "dvc.lock").write_text("default's")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def test_a_profile_runs_on_a_copy_with_its_own_params_and_leaves_the_default_alone(project: Path) -> None:
    copy = make_copy(project, "quick")
    assert (copy / "params.yaml").read_text() == "x: quick"
    assert (copy / "stages" / "a.py").read_text() == "1"
    assert not (copy / "artifacts").exists()
    assert not (copy / "dvc.lock").exists()
    assert (project / "params.yaml").read_text() == "x: default"
    assert (project / "artifacts" / "model").read_text() == "precious"


def test_a_second_copy_keeps_what_the_profile_made_and_forgets_deleted_modules(project: Path) -> None:
    copy = make_copy(project, "quick")
    (copy / "dvc.lock").write_text("quick's")
    (project / "stages" / "b.py").write_text("2")
    (project / "stages" / "a.py").unlink()
    make_copy(project, "quick")
    assert (copy / "dvc.lock").read_text() == "quick's"
    assert sorted(p.name for p in (copy / "stages").iterdir()) == ["b.py"]


def test_an_unknown_profile_and_a_folder_without_git_are_refused(project: Path, tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"no profile 'fast' .*profiles are quick"):
        make_copy(project, "fast")
    bare = tmp_path / "bare"
    (bare / "params").mkdir(parents=True)
    (bare / "params" / "quick.yaml").write_text("x: 1")
    with pytest.raises(PipelineError, match="no git checkout"):
        make_copy(bare, "quick")
