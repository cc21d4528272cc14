"""The lineage of contents: what was made from what, forward and backward, in one release or over many."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from dualmind.errors import LineageError
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.content import check_name
from dualmind.lineage.ledger import Ledger, Serving
from dualmind.lineage.lockfile import Lock, StageRecord, look_up


@dataclass(frozen=True, slots=True, order=True)
class Content:
    """A file or folder of certain bytes."""

    path: str
    md5: str  # as in dvc.lock: ends in ".dir" for a folder


@dataclass(frozen=True, slots=True)
class LineageGraph:
    """Contents, and what each was made from. A circle, which only a forger makes, ends no walk."""

    parents: Mapping[Content, frozenset[Content]]

    @classmethod
    def of(cls, lock: Lock) -> "LineageGraph":
        """The graph that a lock file describes."""
        parents: dict[Content, set[Content]] = {}
        for stage in lock.stages:
            deps = [Content(dep.path, dep.md5) for dep in stage.deps]
            for content in deps:
                parents.setdefault(content, set())
            for out in stage.outs:
                parents.setdefault(Content(out.path, out.md5), set()).update(deps)
        for content, own in parents.items():  # a stage may read a part of an output, or a folder of several
            path = PurePosixPath(content.path)
            for out in lock.outs.values():
                made = PurePosixPath(out.path)
                if made in path.parents or path in made.parents:
                    own.add(Content(out.path, out.md5))
        return cls({content: frozenset(own) for content, own in parents.items()})

    def find(self, what: str) -> list[Content]:
        """Contents of that path or digest (all of it, or its first eight digits or more)."""
        bare = what.removesuffix(".dir")
        return sorted(c for c in self.parents if c.path == what or (len(bare) >= 8 and c.md5.startswith(bare)))

    def backward(self, content: Content) -> list[Content]:
        """All that a content was made from, sorted."""
        return _reach(content, self.parents)

    def forward(self, content: Content) -> list[Content]:
        """All that was made from a content, sorted."""
        children: dict[Content, set[Content]] = {}
        for child, own in self.parents.items():
            for parent in own:
                children.setdefault(parent, set()).add(child)
        return _reach(content, children)


def _reach(start: Content, step: Mapping[Content, Iterable[Content]]) -> list[Content]:
    seen, todo = {start}, [start]
    while todo:
        new = set(step.get(todo.pop(), ())) - seen
        seen |= new
        todo += new
    return sorted(seen - {start})


@dataclass(frozen=True, slots=True)
class Releases:
    """All releases of a folder."""

    bundles: tuple[Bundle, ...]  # by time, then name
    broken: Mapping[str, str]  # folder name -> why it cannot be read

    @classmethod
    def read(cls, folder: Path) -> "Releases":
        """Open every release; those that cannot be opened are named, and are not silently left out."""
        bundles, broken = [], {}
        for path in sorted(p for p in folder.glob("*") if p.is_dir() and not p.name.startswith(".")):
            try:
                bundles.append(Bundle.open(path))
            except LineageError as error:
                broken[path.name] = str(error)
        return cls(tuple(sorted(bundles, key=lambda own: (own.release.time, own.release.name))), broken)

    def by_commit(self, commit: str) -> list[str]:
        """Names of the releases of a commit, given by its id or the first digits of it."""
        return [own.release.name for own in self.bundles if own.release.commit.startswith(commit)]

    def by_param(self, key: str, value: Any) -> list[str]:
        """Names of the releases in which a stage ran with that value of a dotted key."""
        return [own.release.name for own in self.bundles if stages_with(own.lock, key, value)]


def stages_with(lock: Lock, key: str, value: Any) -> list[StageRecord]:
    """Stages that ran with that value of a dotted key."""
    return [stage for stage in lock.stages if (True, value) in _values(stage, key)]


def _values(stage: StageRecord, key: str) -> list[tuple[bool, Any]]:
    """What a stage ran with, if it depends on ``key``; dvc.lock holds the sections under dotted names."""
    found = []
    for values in stage.params.values():
        for section, own in values.items():
            if key == section:
                found.append((True, own))
            elif key.startswith(f"{section}."):
                found.append(look_up(own, key[len(section) + 1 :]))
    return found


def served_at(ledger: Ledger, folder: Path, time: datetime) -> tuple[Serving, Path | None]:
    """What served at a time, and the folder of that release if it is there.

    Raises:
        LedgerError: the ledger cannot be read.
        BundleError: the ledger names a release by what is no folder's name.
    """
    serving = ledger.serving_at(time)
    if serving.entry is None:
        return serving, None
    path = folder / check_name(serving.entry.what.name)
    return serving, path if path.is_dir() else None


def levels(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many steps each node is from a root, along the longest way; a step that closes a circle does not count."""
    depth: dict[str, int] = {}

    def visit(name: str, above: frozenset[str]) -> int:
        if name not in depth:
            own = [visit(p, above | {name}) + 1 for p in parents.get(name, ()) if p not in above and p != name]
            depth[name] = max(own, default=0)
        return depth[name]

    for name in parents:
        visit(name, frozenset())
    return depth
