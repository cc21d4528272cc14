"""What dvc.lock records, read as plain YAML: which stage made which bytes from which, under which parameters."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import yaml

from dualmind.errors import LineageError


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file or folder by content."""

    path: str
    md5: str  # ends in ".dir" for a folder
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class StageRecord:
    """A stage as it last ran."""

    name: str
    command: str
    deps: tuple[FileRef, ...]
    outs: tuple[FileRef, ...]
    params: Mapping[str, Mapping[str, Any]]  # file -> dotted key -> value


@dataclass(frozen=True, slots=True)
class Lock:
    """All stages, in the order of the file."""

    stages: tuple[StageRecord, ...]

    @property
    def outs(self) -> dict[str, FileRef]:
        """Every output by path."""
        return {out.path: out for stage in self.stages for out in stage.outs}

    @property
    def makers(self) -> dict[str, str]:
        """Name of the stage that makes each output, by the output's path."""
        return {out.path: stage.name for stage in self.stages for out in stage.outs}

    def made_by(self, path: str) -> FileRef | None:
        """The output that ``path`` is or lies in."""
        outs = self.outs
        return next((outs[str(p)] for p in (PurePosixPath(path), *PurePosixPath(path).parents) if str(p) in outs), None)


def parse_lock(text: bytes, where: str) -> Lock:
    """Read a lock file's bytes.

    Raises:
        LineageError: they are no dvc.lock of schema 2.0, or hold a path that leads out of the project.
    """
    remedy = "restore it with `git checkout` or run `dvc repro`"
    try:
        if b"&" in text and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise ValueError("it holds an alias, which can blow up without bounds")  # noqa: TRY301  # told as all others
        stages = _load(text)["stages"]
        records = tuple(_record(name, entry) for name, entry in stages.items())
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise LineageError(f"{where} is no dvc.lock that can be read ({error!r}); {remedy}") from error
    makers: dict[str, str] = {}
    for record in records:
        for out in record.outs:
            if out.path in makers:
                raise LineageError(f"{where}: {makers[out.path]} and {record.name} both make {out.path}; {remedy}")
            makers[out.path] = record.name
    return Lock(records)


def _load(text: bytes) -> Any:
    """YAML whose texts can all be written again: an escape can name half of a surrogate pair, which no page holds."""
    value = yaml.safe_load(text)
    json.dumps(value, ensure_ascii=False, default=str).encode()
    return value


def _record(name: str, entry: dict[str, Any]) -> StageRecord:
    params = {file: dict(values) for file, values in entry.get("params", {}).items()}
    return StageRecord(
        name, str(entry["cmd"]), file_refs(entry.get("deps", [])), file_refs(entry.get("outs", [])), params
    )


def file_refs(entries: Iterable[Mapping[str, Any]]) -> tuple[FileRef, ...]:
    """Entries of a stage's ``deps`` or ``outs``.

    Raises:
        KeyError, TypeError, ValueError: an entry has another form.
    """
    return tuple(FileRef(str(entry["path"]), str(entry["md5"]), int(entry["size"])) for entry in entries)


def folder_md5(files: Mapping[str, str]) -> str:
    """What DVC records for a folder: MD5 over the JSON list of its files' MD5s, sorted by path, and ".dir".

    Args:
        files: path relative to the folder, with ``/`` -> MD5 in hex.
    """
    listing = json.dumps([{"md5": files[path], "relpath": path} for path in sorted(files)], sort_keys=True)
    return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"


def read_params(text: bytes, where: str) -> Any:
    """A params file's bytes as plain values.

    Raises:
        LineageError: they are no YAML.
    """
    try:
        return _load(text)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise LineageError(f"{where} is no YAML: {error}") from error


def look_up(values: Any, key: str) -> tuple[bool, Any]:
    """Whether ``values`` has the dotted ``key``, and its value."""
    for part in key.split("."):
        if not isinstance(values, dict) or part not in values:
            return False, None
        values = values[part]
    return True, values


def pointed_md5(text: bytes) -> str:
    """The MD5 that a .dvc file records; what cannot be read is no MD5, and so matches none."""
    try:
        return str(yaml.safe_load(text)["outs"][0]["md5"])
    except (yaml.YAMLError, KeyError, TypeError, IndexError):
        return "a .dvc file that can be read"
