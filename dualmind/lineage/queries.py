"""What an auditor asks of all releases and the ledger: what served when, who changed it and why, what came from what.

A thing is named by its path in the project, by a digest (of dvc.lock, of a released file or of a release; eight digits
are enough), as ``commit:ID``, or as ``param:KEY=VALUE``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from dualmind.errors import LineageError
from dualmind.lineage import record
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.content import read_model
from dualmind.lineage.graph import Content, LineageGraph, Releases, served_at, stages_with
from dualmind.lineage.ledger import Ledger
from dualmind.lineage.lockfile import FileRef, Lock, read_params
from dualmind.lineage.record import FILES, Manifest
from dualmind.lineage.times import parse_time

_COMMIT, _PARAM = "commit:", "param:"
_MIN_DIGITS = 8  # of a digest; fewer could mean anything
_SERVING = ("promote", "rollback")


class Answer(BaseModel):
    """A question and what the stored data say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str
    text: str
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A thing that was asked about, in one release."""

    bundle: Bundle
    source: str  # what was found, in words
    start: tuple[Content, ...]  # where a walk forward or backward starts
    counts: bool  # whether the start itself is among what is affected


def history(ledger: Ledger) -> Answer:
    """Every change of what serves, and every decision to change nothing, with who, when and why."""
    rows = tuple(
        (str(e.sequence), e.time, e.kind, f"{e.what.subject} {e.what.name}", e.what.digest, e.who, e.why)
        for e in ledger.entries
    )
    changes = sum(entry.kind in _SERVING for entry in ledger.entries)
    header = ("entry", "time", "change", "of", "digest", "who", "why")
    text = f"{len(rows)} entries in the ledger, {changes} of them changed what serves"
    return Answer(question="history", text=text, header=header, rows=rows)


def serving(ledger: Ledger, folder: Path, at: str) -> Answer:
    """What served at a time: release and threshold, since when, by whom and why.

    Raises:
        LineageError: ``at`` is no time, or the ledger cannot be read.
    """
    time, question = parse_time(at), f"at {at}"
    found, path = served_at(ledger, folder, time)
    if found.entry is None:
        return Answer(question=question, text=f"At {at} nothing served: nothing had been promoted yet.")
    entries = [found.entry]
    if (threshold := ledger.serving_at(time, "threshold").entry) is not None:
        entries.append(threshold)
    where = "" if path is not None else "; its folder is not here"
    doubt = f" Doubt: {found.doubt}." if found.doubt else ""
    entry = found.entry
    text = (
        f"At {at} release {entry.what.name} served: entry {entry.sequence}, {entry.kind} by {entry.who} at "
        f"{entry.time}, because: {entry.why}{where}.{doubt}"
    )
    header = ("what served", "name", "digest", "since", "by", "why")
    rows = tuple((e.what.subject, e.what.name, e.what.digest, e.time, e.who, e.why) for e in entries)
    return Answer(question=question, text=text, header=header, rows=rows)


def affected_by(releases: Releases, ledger: Ledger, what: str) -> Answer:
    """Forward: all that descends from a thing, in which releases, and when those served.

    Raises:
        LineageError: ``what`` has no form that can be looked up, or the ledger cannot be read.
    """
    rows, names = [], []
    for found in find(releases, what):
        graph = LineageGraph.of(found.bundle.lock)
        reached = {own for content in found.start for own in graph.forward(content)}
        reached |= set(found.start) if found.counts else set()
        names.append(found.bundle.release.name)
        rows += [(names[-1], found.source, own.path, own.md5) for own in sorted(reached)]
    affected = [f"{name} ({_served(ledger, name)})" for name in dict.fromkeys(names)]
    text = f"{what} affects {', '.join(affected) if affected else 'no release'}.{_unread(releases)}"
    header = ("release", "by", "affected", "md5")
    return Answer(question=f"affected by {what}", text=text, header=header, rows=tuple(rows))


def made_from(releases: Releases, what: str, release: str = "") -> Answer:
    """Backward: the data, code, commands and values that a thing was made from.

    Args:
        releases: all of them.
        what: the thing.
        release: look in this one alone; "" for all.

    Raises:
        LineageError: ``what`` has no form that can be looked up.
    """
    rows, names = [], []
    for found in find(releases, what):
        name, lock = found.bundle.release.name, found.bundle.lock
        if release not in {"", name}:
            continue
        names.append(name)
        graph = LineageGraph.of(lock)
        reached = {own for content in found.start for own in (content, *graph.backward(content))}
        rows.append((name, found.source, "commit", found.bundle.release.commit, ""))
        rows += [(name, found.source, "content", own.path, own.md5) for own in sorted(reached)]
        rows += [(name, found.source, *own) for own in _made_by(lock, {own.path for own in reached})]
    text = f"{what} was found in {', '.join(dict.fromkeys(names)) if names else 'no release'}.{_unread(releases)}"
    header = ("release", "of", "kind", "made from", "value")
    return Answer(question=f"{what} was made from", text=text, header=header, rows=tuple(rows))


def find(releases: Releases, what: str) -> list[Found]:
    """A thing in each release that holds it.

    Raises:
        LineageError: ``what`` has no form that can be looked up.
    """
    if what.startswith(_COMMIT):
        commit = what.removeprefix(_COMMIT)
        names = set(releases.by_commit(commit)) if commit else set()
        return [
            Found(own, f"commit {own.release.commit[:12]}", _made(own.lock.outs.values()), counts=True)
            for own in releases.bundles
            if own.release.name in names
        ]
    if what.startswith(_PARAM):
        key, separator, text = what.removeprefix(_PARAM).partition("=")
        if not (key and separator):
            raise LineageError(f"{what!r} names no value; write it as param:KEY=VALUE, such as param:run.seed=0")
        value = read_params(text.encode(), f"the value in {what!r}")
        stages = {own.release.name: stages_with(own.lock, key, value) for own in releases.bundles}
        return [
            Found(own, f"{key} = {value!r} in {stage.name}", _made(stage.outs), counts=True)
            for own in releases.bundles
            for stage in stages[own.release.name]
        ]
    return [found for bundle in releases.bundles for found in _find_content(bundle, what)]


def _find_content(bundle: Bundle, what: str) -> list[Found]:
    """By path or by any digest that names it: DVC's, a checkpoint's, a file's in the release, or the release's own."""
    graph = LineageGraph.of(bundle.lock)
    if found := graph.find(what):
        return [Found(bundle, f"{own.path} {own.md5[:12]}", (own,), counts=False) for own in found]
    if len(what) < _MIN_DIGITS:
        return []
    if bundle.digest.startswith(what):
        return [Found(bundle, f"release {bundle.digest[:12]}", _made(bundle.lock.outs.values()), counts=True)]
    paths = [own.path for own in bundle.release.checkpoints if own.digest.startswith(what)]
    if not paths:
        files = read_model(bundle.path, record.MANIFEST, Manifest).files
        paths = [name for name, own in files.items() if own.sha256.startswith(what) or own.md5.startswith(what)]
    outs = [out for path in paths if (out := bundle.lock.made_by(path.removeprefix(f"{FILES}/")))]
    return [Found(bundle, f"{out.path} {out.md5[:12]}", _made([out]), counts=True) for out in outs]


def _made(outs: Iterable[FileRef]) -> tuple[Content, ...]:
    return tuple(Content(out.path, out.md5) for out in outs)


def _made_by(lock: Lock, paths: set[str]) -> list[tuple[str, str, str]]:
    """Commands and values of the stages that made any of ``paths``."""
    rows = []
    for stage in lock.stages:
        if paths & {out.path for out in stage.outs}:
            rows.append(("command", stage.name, stage.command))
            rows += [
                ("value", f"{stage.name} {key}", repr(value))
                for values in stage.params.values()
                for key, value in values.items()
            ]
    return rows


def _served(ledger: Ledger, name: str) -> str:
    """When a release served, by the ledger."""
    changes = [e for e in ledger.entries if e.what.subject == "release" and e.kind in _SERVING]
    ends: Sequence[str] = [e.time for e in changes[1:]] + [""]
    spans = [
        f"served from {e.time} {f'to {end}' if end else 'on'}"
        for e, end in zip(changes, ends, strict=True)
        if e.what.name == name
    ]
    return ", ".join(spans) or "never served"


def _unread(releases: Releases) -> str:
    return "".join(f" Release {name} could not be searched: {reason}" for name, reason in releases.broken.items())
