"""Attacks: each is found, for its own reason. And no false alarm."""

import json
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dualmind.lineage.checks import Check
from dualmind.lineage.content import MAX_DOCUMENT_BYTES
from dualmind.lineage.integrity import Trusted
from dualmind.lineage.keys import SigningKey, make_key, open_key
from dualmind.lineage.ledger import Ledger
from dualmind.lineage.page import render_audit
from dualmind.lineage.verify import Verdict, verify_release
from dualmind.storage import md5_file, md5_folder
from tests.lineage.project import LEDGER, TIME, add_stage, commit, copy_project, dvc, edit_json, git, release, resign

DISTILLED, PRETRAINED = "files/artifacts/distill/system1", "files/artifacts/pretrain/system1"
THRESHOLD = "files/artifacts/calibrate/threshold.json"


def audit(root: Path, name: str = "r1", *, ledger: bool = True, trusted: bool = True) -> Verdict:
    keys = [Trusted.read(root / "keys" / "release.pub")] if trusted else []
    own = Ledger.read(root / LEDGER) if ledger else None
    return verify_release(root / "releases" / name, root, ledger=own, trusted=keys)


def failures(verdict: Verdict) -> dict[str, Check]:
    """The first failure of each check."""
    found: dict[str, Check] = {}
    for check in verdict.failures:
        assert check.reason
        assert check.remedy
        found.setdefault(check.name, check)
    return found


def test_an_honest_release_passes_every_check(project: Path) -> None:
    verdict = audit(project)
    assert verdict.failures == []
    assert {check.name for check in verdict.checks} == {
        "files", "bytes", "signature", "name", "key", "ledger", "commit", "lock", "code", "params", "tree", "outputs",
        "chain", "data", "parents", "threshold", "provenance", "record",
    }  # fmt: skip
    assert audit(project, ledger=False, trusted=False).ok


@pytest.mark.parametrize(
    "name",
    [
        f"{DISTILLED}/model.safetensors", f"{DISTILLED}/tokenizer.json", f"{DISTILLED}/config.json",
        f"{DISTILLED}/meta.json", "files/artifacts/calibrate/gate.json", THRESHOLD, "README.md", "sbom.cdx.json",
        "provenance.json", "openlineage.jsonl", "dvc.lock", "dvc.yaml", "params.yaml", "release.json", "public_key.pem",
        "files/artifacts/validate/decisions.json", "files/artifacts/evaluate/metrics.json",
    ],
)  # fmt: skip
def test_a_changed_byte_is_found_and_named(project: Path, name: str) -> None:
    path = project / "releases/r1" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    found = failures(audit(project))
    assert found["bytes"].subject == name
    assert found["bytes"].reason == f"{name} was changed"
    assert found["bytes"].expected.startswith("sha256")
    assert "signature" in found


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_of_what_is_parsed_is_found_and_nothing_raises(pristine: Path, data: st.DataObject) -> None:
    """All checks run, the later ones on damaged content as well."""
    names = ["signature", "manifest.json", "release.json", "dvc.lock", "provenance.json", "public_key.pem", THRESHOLD]
    name = data.draw(st.sampled_from(names))
    path = pristine / "releases/r1" / name
    whole = path.read_bytes()
    content = bytearray(whole)
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255).filter(lambda value: value != whole[place]))
    try:
        path.write_bytes(bytes(content))
        found = audit(pristine)
    finally:
        path.write_bytes(whole)
    if name != "signature":
        assert not found.ok
    else:  # a signature's JSON has parts that mean nothing: those may differ, what it signs may not
        assert not found.ok or _payload(bytes(content)) == _payload(whole)


def _payload(signature: bytes) -> Any:
    return json.loads(signature)["dsseEnvelope"]["payload"]


def test_a_file_that_was_added_removed_or_hidden_is_found(project: Path) -> None:
    bundle = project / "releases/r1"
    for name in ("extra.py", ".gitignore", "files/signature"):
        (bundle / name).write_text("x")
        found = failures(audit(project))
        assert found["bytes"].reason == f"{name} was added"
        assert "signature" in found
        (bundle / name).unlink()
    (bundle / DISTILLED / "config.json").unlink()
    assert failures(audit(project))["bytes"].reason == f"{DISTILLED}/config.json is missing"
    (bundle / "README.md").unlink()
    found = failures(audit(project))
    assert list(found) == ["files"]
    assert found["files"].reason == "README.md is missing"


def test_a_swapped_parent_is_found_even_when_it_is_signed_again(project: Path, key: SigningKey) -> None:
    bundle = project / "releases/r1"
    shutil.rmtree(bundle / PRETRAINED)
    shutil.copytree(bundle / DISTILLED, bundle / PRETRAINED)
    assert failures(audit(project))["bytes"].subject.startswith(PRETRAINED)
    resign(bundle, key)
    found = failures(audit(project))
    assert "bytes" not in found
    assert found["outputs"].subject == "artifacts/pretrain/system1"
    assert found["parents"].reason == "release.json describes another artifacts/pretrain/system1"
    assert found["ledger"].reason.endswith("records other bytes under the name r1")


def test_a_checkpoint_that_names_a_parent_which_was_not_read_is_found(project: Path, key: SigningKey) -> None:
    bundle = project / "releases/r1"

    def change(meta: Any) -> None:
        meta["parents"]["teacher"] = "0" * 32

    edit_json(bundle / DISTILLED / "meta.json", change)
    resign(bundle, key)
    reasons = [check.reason for check in audit(project).failures if check.name == "parents"]
    assert "artifacts/distill/system1 names a parent 'teacher' that the stage which made it did not read" in reasons


def test_any_parent_of_any_checkpoint_that_is_swapped_for_another_released_one_is_found(
    project: Path, key: SigningKey
) -> None:
    """By someone who can sign; a stage that was added later is no exception, nor a parent that is released as well."""
    add_stage(project)
    commit(project, "one more stage")
    bundle = release(project, key, "r2").path
    assert audit(project, "r2").failures == []
    records = json.loads((bundle / "release.json").read_text())["checkpoints"]
    pairs = [(own["path"], name) for own in records for name in own["meta"]["parents"]]
    assert {path.split("/")[1] for path, _ in pairs} == {"pretrain", "distill", "compress"}
    for path, name in pairs:
        meta = bundle / "files" / path / "meta.json"
        honest = meta.read_bytes()
        other = next(own["digest"] for own in records if own["digest"] != json.loads(honest)["parents"][name])

        def change(own: Any, name: str = name, other: str = other) -> None:
            own["parents"][name] = other

        edit_json(meta, change)
        resign(bundle, key)
        reasons = [check.reason for check in audit(project, "r2").failures if check.name == "parents"]
        meta.write_bytes(honest)
        swapped = f"{path} names a parent {name!r} that the stage which made it did not read"
        assert swapped in reasons or f"release.json describes another {path}" in reasons


def test_a_threshold_from_another_release_is_found(project: Path, key: SigningKey) -> None:
    """Other weights were released as r2, and its threshold is put into r1 by someone who can sign."""
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("seed: 0", "seed: 1"))
    dvc(project, "repro", "-q")
    commit(project, "another seed")
    release(project, key, "r2", TIME + timedelta(days=1))
    assert audit(project, "r1").ok
    assert audit(project, "r2").ok
    bundle = project / "releases/r1"
    shutil.copy(project / "releases/r2" / THRESHOLD, bundle / THRESHOLD)
    assert failures(audit(project))["bytes"].subject == THRESHOLD
    resign(bundle, key)
    found = failures(audit(project))
    path = "artifacts/calibrate/threshold.json"
    assert {check.reason for check in audit(project).failures if check.name == "threshold"} == {
        f"{path} was calibrated on other {kind} than are released" for kind in ("gate", "weights")
    }  # and not the data: both were calibrated on the same
    assert found["outputs"].subject == "artifacts/calibrate/threshold.json"


def test_a_threshold_of_another_gate_or_of_a_checkpoint_beside_or_of_nothing_is_found(
    project: Path, key: SigningKey
) -> None:
    path = project / "releases/r1" / THRESHOLD
    honest = path.read_bytes()
    other = md5_folder(project / "releases/r1" / PRETRAINED)  # is released too, but was not what was calibrated
    changes: list[tuple[dict[str, Any], str]] = [
        ({"gate_digest": "1" * 32}, "was calibrated on other gate than are released"),
        ({"weights_digest": other}, "was calibrated on other weights than are released"),
        ({"calibration_digest": "2" * 32}, "was calibrated on other data than are released"),
        ({"weights_digest": "none"}, "does not say which weights it belongs to"),
        ({"gate_digest": 3}, "does not say which gate it belongs to"),
    ]
    for change, reason in changes:
        path.write_text(json.dumps({**json.loads(honest), **change}))
        resign(project / "releases/r1", key)
        assert failures(audit(project))["threshold"].reason == f"artifacts/calibrate/threshold.json {reason}"


def test_a_gate_that_was_fitted_on_other_weights_is_found(project: Path, key: SigningKey) -> None:
    path = project / "releases/r1/files/artifacts/calibrate/gate.json"
    edit_json(path, lambda own: own.update(weights_digest="4" * 32))
    resign(project / "releases/r1", key)
    reasons = [check.reason for check in audit(project).failures if check.name == "threshold"]
    assert "artifacts/calibrate/gate.json was calibrated on other weights than are released" in reasons


def test_a_forged_hash_in_dvc_lock_is_found(project: Path, key: SigningKey) -> None:
    bundle = project / "releases/r1"
    true = md5_file(project / "artifacts/prepare/decisions.parquet")
    lock = bundle / "dvc.lock"
    lock.write_text(lock.read_text().replace(f"md5: {true}", f"md5: {'f' * 32}", 1))
    resign(bundle, key)
    found = failures(audit(project))
    assert found["lock"].reason == "dvc.lock is not that of the commit"
    assert (found["lock"].expected, found["lock"].found) == (
        f"prepare makes artifacts/prepare/decisions.parquet {true}",
        f"prepare makes artifacts/prepare/decisions.parquet {'f' * 32}",
    )
    assert found["chain"].reason.endswith("read another artifacts/prepare/decisions.parquet than prepare made")


def test_a_forged_hash_that_was_also_committed_is_found_by_the_bytes(project: Path, key: SigningKey) -> None:
    lock = project / "dvc.lock"
    true = md5_file(project / "artifacts/calibrate/gate.json")
    lock.write_text(lock.read_text().replace(true, "e" * 32))
    commit(project, "forged")
    release(project, key, "r2")
    found = failures(audit(project, "r2"))
    assert found["outputs"].subject == "artifacts/calibrate/gate.json"
    assert (found["outputs"].expected, found["outputs"].found) == (f"md5 {'e' * 32}", f"md5 {true}")


def test_a_receipt_for_other_bytes_is_found(project: Path, key: SigningKey) -> None:
    bundle = project / "releases/r1"

    def change(receipt: Any) -> None:
        receipt["md5"] = "3" * 32

    edit_json(bundle / "files/artifacts/validate/decisions.json", change)
    resign(bundle, key)
    reasons = [check.reason for check in audit(project).failures if check.name == "data"]
    assert reasons[0] == (
        "the receipt artifacts/validate/decisions.json is for other bytes than were used as "
        "artifacts/prepare/decisions.parquet"
    )
    assert "stage pretrain read artifacts/prepare/decisions.parquet, which was not validated" in reasons


def test_data_that_were_not_validated_are_found(project: Path, key: SigningKey) -> None:
    text = (project / "dvc.yaml").read_text()
    start, end = text.index("  validate:"), text.index("  pretrain:")
    text = (text[:start] + text[end:]).replace(", artifacts/validate/decisions.json", "")
    (project / "dvc.yaml").write_text(text)
    (project / "dvc.lock").unlink()
    dvc(project, "repro", "-q")
    commit(project, "without the gate")
    release(project, key, "r2")
    assert "which was not validated" in failures(audit(project, "r2"))["data"].reason


@pytest.mark.parametrize("change", ["edit", "remove", "reorder", "cut"])
def test_a_ledger_that_was_changed_is_found_by_the_audit_of_a_release(
    project: Path, key: SigningKey, change: str
) -> None:
    for day in range(1, 4):
        release(project, key, f"r{day + 1}", TIME + timedelta(days=day))
    path = project / LEDGER
    lines = path.read_text().splitlines(keepends=True)
    match change:
        case "edit":
            lines[2] = lines[2].replace("Ann", "Eve")
        case "remove":
            del lines[2]
        case "reorder":
            lines[2:4] = reversed(lines[2:4])
        case "cut":
            del lines[4:]
    path.write_text("".join(lines))
    words = {"edit": "entry 3 was edited", "remove": "entry 3 was removed", "reorder": "place of entry 3",
             "cut": "entries 5 to 8 were removed"}  # fmt: skip
    assert words[change] in failures(audit(project, "r2"))["ledger"].reason


def test_a_release_that_was_signed_with_another_key_is_found(project: Path) -> None:
    bundle, eve = project / "releases/r1", make_key(project / "eve", "release")
    (bundle / "public_key.pem").write_bytes(eve.public.pem)

    def change(own: Any) -> None:
        own["signer"]["fingerprint"] = eve.public.fingerprint

    edit_json(bundle / "release.json", change)
    resign(bundle, eve)
    found = failures(audit(project))
    assert found["key"].reason == "the release is signed with a key that is not trusted"
    assert found["key"].found == eve.public.fingerprint
    assert set(failures(audit(project, trusted=False))) == {"ledger"}
    resign(bundle, open_key(project / "keys", "release", TIME))
    assert failures(audit(project))["signature"].reason.startswith("the signature is not over these bytes")


def test_a_params_value_that_was_changed_after_the_run_is_found(project: Path, key: SigningKey) -> None:
    params = project / "params.yaml"
    params.write_text(params.read_text().replace("alpha: 0.05", "alpha: 0.01"))
    commit(project, "a stricter look")
    release(project, key, "r2")
    found = failures(audit(project, "r2"))
    assert list(found) == ["params"]
    assert found["params"].reason == "stage calibrate ran with another calibrate than params.yaml holds"
    assert "0.01" in found["params"].expected
    assert "0.05" in found["params"].found


def test_uncommitted_code_at_release_is_found(project: Path, key: SigningKey) -> None:
    (project / "library" / "a.py").write_text("A = 2\n")
    (project / "new.py").write_text("")
    release(project, key, "r2")
    found = failures(audit(project, "r2"))
    assert list(found) == ["tree"]
    assert found["tree"].found == "library/a.py, new.py"


def test_code_that_ran_and_was_then_taken_back_is_found(project: Path, key: SigningKey) -> None:
    (project / "library" / "a.py").write_text("A = 2\n")
    dvc(project, "repro", "-q")
    (project / "library" / "a.py").write_text("A = 1\n")
    commit(project, "looks harmless")
    release(project, key, "r2")
    found = failures(audit(project, "r2"))
    assert list(found) == ["code"]
    assert found["code"].reason == "stage pretrain ran with another library than is committed"


def test_an_uncommitted_lock_is_found(project: Path, key: SigningKey) -> None:
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("seed: 0", "seed: 2"))
    commit(project, "another seed")
    dvc(project, "repro", "-q")
    release(project, key, "r2")
    found = failures(audit(project, "r2"))
    assert set(found) == {"lock", "tree"}
    assert found["tree"].found == "dvc.lock"


def test_a_history_that_was_rewritten_by_amend_is_found(project: Path) -> None:
    git(project, "commit", "-q", "--amend", "-m", "as if it had been so")
    found = failures(audit(project))
    assert list(found) == ["commit"]
    assert found["commit"].reason.startswith("the history was rewritten after the release")
    git(project, "reflog", "expire", "--expire=now", "--all")
    git(project, "gc", "-q", "--prune=now")
    assert failures(audit(project))["commit"].reason.startswith("the commit does not exist here")


def test_a_shallow_clone_no_git_and_no_repository_are_clear_answers(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "later.txt").write_text("later")
    commit(project, "later")
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{project}", str(tmp_path / "shallow")], check=True)
    found = verify_release(project / "releases/r1", tmp_path / "shallow")
    check = failures(found)["commit"]
    assert "shallow" in check.reason
    assert check.remedy == "run `git fetch --unshallow`"
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    check = failures(verify_release(project / "releases/r1", tmp_path / "empty"))["commit"]
    assert "not a git repository" in check.reason
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert "install git" in failures(verify_release(project / "releases/r1", project))["commit"].reason


def test_links_devices_and_huge_files_are_refused_before_they_are_read(project: Path) -> None:
    bundle = project / "releases/r1"
    card = (bundle / "README.md").read_bytes()
    (bundle / "README.md").unlink()
    (bundle / "README.md").symlink_to("/etc/hostname")
    assert "is a link or a device" in failures(audit(project))["files"].reason
    (bundle / "README.md").unlink()
    with (bundle / "README.md").open("wb") as file:
        file.truncate(10 << 30)  # sparse: ten gigabytes that take no space
    found = failures(audit(project))
    assert list(found) == ["files"]
    assert f"only .safetensors files may have over {MAX_DOCUMENT_BYTES}" in found["files"].reason
    (bundle / "README.md").write_bytes(card)
    with (bundle / DISTILLED / "model.safetensors").open("r+b") as file:
        file.truncate(1 << 20)
    assert failures(audit(project))["bytes"].found == "1048576 bytes"
    assert list(failures(audit(project, "nothing"))) == ["files"]
    (project / "releases/linked").symlink_to(bundle)
    assert "no release folder" in failures(audit(project, "linked"))["files"].reason


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b", "..\\b"])
def test_paths_that_lead_out_are_refused(project: Path, key: SigningKey, path: str) -> None:
    bundle = project / "releases/r1"

    def add(manifest: Any) -> None:
        manifest["files"][path] = {"sha256": "0" * 64, "md5": "0" * 32, "size": 1}

    edit_json(bundle / "manifest.json", add)
    assert any("leads out of the release" in check.reason for check in audit(project).failures)

    def point(own: Any) -> None:
        own["receipts"] = [path]
        own["thresholds"] = [path]
        own["checkpoints"][0]["path"] = path

    edit_json(bundle / "release.json", point)
    resign(bundle, key)
    assert not audit(project).ok


def test_a_lineage_that_goes_in_a_circle_is_named(project: Path, key: SigningKey) -> None:
    bundle = project / "releases/r1"
    gate = md5_file(project / "artifacts/calibrate/gate.json")
    lock = (bundle / "dvc.lock").read_text()
    entry = f"    deps:\n    - path: artifacts/calibrate/gate.json\n      hash: md5\n      md5: {gate}\n      size: 9\n"
    start = lock.index("  prepare:")
    (bundle / "dvc.lock").write_text(lock[:start] + lock[start:].replace("    deps:\n", entry, 1))
    resign(bundle, key)
    reasons = [check.reason for check in audit(project).failures if check.name == "chain"]
    assert any(reason.startswith("the lineage goes in a circle: ") for reason in reasons)


@pytest.mark.parametrize("text", ["", "stages: 3", "stages: {a: {cmd: 1, outs: [{path: b}]}}", "&a [*a]", "{", "\0"])
def test_a_damaged_lock_is_a_clear_answer(project: Path, key: SigningKey, text: str) -> None:
    (project / "releases/r1/dvc.lock").write_text(text)
    resign(project / "releases/r1", key)
    assert "dvc.lock that can be read" in failures(audit(project))["files"].reason


def test_a_renamed_release_and_one_that_the_ledger_does_not_know_are_found(project: Path) -> None:
    (project / "releases/r1").rename(project / "releases/r7")
    assert failures(audit(project, "r7"))["name"].found == "r7"
    (project / LEDGER).unlink()
    (project / LEDGER).with_suffix(".head").unlink()
    assert (
        "here are 0" in failures(audit(project, "r7"))["ledger"].reason
        or "knows no release" in failures(audit(project, "r7"))["ledger"].reason
    )


def test_an_expired_key_and_a_development_key_are_named(project: Path) -> None:
    edit_json(project / "keys/release.json", lambda own: own.update(expires="2026-03-03T11:00:00.000000Z"))
    assert failures(audit(project))["key"].reason == "the key had expired when the release was made"
    development = open_key(project / "keys", "development", TIME)
    release(project, development, "r2")
    trusted = [Trusted.read(project / "keys/development.pub")]
    verdict = verify_release(project / "releases/r2", project, trusted=trusted)
    assert verdict.ok
    assert "DEVELOPMENT key" in next(check.reason for check in verdict.checks if check.name == "key")


def test_several_honest_releases_raise_no_alarm(project: Path, key: SigningKey) -> None:
    _releases(project, key, 3)


@pytest.mark.slow
def test_twenty_honest_releases_raise_no_alarm(project: Path, key: SigningKey) -> None:
    _releases(project, key, 20)


def _releases(project: Path, key: SigningKey, number: int) -> None:
    """Each with another seed, code or threshold level; all are verified at the end, and in a fresh clone."""
    params = (project / "params.yaml").read_text()

    def change(index: int) -> None:
        (project / "notes.md").write_text(f"{index}\n")
        match index % 3:
            case 0:
                (project / "params.yaml").write_text(params.replace("seed: 0", f"seed: {index}"))
            case 1:
                (project / "library" / "b.py").write_text(f"B = {index}\n")

    for index in range(2, number + 1):
        change(index)
        dvc(project, "repro", "-q")
        commit(project, f"change {index}")
        release(project, key, f"r{index}", TIME + timedelta(days=index))
    clone = project.parent / "clone"
    subprocess.run(["git", "clone", "-q", str(project), str(clone)], check=True)
    for index in range(1, number + 1):
        assert audit(project, f"r{index}").failures == []
        assert verify_release(project / "releases" / f"r{index}", clone).failures == []


def test_a_project_below_the_top_of_its_repository_is_verified_as_well(pristine: Path, tmp_path: Path) -> None:
    top = tmp_path / "top"
    root = copy_project(pristine, top / "project")
    shutil.rmtree(root / ".git")
    shutil.rmtree(root / "releases")
    git(top, "init", "-q", "-b", "main")
    commit(top, "all")
    release(root, open_key(root / "keys", "release", TIME))
    assert audit(root).failures == []


@pytest.mark.parametrize("name", ["provenance.json", "release.json", THRESHOLD, "dvc.lock", "params.yaml"])
@pytest.mark.parametrize("text", ['{"a\\ud800": "x"}', "[" * 100_000, '"\\ud800"', "[]", "null", "&a [*a]", "\x00"])
def test_content_that_breaks_parsers_is_a_clear_answer_and_a_page(
    project: Path, key: SigningKey, name: str, text: str
) -> None:
    (project / "releases/r1" / name).write_text(text)
    resign(project / "releases/r1", key)
    verdict = audit(project)
    assert not verdict.ok
    assert all(check.reason and check.remedy for check in verdict.failures)
    render_audit(verdict, None, []).encode()
