from pathlib import Path

import pytest

from dualmind.lineage.keys import SigningKey, open_key
from tests.lineage.project import TIME, copy_project, make_project, release, release_key


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
