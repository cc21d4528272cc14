import json
from pathlib import Path

import pytest

from dualmind.errors import BundleError, LineageError, SigningKeyError
from dualmind.lineage.ledger import Ledger
from stages.release import LEDGER, ReleaseParams, release
from tests.lineage.project import MACHINE, TIME, commit, copy_project, dvc


@pytest.fixture
def fresh(pristine: Path, tmp_path: Path) -> Path:
    """The project without its releases."""
    root = copy_project(pristine, tmp_path / "fresh")
    for path in (root / "releases").glob("ledger*"):
        path.unlink()
    (root / "releases/r1").rename(tmp_path / "r1")
    return root


def params(**changes: object) -> ReleaseParams:
    values = {"name": "r1", "folder": "releases", "keys": "keys", "signer": "development", "promote": True}
    return ReleaseParams.model_validate({**values, "why": "the first", **changes})


def test_a_release_is_made_recorded_and_promoted(fresh: Path) -> None:
    bundle = release(params(), fresh, time=TIME, machine=MACHINE)
    entries = Ledger.read(fresh / "releases" / LEDGER).entries
    assert [(own.kind, own.what.name, own.why) for own in entries] == [
        ("release", "r1", "the first"),
        ("promote", "r1", "the first"),
    ]
    assert {own.what.digest for own in entries} == {bundle.digest}
    assert bundle.release.signer.development
    assert "development key" in (bundle.path / "README.md").read_text()
    second = release(params(name="r2", promote=False), fresh, time=TIME, machine=MACHINE)
    assert second.release.ledger.count == 2
    assert Ledger.read(fresh / "releases" / LEDGER).entries[-1].kind == "release"
    with pytest.raises(BundleError, match="never changed"):
        release(params(), fresh, time=TIME, machine=MACHINE)


def test_what_does_not_pass_its_audit_is_not_released_and_leaves_nothing(fresh: Path) -> None:
    (fresh / "library" / "a.py").write_text("A = 3\n")
    with pytest.raises(LineageError, match=r"(?s)does not pass its own audit.*tree: .*library/a\.py.*commit what ran"):
        release(params(), fresh, time=TIME, machine=MACHINE)
    commit(fresh, "committed, but not run")
    with pytest.raises(LineageError, match=r"(?s)code: stage pretrain ran with another library"):
        release(params(), fresh, time=TIME, machine=MACHINE)
    assert [p.name for p in (fresh / "releases").iterdir()] == []
    dvc(fresh, "repro", "-q")
    commit(fresh, "run")
    release(params(), fresh, time=TIME, machine=MACHINE)


def test_a_crash_between_making_and_recording_is_healed(fresh: Path) -> None:
    release(params(), fresh, time=TIME, machine=MACHINE)
    for path in (fresh / "releases").glob("ledger*"):
        path.unlink()
    release(params(), fresh, time=TIME, machine=MACHINE)
    assert len(Ledger.read(fresh / "releases" / LEDGER).entries) == 2


def test_a_missing_key_an_expired_key_and_a_missing_output_are_clear_errors(fresh: Path) -> None:
    with pytest.raises(SigningKeyError, match="openssl ecparam"):
        release(params(signer="nobody"), fresh, time=TIME, machine=MACHINE)
    info = json.loads((fresh / "keys/release.json").read_text())
    (fresh / "keys/release.json").write_text(json.dumps({**info, "expires": "2026-03-03T12:00:00.000000Z"}))
    with pytest.raises(SigningKeyError, match="expired at 2026-03-03"):
        release(params(signer="release"), fresh, time=TIME, machine=MACHINE)
    (fresh / "artifacts/calibrate/gate.json").unlink()
    with pytest.raises(BundleError, match=r"run `dvc checkout artifacts/calibrate/gate\.json`"):
        release(params(), fresh, time=TIME, machine=MACHINE)
