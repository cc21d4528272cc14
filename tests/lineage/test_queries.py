"""What an auditor asks; the answers are compared with what the test project is known to do."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from dualmind.errors import LineageError
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.entries import What
from dualmind.lineage.graph import Releases
from dualmind.lineage.keys import open_key
from dualmind.lineage.ledger import Ledger, append
from dualmind.lineage.queries import Answer, affected_by, history, made_from, serving
from dualmind.storage import md5_file, md5_folder
from tests.lineage.project import LEDGER, TIME

DATA, STUDENT = "artifacts/prepare/decisions.parquet", "artifacts/distill/system1"
AFTER_DATA = {
    "artifacts/validate/decisions.json", "artifacts/pretrain/system1", STUDENT, "artifacts/calibrate/gate.json",
    "artifacts/calibrate/decisions.parquet", "artifacts/calibrate/threshold.json", "artifacts/evaluate/metrics.json",
}  # fmt: skip


def forward(root: Path, what: str) -> Answer:
    return affected_by(Releases.read(root / "releases"), Ledger.read(root / LEDGER), what)


def backward(root: Path, what: str, release: str = "") -> Answer:
    return made_from(Releases.read(root / "releases"), what, release)


def releases(answer: Answer) -> list[str]:
    return sorted({row[0] for row in answer.rows})


def things(answer: Answer, release: str, column: int = 2) -> set[str]:
    return {row[column] for row in answer.rows if row[0] == release}


def test_forward_from_a_data_set_is_all_that_was_made_from_it_and_when_that_served(both: Path) -> None:
    answer = forward(both, DATA)
    assert releases(answer) == ["r1", "r2"]
    assert things(answer, "r1") == things(answer, "r2") == AFTER_DATA
    assert "r1 (served from 2026-03-03T12:00:00.000000Z to 2026-03-04T12:00:00.000000Z)" in answer.text
    assert "r2 (served from 2026-03-04T12:00:00.000000Z on)" in answer.text


def test_forward_from_a_digest_reaches_the_one_release_that_has_these_bytes(both: Path) -> None:
    new = md5_file(both / DATA)
    for what in (new, new[:8]):
        assert releases(forward(both, what)) == ["r2"]
        assert things(forward(both, what), "r2") == AFTER_DATA
    assert forward(both, new[:7]).rows == ()
    assert forward(both, "nothing").text == "nothing affects no release."


@pytest.mark.parametrize("kind", ["checkpoint", "md5 of a file", "sha256 of a file", "release"])
def test_a_digest_that_production_knows_is_found_as_well(both: Path, kind: str) -> None:
    """Serving calls a checkpoint by one digest over its folder, the manifest each file by SHA-256."""
    bundle = Bundle.open(both / "releases/r2")
    manifest = json.loads((bundle.path / "manifest.json").read_text())["files"]
    weights = manifest[f"files/{STUDENT}/model.safetensors"]
    what = {"checkpoint": md5_folder(both / STUDENT), "md5 of a file": weights["md5"],
            "sha256 of a file": weights["sha256"], "release": bundle.digest}[kind]  # fmt: skip
    answer = forward(both, what)
    assert {STUDENT, "artifacts/calibrate/threshold.json", "artifacts/evaluate/metrics.json"} <= things(answer, "r2")
    assert kind != "release" or releases(answer) == ["r2"]
    assert ("artifacts/pretrain/system1" in things(answer, "r2")) == (kind == "release")


def test_forward_from_a_commit_is_what_was_released_of_it(both: Path) -> None:
    first = Bundle.open(both / "releases/r1").release.commit
    for what in (f"commit:{first}", f"commit:{first[:9]}"):
        assert things(forward(both, what), "r1") == {*AFTER_DATA, DATA}
        assert releases(forward(both, what)) == ["r1"]
    assert forward(both, "commit:").rows == forward(both, f"commit:{'0' * 40}").rows == ()


def test_forward_from_a_value_is_what_the_stages_made_that_ran_with_it(both: Path) -> None:
    answer = forward(both, "param:calibrate.alpha=0.1")
    assert things(answer, "r2") == {
        "artifacts/calibrate/decisions.parquet", "artifacts/calibrate/gate.json",
        "artifacts/calibrate/threshold.json", "artifacts/evaluate/metrics.json",
    }  # fmt: skip
    assert releases(answer) == ["r2"]
    assert releases(forward(both, "param:run.seed=0")) == ["r1", "r2"]
    assert forward(both, "param:run.seed=1").rows == forward(both, "param:nothing=1").rows == ()
    for what in ("param:run.seed", "param:=3", "param:run.seed=[1"):
        with pytest.raises(LineageError):
            forward(both, what)


def test_backward_gives_data_code_commit_commands_and_values(both: Path) -> None:
    answer = backward(both, "artifacts/pretrain/system1", "r1")
    assert releases(answer) == ["r1"]
    found = {row[2:] for row in answer.rows}
    assert {row[1] for row in found if row[0] == "content"} == {
        "artifacts/pretrain/system1", DATA, "artifacts/validate/decisions.json", "library", "make.py", "source.txt",
    }  # fmt: skip
    assert ("commit", Bundle.open(both / "releases/r1").release.commit, "") in found
    assert ("command", "pretrain", "python make.py pretrain") in found
    assert ("value", "pretrain pretrain.width", "4") in found
    assert not any(row[0] == "value" and "calibrate" in row[1] for row in found)  # what came later made nothing here


def test_backward_from_a_digest_a_commit_and_a_value(both: Path) -> None:
    threshold = md5_file(both / "artifacts/calibrate/threshold.json")
    answer = backward(both, threshold)
    assert releases(answer) == ["r2"]
    assert {DATA, STUDENT, "source.txt"} <= things(answer, "r2", 3)
    commit = Bundle.open(both / "releases/r1").release.commit
    assert {DATA, "make.py", "library", "source.txt"} <= things(backward(both, f"commit:{commit}"), "r1", 3)
    assert commit in things(backward(both, "param:calibrate.alpha=0.05"), "r1", 3)
    assert backward(both, threshold, "r1").text == f"{threshold} was found in no release."


def test_a_release_that_cannot_be_read_is_named_and_hides_no_other(two: Path) -> None:
    (two / "releases/r2/release.json").write_text("{}")
    for answer in (forward(two, DATA), backward(two, DATA)):
        assert releases(answer) == ["r1"]
        assert "Release r2 could not be searched: " in answer.text


def test_every_change_of_production_is_told_with_who_when_and_why(two: Path) -> None:
    key = open_key(two / "keys", "release", TIME)
    what = What(subject="threshold", name="0.8", digest="1" * 32)
    for kind, who, why in (("promote", "flows.calibration", "0.7 -> 0.8"), ("rollback", "Bob", "too many complaints")):
        append(two / LEDGER, key, time=TIME + timedelta(days=2), kind=kind, what=what, who=who, why=why)
    answer = history(Ledger.read(two / LEDGER))
    assert answer.text == "6 entries in the ledger, 4 of them changed what serves"
    assert [(row[0], row[2], row[3], row[5], row[6]) for row in answer.rows] == [
        ("1", "release", "release r1", "Ann", "test"),
        ("2", "promote", "release r1", "Ann", "test"),
        ("3", "release", "release r2", "Ann", "test"),
        ("4", "promote", "release r2", "Ann", "test"),
        ("5", "promote", "threshold 0.8", "flows.calibration", "0.7 -> 0.8"),
        ("6", "rollback", "threshold 0.8", "Bob", "too many complaints"),
    ]
    assert answer.rows[-1][1] == "2026-03-05T12:00:00.000000Z"
    served = serving(Ledger.read(two / LEDGER), two / "releases", "2026-03-06")
    assert [row[:2] for row in served.rows] == [("release", "r2"), ("threshold", "0.8")]
    assert "nothing served" in serving(Ledger.read(two / LEDGER), two / "releases", "2026-03-01").text
