"""Archives that an enemy made: refused as a whole, and nothing is written."""

import io
import tarfile
from pathlib import Path

import pytest

from dualmind.errors import BundleError
from dualmind.lineage.archive import unpack
from dualmind.lineage.content import MAX_DOCUMENT_BYTES
from dualmind.storage import md5_folder


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size
    return info


def pack(path: Path, members: list[tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for own in members:
            tar.addfile(own, io.BytesIO(bytes(own.size)))
    return path


def test_an_archive_of_a_release_gives_the_same_folder_again(pristine: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "r1.tar.gz", "w:gz") as tar:
        tar.add(pristine / "releases/r1", "r1")
    assert unpack(tmp_path / "r1.tar.gz", tmp_path / "releases") == "r1"
    assert md5_folder(tmp_path / "releases/r1") == md5_folder(pristine / "releases/r1")
    with pytest.raises(BundleError, match="is never changed"):
        unpack(tmp_path / "r1.tar.gz", tmp_path / "releases")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([member("r1/../../x")], "leads out of the release"),
        ([member("../x")], "leads out of the release"),
        ([member("/tmp/x")], "leads out of the release"),
        ([member("r1/link", tarfile.SYMTYPE, "/etc/passwd")], "a link or a device"),
        ([member("r1/link", tarfile.LNKTYPE, "../../x")], "a link or a device"),
        ([member("r1/pipe", tarfile.FIFOTYPE)], "a link or a device"),
        ([member("r1/a"), member("r2/a")], "2 things at its top"),
        ([member(".hidden/a")], "names no release"),
        ([], "0 things at its top"),
        ([member("r1/README.md", size=MAX_DOCUMENT_BYTES + 1)], "may be so large"),
        ([member("r1/a", size=1), member("r1/a", size=1)], "names a file twice"),
    ],
)
def test_what_leads_out_or_is_no_release_is_refused_and_nothing_is_written(
    tmp_path: Path, members: list[tarfile.TarInfo], message: str
) -> None:
    releases = tmp_path / "inner/releases"
    releases.mkdir(parents=True)
    archive = pack(tmp_path / "x.tar.gz", members)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BundleError, match=message):
        unpack(archive, releases)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08\x00broken"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.tar.gz").write_bytes(content)
    with pytest.raises(BundleError):
        unpack(tmp_path / "x.tar.gz", tmp_path / "releases")
