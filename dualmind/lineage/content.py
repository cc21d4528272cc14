"""Reads a folder that an enemy may have made: nothing is followed out of it, nothing large is read by mistake."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from dualmind.errors import BundleError

M = TypeVar("M", bound=BaseModel)
MAX_DOCUMENT_BYTES = 64 << 20  # of any file but weights; vocabularies have reached 35 MB
MAX_FILES = 10_000
WEIGHTS = ".safetensors"
_CHUNK_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class FileDigest(BaseModel):
    """A file by content. SHA-256 is what is trusted; MD5 is what DVC calls it by."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    md5: str = Field(pattern=r"^[0-9a-f]{32}$")
    size: int = Field(ge=0)  # bytes


def list_files(folder: Path) -> dict[str, int]:
    """Size of every file below ``folder`` by its path with ``/``, sorted.

    Raises:
        BundleError: it is no folder, or holds a link, a device, too many files or a document that is too large.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise BundleError(f"there is no release folder at {folder}; name one of those in {folder.parent}")
    sizes = dict(_walk(folder))
    if len(sizes) > MAX_FILES:
        raise BundleError(f"{folder} holds {len(sizes)} files, at most {MAX_FILES} are allowed")
    return dict(sorted(sizes.items()))


def _walk(folder: Path) -> Iterator[tuple[str, int]]:
    for here, folders, names in os.walk(folder, followlinks=False):
        for name in (*folders, *names):
            path = Path(here, name)
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode):
                continue
            if not stat.S_ISREG(status.st_mode):
                raise BundleError(f"{path} is a link or a device, which could lead anywhere; replace it by its content")
            if status.st_size > MAX_DOCUMENT_BYTES and path.suffix != WEIGHTS:
                raise BundleError(
                    f"{path} has {status.st_size} bytes; only {WEIGHTS} files may have over {MAX_DOCUMENT_BYTES}"
                )
            yield path.relative_to(folder).as_posix(), status.st_size


def digest_file(path: Path) -> FileDigest:
    """Both digests in one pass.

    Raises:
        FileNotFoundError: nothing is there.
    """
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            sha256.update(chunk)
            md5.update(chunk)
            size += len(chunk)
    return FileDigest(sha256=sha256.hexdigest(), md5=md5.hexdigest(), size=size)


def read_document(folder: Path, name: str) -> bytes:
    """The bytes of a file inside ``folder``.

    Raises:
        BundleError: the name leads out of the folder, or the file is missing, a link, or too large.
    """
    if not is_inside(name):
        raise BundleError(f"{folder}: {name!r} leads out of the folder")
    path = folder / name
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_DOCUMENT_BYTES:
            raise BundleError(f"{path} is no plain file of at most {MAX_DOCUMENT_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{folder} has no {name} that can be read ({error.strerror}); restore the release") from error


def read_model(folder: Path, name: str, model: type[M]) -> M:
    """A JSON document inside ``folder``.

    Raises:
        BundleError: as in :func:`read_document`, or it does not have the form.
    """
    try:
        return model.model_validate_json(read_document(folder, name))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise BundleError(f"{folder / name}: {place}: {first['msg']}; restore the release") from error


def read_json(folder: Path, name: str) -> Any:
    """Any JSON document inside ``folder``. Unlike the standard library's, this reader bounds the depth of nesting and
    refuses lone surrogates, which no page could be written with.

    Raises:
        BundleError: as in :func:`read_document`, or it is no JSON.
    """
    data = read_document(folder, name)
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise BundleError(f"{folder / name} is no JSON: {error}; restore the release") from error


def is_inside(path: str) -> bool:
    """Whether a path with ``/`` stays in the folder that it starts from."""
    pure = PurePosixPath(path)
    return bool(path) and not pure.is_absolute() and ".." not in pure.parts and "\\" not in path and "\0" not in path


def check_name(name: str) -> str:
    """A release's name, which is also a folder's.

    Raises:
        BundleError: it could mean another folder.
    """
    if not _NAME.fullmatch(name):
        raise BundleError(f"{name!r} names no release; use letters, digits, points, dashes and underlines")
    return name
