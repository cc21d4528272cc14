import subprocess
from pathlib import Path

import pytest
import yaml

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


def test_a_second_copy_forgets_deleted_files_of_any_kind_but_keeps_what_was_made_there(project: Path) -> None:
    (project / "stages" / "table.json").write_text("{}")
    (project / "Makefile").write_text("all:")
    copy = make_copy(project, "quick")
    (copy / "stages" / "made.json").write_text("[]")
    (project / "stages" / "table.json").unlink()
    (project / "Makefile").rename(project / "makefile.mk")
    (project / "stages" / "a.py").unlink()
    (project / "stages" / "a.py").mkdir()
    (project / "stages" / "a.py" / "now_a_folder").write_text("3")
    make_copy(project, "quick")
    assert sorted(p.name for p in (copy / "stages").iterdir()) == ["a.py", "made.json"]
    assert (copy / "stages" / "a.py" / "now_a_folder").is_file()
    assert (copy / "makefile.mk").is_file()
    assert not (copy / "Makefile").exists()


@pytest.mark.parametrize("games", ["../games", "artifacts/games", "stages/../../games"])
def test_games_that_are_not_copied_are_found_from_the_copy(project: Path, games: str) -> None:
    (project / games).mkdir(parents=True)
    (project / "params" / "quick.yaml").write_text(f"household: {{games: {games}, seed: 3}}  # no others")
    copy = make_copy(project, "quick")
    params = yaml.safe_load((copy / "params.yaml").read_text())
    assert not Path(params["household"]["games"]).is_absolute()  # dvc.lock must not depend on where the project lies
    assert (copy / params["household"]["games"]).resolve() == (project / games).resolve()
    assert params["household"]["seed"] == 3


@pytest.mark.parametrize("games", ["stages/a.py", "stages", "./stages/", "/data/games"])
def test_games_that_are_copied_or_absolute_stay_as_they_are(project: Path, games: str) -> None:
    text = f"household:\n  games: {games}  # as written\n"
    (project / "params" / "quick.yaml").write_text(text)
    assert (make_copy(project, "quick") / "params.yaml").read_text() == text


def test_an_unknown_profile_and_a_folder_without_git_are_refused(project: Path, tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"no profile 'fast' .*profiles are quick"):
        make_copy(project, "fast")
    bare = tmp_path / "bare"
    (bare / "params").mkdir(parents=True)
    (bare / "params" / "quick.yaml").write_text("x: 1")
    with pytest.raises(PipelineError, match="no git checkout"):
        make_copy(bare, "quick")
