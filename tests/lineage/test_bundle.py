import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf.json_format import ParseDict
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2

from dualmind.errors import BundleError, HistoryError, LineageError
from dualmind.lineage.bundle import Bundle, make_bundle
from dualmind.lineage.entries import GENESIS, Anchor
from dualmind.lineage.keys import SigningKey
from dualmind.lineage.standards import check_statement
from dualmind.storage import md5_file, md5_folder
from tests.lineage.project import MACHINE, TIME, add_stage

NEW = Anchor(count=0, hash=GENESIS)


def make(root: Path, key: SigningKey, name: str = "r2", to: Path | None = None) -> Bundle:
    return make_bundle(root, to or root / "releases", name, key=key, time=TIME, machine=MACHINE, anchor=NEW)


def test_everything_is_found_from_the_lock_alone(project: Path) -> None:
    bundle = Bundle.open(project / "releases/r1")
    assert {own.path: own.digest for own in bundle.release.checkpoints} == {
        path: md5_folder(project / path) for path in ("artifacts/pretrain/system1", "artifacts/distill/system1")
    }
    assert bundle.release.receipts == ["artifacts/validate/decisions.json"]
    assert bundle.release.gates == ["artifacts/calibrate/gate.json"]
    assert bundle.release.thresholds == ["artifacts/calibrate/threshold.json"]
    assert bundle.release.results == ["artifacts/evaluate/metrics.json"]
    assert not list(bundle.path.rglob("*.parquet"))  # data stay where they are; their digests are in dvc.lock
    assert md5_file(bundle.file("artifacts/calibrate/gate.json")) == md5_file(project / "artifacts/calibrate/gate.json")
    with pytest.raises(BundleError, match="has no artifacts/nothing; it has artifacts/calibrate"):
        bundle.file("artifacts/nothing")


def test_the_same_release_gives_the_same_bytes_but_for_the_signature(
    project: Path, key: SigningKey, tmp_path: Path
) -> None:
    one, two = make(project, key, to=tmp_path / "one"), make(project, key, to=tmp_path / "two")
    names = sorted(p.relative_to(one.path) for p in one.path.rglob("*") if p.is_file())
    assert [n for n in names if (one.path / n).read_bytes() != (two.path / n).read_bytes()] == [Path("signature")]
    assert one.digest == two.digest
    later = make_bundle(
        project, tmp_path / "three", "r2", key=key, time=TIME + timedelta(days=1), machine=MACHINE, anchor=NEW
    )
    differing = {str(n) for n in names if (one.path / n).read_bytes() != (later.path / n).read_bytes()}
    assert not any(name.startswith("files/") for name in differing)


def test_the_standards_documents_follow_their_schemas_and_name_what_was_used(project: Path) -> None:
    bundle = Bundle.open(project / "releases/r1")
    bom = (bundle.path / "sbom.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bom) is None
    components = {own["name"]: own for own in json.loads(bom)["components"]}
    assert components["artifacts/distill/system1"]["type"] == "machine-learning-model"
    assert components["artifacts/prepare/decisions.parquet"]["hashes"] == [
        {"alg": "MD5", "content": md5_file(project / "artifacts/prepare/decisions.parquet")}
    ]
    assert components["torch"]["version"] == "2.13.0"
    statement = json.loads((bundle.path / "provenance.json").read_text())
    ParseDict(statement["predicate"], provenance_pb2.Provenance())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    internal = statement["predicate"]["buildDefinition"]["internalParameters"]
    assert internal["threads"] == {"artifacts/pretrain/system1": 1, "artifacts/distill/system1": 1}
    assert internal["machine"]["cpu"] == "Test CPU"
    events = [json.loads(line) for line in (bundle.path / "openlineage.jsonl").read_text().splitlines()]
    assert {event["job"]["name"] for event in events} == {own.name for own in bundle.lock.stages}
    for event in events:  # what https://openlineage.io/spec/2-0-2/OpenLineage.json requires of a run event
        assert event["eventType"] == "COMPLETE"
        assert {"eventTime", "producer", "schemaURL", "run", "job"} <= set(event)
        assert all({"namespace", "name"} <= set(own) for own in (event["job"], *event["inputs"], *event["outputs"]))


@pytest.mark.parametrize(
    "change",
    [
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"subject": []},
        {"subject": [{"name": "x"}]},
        {"predicateType": ""},
        {"predicate": {"buildDefinition": {"unknown": 1}}},
        {"predicate": None},
        {"more": 1},
    ],
)
def test_a_statement_of_another_form_is_refused(project: Path, change: dict[str, object]) -> None:
    statement = json.loads((project / "releases/r1/provenance.json").read_text())
    check_statement(statement)
    with pytest.raises(BundleError, match="does not follow in-toto and SLSA"):
        check_statement({**statement, **change})


def test_a_stage_that_is_not_known_today_is_released_as_well(project: Path, key: SigningKey) -> None:
    """A stage that makes a small model, with results beside it; nothing in the library names it."""
    add_stage(project)
    release = make(project, key).release
    assert "artifacts/compress/system1" in [own.path for own in release.checkpoints]
    assert "artifacts/compress/size.json" in release.results


def test_what_cannot_be_released_is_a_clear_error_and_leaves_nothing(
    project: Path, key: SigningKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BundleError, match="is never changed"):
        make(project, key, "r1")
    for name in ("../x", "", ".hidden", "a/b"):
        with pytest.raises(BundleError, match="names no release"):
            make(project, key, name)
    shutil.move(project / "artifacts/distill", tmp_path / "distill")
    with pytest.raises(BundleError, match="run `dvc checkout artifacts/distill/system1`"):
        make(project, key)
    shutil.move(tmp_path / "distill", project / "artifacts/distill")
    lock = (project / "dvc.lock").read_text()
    (project / "dvc.lock").write_text("stages: [")
    with pytest.raises(LineageError, match=r"dvc\.lock is no dvc\.lock that can be read"):
        make(project, key)
    (project / "dvc.lock").write_text(lock)
    shutil.move(project / ".git", tmp_path / "git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    with pytest.raises(HistoryError, match="run from a git checkout"):
        make(project, key)
    assert {p.name for p in (project / "releases").iterdir()} == {
        "r1", "ledger.jsonl", "ledger.head", "ledger.jsonl.lock",
    }  # fmt: skip
