from pathlib import Path

import pytest
from dvc_data.hashfile.hash_info import HashInfo
from dvc_data.hashfile.tree import Tree
from hypothesis import given
from hypothesis import strategies as st

from dualmind.errors import LineageError
from dualmind.lineage.content import FileDigest
from dualmind.lineage.descent import folder_digest
from dualmind.lineage.lockfile import folder_md5, look_up, parse_lock, pointed_md5
from dualmind.storage import md5_file, md5_folder

PARTS = st.lists(
    st.text("ab.-_é ", min_size=1, max_size=4).filter(lambda own: set(own) - {"."}), min_size=1, max_size=3
)
MD5 = st.text("0123456789abcdef", min_size=32, max_size=32)


@given(st.dictionaries(PARTS.map("/".join), MD5, max_size=6))
def test_the_md5_of_a_folder_is_that_of_dvc(files: dict[str, str]) -> None:
    tree = Tree()  # type: ignore[no-untyped-call]  # it declares no types
    for name, md5 in files.items():
        tree.add(tuple(name.split("/")), None, HashInfo("md5", md5))
    tree.digest()
    assert folder_md5(files) == tree.hash_info.value


@given(files=st.dictionaries(st.text("ab", min_size=1, max_size=3), st.binary(max_size=9), min_size=1, max_size=5))
def test_the_digest_of_a_checkpoint_is_that_of_storage(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    """Names that start alike, in folders and beside them: the order of paths is not that of texts."""
    folder = tmp_path_factory.mktemp("digest")
    for name, data in files.items():
        for path in (folder / name / "x", folder / f"{name}-"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    digests = {
        p.relative_to(folder).as_posix(): FileDigest(sha256="0" * 64, md5=md5_file(p), size=0)
        for p in folder.rglob("*")
        if p.is_file()
    }
    assert folder_digest(digests) == md5_folder(folder)


def test_a_lock_of_dvc_is_read(pristine: Path) -> None:
    lock = parse_lock((pristine / "dvc.lock").read_bytes(), "dvc.lock")
    assert {own.name for own in lock.stages} == {"prepare", "validate", "pretrain", "distill", "calibrate", "evaluate"}
    assert lock.makers["artifacts/distill/system1"] == "distill"
    part = lock.made_by("artifacts/distill/system1/meta.json")
    assert part is not None
    assert part.path == "artifacts/distill/system1"
    assert lock.made_by("artifacts/distill") is None
    train = next(own for own in lock.stages if own.name == "pretrain")
    assert train.params == {"params.yaml": {"run": {"seed": 0, "threads": 1}, "pretrain.width": 4}}


@pytest.mark.parametrize(
    "text",
    [
        b"", b"stages:", b"stages: {a: {}}", b"stages: {a: {cmd: x, outs: [{path: b, size: 1}]}}", b"\xff", b"{",
        b"stages: {a: {cmd: x, outs: [{path: b, md5: c, size: x}]}}", b"stages: &a {b: *a}",
        b"stages: {a: {cmd: x, outs: &o [{path: b, md5: c, size: 1}]}, d: {cmd: x, outs: *o}}",
        b"stages: {a: {cmd: x, outs: [{path: b, md5: c, size: 1}]}, d: {cmd: x, outs: [{path: b, md5: c, size: 1}]}}",
        b"[" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_lock_is_a_clear_error(text: bytes) -> None:
    with pytest.raises(LineageError, match=r"^there"):
        parse_lock(text, "there")


def test_dotted_keys_and_pointers_are_looked_up() -> None:
    assert look_up({"a": {"b": None}}, "a.b") == (True, None)
    assert look_up({"a": 1}, "a.b") == (False, None)
    assert pointed_md5(b"outs: [{md5: abc, path: x}]") == "abc"
    assert "can be read" in pointed_md5(b"outs: []")
