"""Remotes: what is pushed is all that an auditor needs beside a clone."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from dualmind.errors import PipelineError
from tasks.programs import ProcessGroups
from tasks.publish import commit, local_config, publish
from tests.lineage.project import PARAMS, REPOSITORY, dvc, git
from tests.lineage.project import commit as commit_all

SECTIONS = """
release: {name: r1, folder: releases, keys: keys, signer: release, why: test, promote: true}
audit: {minutes: 5}
"""


@pytest.fixture(autouse=True)
def _identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ann@example.org")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))


def publish_to(project: Path, url: str, *options: tuple[str, str]) -> None:
    (project / "params.yaml").write_text(PARAMS + SECTIONS)
    (project / ".gitignore").write_text("/artifacts/\n/releases/\n/keys/*.pem\n__pycache__/\n")
    dvc(project, "remote", "add", "-q", "--default", "storage", url)
    for key, value in options:
        dvc(project, "remote", "modify", "-q", "storage", key, value)
    commit_all(project, "a remote, and the public keys")
    publish(Path("releases"), project, ProcessGroups(1), lambda _: None)


def audit_clone_alone(project: Path, clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh clone; then the project is gone, with its cache, its releases and its ledger."""
    subprocess.run(["git", "clone", "-q", str(project), str(clone)], check=True)
    shutil.rmtree(project)
    dvc(clone, "pull", "-q", "releases.dvc")
    environment = {**os.environ, "DVC_NO_ANALYTICS": "1"}
    command = [sys.executable, "-m", "flows.audit", *arguments]
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)


def test_an_audit_works_from_a_fresh_clone_and_a_folder_as_remote_alone(project: Path, tmp_path: Path) -> None:
    publish_to(project, str(tmp_path / "storage"))
    done = audit_clone_alone(project, tmp_path / "clone", "all", "--at", "2026-03-04", "--reexecute", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "At 2026-03-04 release r1 served" in done.stdout
    checks = json.loads((tmp_path / "clone/artifacts/audit/r1.json").read_text())["checks"]
    assert [own["ok"] for own in checks if own["name"] == "reexecute"] == [True, True]
    assert "no expected key" not in next(own["reason"] for own in checks if own["name"] == "key")


def test_a_byte_that_was_changed_on_the_remote_is_found_by_the_clone(project: Path, tmp_path: Path) -> None:
    """DVC trusts names of its remote; the audit does not."""
    publish_to(project, str(tmp_path / "storage"))
    listing = json.loads(max((tmp_path / "storage").rglob("*.dir"), key=lambda p: p.stat().st_size).read_text())
    md5 = next(own["md5"] for own in listing if own["relpath"] == "r1/files/artifacts/calibrate/gate.json")
    file = tmp_path / "storage/files/md5" / md5[:2] / md5[2:]
    file.chmod(0o644)
    file.write_bytes(file.read_bytes().replace(b"0.5", b"0.6"))
    done = audit_clone_alone(project, tmp_path / "clone", "r1")
    assert done.returncode == 1
    assert "bytes: files/artifacts/calibrate/gate.json was changed" in done.stdout


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A local S3 server's address."""
    if find_spec("dvc_s3") is None or find_spec("moto") is None:
        pytest.skip('the extra s3 is not installed: pip install -e ".[s3]"')
    for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.setenv(f"AWS_{key}", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", _SERVER, str(port)]  # a program of its own: its libraries warn
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == "ready\n"
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


_SERVER = """
import sys
import threading
import boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
server.start()
boto3.client("s3", endpoint_url=f"http://127.0.0.1:{sys.argv[1]}").create_bucket(Bucket="models")
print("ready", flush=True)
threading.Event().wait()
"""


def test_an_audit_works_from_a_fresh_clone_and_s3_alone(project: Path, tmp_path: Path, s3: str) -> None:
    publish_to(project, "s3://models/dualmind", ("endpointurl", s3))
    done = audit_clone_alone(project, tmp_path / "clone", "r1", "--reexecute", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    checks = json.loads((tmp_path / "clone/artifacts/audit/r1.json").read_text())["checks"]
    assert [own["ok"] for own in checks if own["name"] == "reexecute"] == [True]


def test_without_a_remote_nothing_is_pushed_and_the_message_says_what_to_do(project: Path) -> None:
    with pytest.raises(PipelineError, match="dvc remote add -d storage"):
        publish(Path("releases"), project, ProcessGroups(1), lambda _: None)
    assert not (project / "releases.dvc").exists()


def test_a_commit_takes_the_named_files_alone(project: Path) -> None:
    (project / "source.txt").write_text("other\n")
    (project / "params.yaml").write_text(PARAMS + "# more\n")
    git(project, "add", "source.txt")
    groups = ProcessGroups(1)
    assert commit(["params.yaml"], "params", project, groups, lambda _: None)
    assert git(project, "show", "--name-only", "--format=", "HEAD") == "params.yaml"
    assert git(project, "diff", "--cached", "--name-only") == "source.txt"
    assert not commit(["params.yaml"], "again", project, groups, lambda _: None)
    with pytest.raises(PipelineError, match="`git add -- nothing` failed"):
        commit(["nothing"], "nothing", project, groups, lambda _: None)


def test_a_copy_elsewhere_sees_the_same_cache_and_the_same_remotes(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc/config").write_text(
        "[core]\n    remote = near\n['remote \"near\"']\n    url = ../../storage\n"
        "['remote \"far\"']\n    url = s3://bucket/x\n    endpointurl = http://127.0.0.1:1\n"
    )
    (root / ".dvc/config.local").write_text('[cache]\n    dir = "../shared"\n')
    text = local_config(root)
    assert f'url = "{tmp_path / "storage"}"' in text
    assert "url = s3://bucket/x\n    endpointurl = http://127.0.0.1:1\n" in text
    assert f'dir = "{root / "shared"}"' in text
    (root / ".dvc/config").write_text("[core\n")
    with pytest.raises(PipelineError, match="correct it with `dvc config`"):
        local_config(root)
