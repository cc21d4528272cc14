from datetime import timedelta
from pathlib import Path

import pytest

from dualmind.lineage.keys import SigningKey, open_key
from tests.lineage.project import TIME, commit, copy_project, dvc, make_project, release, release_key


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one release; copied, never changed."""
    root = make_project(tmp_path_factory.mktemp("pristine") / "project")
    release(root, release_key(root))
    return root


@pytest.fixture
def project(pristine: Path, tmp_path: Path) -> Path:
    return copy_project(pristine, tmp_path / "project")


@pytest.fixture
def key(project: Path) -> SigningKey:
    return open_key(project / "keys", "release", TIME)


@pytest.fixture(scope="session")
def both(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second release, of other data, on another threshold level; copied, never changed."""
    project = copy_project(pristine, tmp_path_factory.mktemp("both") / "project")
    key = open_key(project / "keys", "release", TIME)
    (project / "source.txt").write_text("other data\n")
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("alpha: 0.05", "alpha: 0.1"))
    dvc(project, "repro", "-q")
    commit(project, "other data")
    release(project, key, "r2", TIME + timedelta(days=1))
    return project


@pytest.fixture
def two(both: Path, tmp_path: Path) -> Path:
    return copy_project(both, tmp_path / "two")
