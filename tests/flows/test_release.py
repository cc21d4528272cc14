"""The whole pipeline as one flow, on the small project of the lineage tests."""

import subprocess
from pathlib import Path

import pytest

from dualmind.errors import BundleError, LineageError
from dualmind.lineage.integrity import Trusted
from dualmind.lineage.ledger import Ledger
from dualmind.lineage.verify import verify_release
from flows.release import whole
from tests.lineage.project import PARAMS, REPOSITORY, dvc, git
from tests.lineage.project import commit as commit_all

pytestmark = [
    pytest.mark.usefixtures("server"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),  # Prefect's own
]
SECTIONS = """
flow: {workers: 2, stage_limit_minutes: 10, lock_wait_minutes: 10}
release: {name: r2, folder: releases, keys: keys, signer: release, why: better, promote: true}
"""


@pytest.fixture
def changed(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another threshold level was committed, and has not run."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ann@example.org")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    (project / "params.yaml").write_text(PARAMS.replace("0.05", "0.1") + SECTIONS)
    dvc(project, "remote", "add", "-q", "--default", "storage", str(tmp_path / "storage"))
    commit_all(project, "another level")
    return project


def test_stages_run_their_lock_is_committed_and_the_release_is_sealed_and_pushed(changed: Path) -> None:
    digest = whole(changed, published=True)
    assert git(changed, "log", "--format=%s", "-3").splitlines()[:2] == ["Releases and ledger", "Lock of release r2"]
    assert git(changed, "status", "--porcelain") == ""
    ledger = Ledger.read(changed / "releases/ledger.jsonl")
    assert [(own.kind, own.what.name) for own in ledger.entries[-2:]] == [("release", "r2"), ("promote", "r2")]
    assert ledger.entries[-1].what.digest == digest
    trusted = [Trusted.read(changed / "keys/release.pub")]
    assert verify_release(changed / "releases/r2", changed, ledger=ledger, trusted=trusted).failures == []
    clone = changed.parent / "clone"
    subprocess.run(["git", "clone", "-q", str(changed), str(clone)], check=True)
    dvc(clone, "pull", "-q")
    assert (clone / "artifacts/calibrate/threshold.json").is_file()
    assert (clone / "releases/r2/release.json").is_file()
    with pytest.raises(BundleError, match="there is a release r2 already"):
        whole(changed)


def test_uncommitted_code_is_not_released_and_not_committed_either(changed: Path) -> None:
    (changed / "library/a.py").write_text("A = 7\n")
    with pytest.raises(LineageError, match=r"(?s)tree: .*library/a\.py"):
        whole(changed)
    assert git(changed, "status", "--porcelain") == "M library/a.py"
    assert not (changed / "releases/r2").exists()
