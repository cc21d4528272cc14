"""Unpacks a release that came as a tar archive (``tar czf r1.tar.gz -C releases r1``); an enemy may have made it."""

import tarfile
from pathlib import Path, PurePosixPath

from dualmind.errors import BundleError
from dualmind.lineage.content import MAX_DOCUMENT_BYTES, MAX_FILES, WEIGHTS, check_name, is_inside
from dualmind.storage import atomic_folder

_CHUNK_BYTES = 1 << 20


def unpack(archive: Path, releases: Path) -> str:
    """Unpack the one release that an archive holds below ``releases``, and return its name.

    All names and sizes are read before anything is written; what is not plain is refused as a whole.

    Raises:
        BundleError: it is no such archive, a name leads out of the release, it holds a link, a device, too many files
            or a document that is too large, or there is such a release already.
        StorageError: the disk is full; no folder is left.
    """
    try:
        with tarfile.open(archive) as tar:
            members = []
            for member in tar:
                members.append(_checked(archive, member))
                if len(members) > MAX_FILES:
                    raise BundleError(f"{archive} holds over {MAX_FILES} files; this is no release")
            name = _name(archive, members)
            target = releases / name
            if target.exists():
                raise BundleError(f"{target} exists, and a release is never changed; audit it, or move it away")
            with atomic_folder(target) as folder:
                for member in members:
                    _write(tar, member, folder)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise BundleError(f"{archive} cannot be unpacked ({error}); ask for the release again") from error
    return name


def _checked(archive: Path, member: tarfile.TarInfo) -> tarfile.TarInfo:
    name = member.name.removeprefix("./")
    if not is_inside(name):
        raise BundleError(f"{archive} holds {member.name[:200]!r}, which leads out of the release; do not trust it")
    if not (member.isreg() or member.isdir()):
        raise BundleError(f"{archive} holds {name[:200]!r}, a link or a device, which could lead anywhere")
    if member.size > MAX_DOCUMENT_BYTES and not name.endswith(WEIGHTS):
        raise BundleError(f"{archive}: {name[:200]} has {member.size} bytes; only {WEIGHTS} files may be so large")
    return member


def _name(archive: Path, members: list[tarfile.TarInfo]) -> str:
    tops = {PurePosixPath(member.name).parts[0] for member in members}
    if len(tops) != 1:
        raise BundleError(f"{archive} holds {len(tops)} things at its top; a release is one folder")
    names = [PurePosixPath(member.name) for member in members]
    if len({*names}) != len(names):
        raise BundleError(f"{archive} names a file twice; do not trust it")
    return check_name(tops.pop())


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    path = folder.joinpath(*PurePosixPath(member.name).parts[1:])
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    source = tar.extractfile(member)
    assert source is not None  # it is a regular file
    with source, path.open("xb") as file:
        while chunk := source.read(_CHUNK_BYTES):
            file.write(chunk)
