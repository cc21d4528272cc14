import hashlib
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmind.errors import StorageError
from dualmind.storage import atomic_folder, atomic_path, dump_json, md5_file, md5_folder, write_json, write_text


@settings(max_examples=30)
@given(st.binary(max_size=5000))
def test_md5_is_that_of_hashlib(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("md5") / "file"
    path.write_bytes(data)
    assert md5_file(path) == hashlib.md5(data, usedforsecurity=False).hexdigest()


def test_folder_digest_sees_names_and_bytes_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("1")
    first = md5_folder(tmp_path)
    (tmp_path / "empty").mkdir()
    assert md5_folder(tmp_path) == first
    (tmp_path / "a" / "x").rename(tmp_path / "a" / "y")
    assert md5_folder(tmp_path) != first


def test_a_failure_while_writing_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")
    with pytest.raises(RuntimeError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_failure_while_writing_a_folder_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with atomic_folder(path) as temporary:
        (temporary / "a").write_text("old")
    with pytest.raises(RuntimeError), atomic_folder(path) as temporary:
        (temporary / "b").write_text("half")
        raise RuntimeError
    assert [p.name for p in path.iterdir()] == ["a"]
    with atomic_folder(path) as temporary:
        (temporary / "b").write_text("new")
    assert [p.name for p in path.iterdir()] == ["b"]
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_full_disk_is_a_clear_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")
    code = (
        "import resource, signal, sys; from pathlib import Path; from dualmind.storage import write_text\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_text(Path(sys.argv[1]), 'x' * 100_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert "StorageError" in done.stderr
    assert "free some disk space" in done.stderr
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((StorageError, NotADirectoryError, FileExistsError)):
        write_text(tmp_path / "file" / "below", "x")


def test_json_is_the_same_for_equal_values_and_refuses_nan(tmp_path: Path) -> None:
    assert dump_json({"b": 1, "a": "ä"}) == '{\n  "a": "ä",\n  "b": 1\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", float("nan"))
    assert not list(tmp_path.iterdir())
