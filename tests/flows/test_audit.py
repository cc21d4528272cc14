import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.audit import main
from tests.lineage.project import PARAMS, REPOSITORY, commit, edit_json

SECTIONS = """
release: {name: r1, folder: releases, keys: keys, signer: release, why: test, promote: true}
audit: {minutes: 5}
"""
HEAVY = {
    "torch",
    "transformers",
    "datasets",
    "evaluate",
    "great_expectations",
    "accelerate",
    "prefect",
    "dvc",
    "cyclonedx",
}


@pytest.fixture
def served(project: Path) -> Path:
    """The project with the sections that the command reads; a later commit, as in life."""
    (project / "params.yaml").write_text(PARAMS + SECTIONS)
    commit(project, "sections")
    return project


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "flows.audit", *arguments]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=600)


def test_a_release_that_passes_exits_with_zero_and_writes_json_and_a_page(served: Path) -> None:
    data = "artifacts/prepare/decisions.parquet"
    done = run(
        served, "r1", "--at", "2026-03-04", "--history", "--affected-by", data, "--made-from", "param:run.seed=0"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "At 2026-03-04 release r1 served: entry 2, promote by Ann" in done.stdout
    assert f"{data} affects r1 (served from 2026-03-03T12:00:00.000000Z on)." in done.stdout
    assert "2 entries in the ledger, 1 of them changed what serves" in done.stdout
    assert "param:run.seed=0 was found in r1." in done.stdout
    answers = json.loads((served / "artifacts/audit/r1.json").read_text())
    assert answers["ok"]
    told = {own["question"]: own for own in answers["answers"]}
    assert list(told) == ["at 2026-03-04", "history", f"affected by {data}", "param:run.seed=0 was made from"]
    assert "artifacts/distill/system1" in {row[2] for row in told[f"affected by {data}"]["rows"]}
    page = (served / "artifacts/audit/r1.html").read_text()
    assert "<svg" in page
    assert all(question in page for question in told)
    assert "✗" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page


def test_a_release_that_does_not_pass_exits_with_one_and_the_page_shows_where_and_why(served: Path) -> None:
    edit_json(served / "releases/r1/files/artifacts/calibrate/gate.json", lambda own: own.update(weights=[9]))
    done = run(served, "all", "--reexecute", "1")
    assert done.returncode == 1
    assert "bytes: files/artifacts/calibrate/gate.json was changed" in done.stdout
    assert "its code cannot be trusted" in done.stderr
    page = (served / "artifacts/audit/r1.html").read_text()
    assert "✗ artifacts/calibrate/gate.json" in page
    assert "✓ artifacts/distill/system1" in page
    assert "restore the folder from a copy" in page


def test_stages_are_run_again_from_the_command_line(served: Path) -> None:
    done = run(served, "r1", "--reexecute", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    answers = json.loads((served / "artifacts/audit/r1.json").read_text())
    assert [own["ok"] for own in answers["checks"] if own["name"] == "reexecute"] == [True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["r9"], "there is no release 'r9'"),
        (["../x"], "names no release"),
        (["r1", "--at", "yesterday"], "is no time"),
        (["r1", "--at", "2026-03-03T12:00:00"], "has no zone"),
        (["r1", "--affected-by", "param:run.seed"], "write it as param:KEY=VALUE"),
    ],
)
def test_what_cannot_be_asked_is_a_clear_error(
    served: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(served)
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


def test_a_release_that_cannot_be_opened_has_a_page_too(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (served / "releases/r1/release.json").write_text("<script>alert(1)</script>")
    monkeypatch.chdir(served)
    assert main(["r1"]) == 1
    page = (served / "artifacts/audit/r1.html").read_text()
    assert "release.json was changed" in page
    assert "<script" not in page


def test_the_command_is_light() -> None:
    code = "import sys, flows.audit; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())


def _bad_archive(root: Path) -> str:
    with tarfile.open(root / "x.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("r9/../../../escaped"))
    return "x.tar"


def _missing_files(root: Path) -> str:
    for path in (root / "releases/r1").glob("*.json"):
        path.unlink()
    return "r1"


def _huge_card(root: Path) -> str:
    with (root / "releases/r1/README.md").open("wb") as file:
        file.truncate(10 << 30)  # sparse: ten gigabytes that take no space
    return "r1"


def _two_ledgers(root: Path) -> str:
    text = (root / "releases/ledger.jsonl").read_text()
    (root / "releases/ledger (copy).jsonl").write_text(text.replace("Ann", "Eve"))
    return "r1"


def _no_git(root: Path) -> str:
    (root / ".git").rename(root / "no.git")
    return "r1"


def _broken_key(root: Path) -> str:
    (root / "keys/release.pub").write_text("no key")
    return "r1"


def _expired_key(root: Path) -> str:
    edit_json(root / "keys/release.json", lambda own: own.update(expires="2026-03-03T11:00:00.000000Z"))
    return "r1"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_bad_archive, "leads out of the release"),
        (_missing_files, "release.json is missing"),
        (_huge_card, "has 10737418240 bytes"),
        (_two_ledgers, "there are two ledgers"),
        (_no_git, "not a git repository"),
        (_broken_key, "give the signer's .pub file"),
        (_expired_key, "the key had expired"),
    ],
)
def test_bad_input_exits_with_one_with_a_clear_answer_and_nothing_is_written_outside_the_answers(
    served: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[Path], str],
    message: str,
) -> None:
    name = make(served)
    monkeypatch.chdir(served)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(served.parent))
    before = {path for path in served.parent.rglob("*") if served / "artifacts/audit" not in (path, *path.parents)}
    assert main([name]) == 1
    told = capsys.readouterr()
    assert message in told.out + told.err
    after = {path for path in served.parent.rglob("*") if served / "artifacts/audit" not in (path, *path.parents)}
    assert after == before
