"""Do the bytes fit each other: outputs to dvc.lock, receipts to data, parents to checkpoints, threshold to weights?"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from dualmind.data.validation import Receipt
from dualmind.errors import LineageError, ReceiptMismatch
from dualmind.lineage import record
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.checks import Check, failed, settle
from dualmind.lineage.content import FileDigest, read_document, read_json, read_model
from dualmind.lineage.lockfile import Lock, StageRecord, folder_md5
from dualmind.lineage.record import FILES, Manifest, Meta
from dualmind.lineage.standards import check_statement, receipt_target

_DIGEST = re.compile(r"[0-9a-f]{32}|[0-9a-f]{64}")
_AGAIN = "run `dvc repro`, commit dvc.lock and release again"


def check_descent(bundle: Bundle) -> list[Check]:
    """All questions about how the released files fit each other.

    Raises:
        BundleError: the manifest cannot be read; :mod:`dualmind.lineage.integrity` asks for that first.
    """
    files = read_model(bundle.path, record.MANIFEST, Manifest).files
    below = {name.removeprefix(f"{FILES}/"): own for name, own in files.items() if name.startswith(f"{FILES}/")}
    if not (found := check_record(bundle, below))[0].ok:
        return found  # what it names is not there, so nothing can be asked about it
    return [
        *found,
        *check_outputs(bundle, below),
        *check_chain(bundle.lock),
        *check_data(bundle),
        *check_parents(bundle, below),
        *check_threshold(bundle, below),
        *check_provenance(bundle, files),
    ]


def check_record(bundle: Bundle, files: Mapping[str, FileDigest]) -> list[Check]:
    """What release.json says it holds is what lies there: nothing that is to be asked about was left out of it."""
    release, made = bundle.release, bundle.lock.outs
    folders = {path for path, ref in made.items() if ref.md5.endswith(".dir") and f"{path}/meta.json" in files}
    pairs: list[tuple[str, set[str], set[str]]] = [
        ("checkpoints", folders, {own.path for own in release.checkpoints}),
        ("gates", {name for name in files if PurePosixPath(name).name == "gate.json"} & set(made), set(release.gates)),
        (
            "thresholds",
            {name for name in files if PurePosixPath(name).name == "threshold.json"} & set(made),
            set(release.thresholds),
        ),
        ("receipts", set(files) & set(release.receipts), set(release.receipts)),
    ]
    failures = [
        failed(
            "record", f"release.json names other {kind} than lie in the release", expected=", ".join(sorted(there)),
            found=", ".join(sorted(named)), remedy=_AGAIN, subject=next(iter(sorted(there ^ named))),
        )
        for kind, there, named in pairs
        if there != named
    ]  # fmt: skip
    return settle("record", failures, "release.json names what lies there")


def check_outputs(bundle: Bundle, files: Mapping[str, FileDigest]) -> list[Check]:
    """Each released output has the MD5 that dvc.lock records."""
    failures, made = [], bundle.lock.outs
    released = {name: ref.path if (ref := bundle.lock.made_by(name)) else "" for name in files}
    for name, out in released.items():
        if not out:
            reason = f"{name} is no output of a stage"
            failures.append(failed("outputs", reason, subject=name, expected="an output in dvc.lock", remedy=_AGAIN))
    for path in sorted({*released.values()} - {""}):
        own = {name[len(path) + 1 :]: files[name].md5 for name, out in released.items() if out == path}
        found = folder_md5(own) if made[path].md5.endswith(".dir") else own.get("", "nothing")
        if found != made[path].md5:
            reason = f"{path} is not what dvc.lock records"
            expected, have = f"md5 {made[path].md5}", f"md5 {found}"
            failures.append(failed("outputs", reason, subject=path, expected=expected, found=have, remedy=_AGAIN))
    return settle("outputs", failures, f"{len(files)} released files have the MD5s of dvc.lock")


def check_chain(lock: Lock) -> list[Check]:
    """Each stage read what another one made last, and none descends from itself."""
    failures, made = [], lock.outs
    for stage in lock.stages:
        for dep in stage.deps:
            if dep.path in made and made[dep.path].md5 != dep.md5:
                reason = f"stage {stage.name} read another {dep.path} than {lock.makers[dep.path]} made"
                expected, found = f"md5 {made[dep.path].md5}", f"md5 {dep.md5}"
                failures.append(
                    failed("chain", reason, subject=dep.path, expected=expected, found=found, remedy=_AGAIN)
                )
    if circle := find_circle(lock):
        reason = f"the lineage goes in a circle: {' -> '.join(circle)}"
        failures.append(failed("chain", reason, subject=circle[0], remedy="restore dvc.lock from git"))
    return settle("chain", failures, f"{len(lock.stages)} stages read what the others made")


def find_circle(lock: Lock) -> list[str]:
    """Names of stages that wait for each other; none where there is no circle."""
    makers = {
        stage.name: {lock.makers[o.path] for d in stage.deps if (o := lock.made_by(d.path))} for stage in lock.stages
    }
    try:
        TopologicalSorter(makers).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def check_data(bundle: Bundle) -> list[Check]:
    """Each data set that a stage read was validated, and each receipt is for the bytes that were used."""
    lock, failures = bundle.lock, []
    validated: set[tuple[str, str]] = set()
    for path in bundle.release.receipts:
        try:
            receipt = Receipt.read(bundle.file(path))
        except (ReceiptMismatch, LineageError) as error:
            failures.append(
                failed("data", str(error), subject=path, remedy="run `dvc repro validate` and release again")
            )
            continue
        target = receipt_target(path, receipt.dataset)
        validated.add((target, receipt.md5))
        used = {ref.md5 for s in lock.stages for ref in (*s.deps, *s.outs) if ref.path == target}
        if used != {receipt.md5}:
            reason = f"the receipt {path} is for other bytes than were used as {target}"
            expected, found = f"md5 {receipt.md5}", f"md5 {', '.join(sorted(used)) or 'of no file in dvc.lock'}"
            failures.append(
                failed(
                    "data", reason, subject=target, expected=expected, found=found, remedy=f"validate again; {_AGAIN}"
                )
            )
    makes_receipt = {lock.makers.get(path) for path in bundle.release.receipts}
    for stage in lock.stages:
        for dep in stage.deps:
            if (
                dep.path.endswith(".parquet")
                and stage.name not in makes_receipt
                and (dep.path, dep.md5) not in validated
            ):
                reason = f"stage {stage.name} read {dep.path}, which was not validated"
                want = f"a receipt for md5 {dep.md5}"
                failures.append(failed("data", reason, subject=dep.path, expected=want, found="none", remedy=_AGAIN))
    return settle("data", failures, f"{len(validated)} data sets were validated as they were used")


def check_parents(bundle: Bundle, files: Mapping[str, FileDigest]) -> list[Check]:
    """What each checkpoint names as its parents is what the stage that made it read."""
    failures = []
    for checkpoint in bundle.release.checkpoints:
        path, maker = checkpoint.path, _maker(bundle.lock, checkpoint.path)
        try:
            meta = Meta.model_validate_json(read_document(bundle.path, f"{FILES}/{path}/meta.json"))
        except (LineageError, ValidationError) as error:
            failures.append(failed("parents", f"{path}: {error}", subject=path, remedy=_AGAIN))
            continue
        digest = folder_digest(_inside(path, files))
        if (checkpoint.meta, checkpoint.digest) != (meta, digest):
            reason = f"release.json describes another {path}"
            failures.append(
                failed("parents", reason, subject=path, expected=checkpoint.digest, found=digest, remedy=_AGAIN)
            )
        known = digests_read_by(maker, bundle, files) if maker else {}
        if not meta.parents:
            reason = f"{path} names no parent, so it cannot be followed back"
            failures.append(
                failed("parents", reason, subject=path, expected="at least one", found="none", remedy=_AGAIN)
            )
        for name, md5 in meta.parents.items():
            if md5 not in known:
                reason = f"{path} names a parent {name!r} that the stage which made it did not read"
                expected = "one of " + ", ".join(f"{own} {digest}" for digest, own in known.items())
                found = f"md5 {md5}"
                failures.append(
                    failed("parents", reason, subject=path, expected=expected[:600], found=found, remedy=_AGAIN)
                )
    return settle(
        "parents", failures, f"the parents of {len(bundle.release.checkpoints)} checkpoints are what was read"
    )


def check_threshold(bundle: Bundle, files: Mapping[str, FileDigest]) -> list[Check]:
    """A threshold names the weights and the gate that are released with it, and a gate the weights.

    Of their fields, every digest is compared: under a name with "gate" to the gates, with "calibration" or "data" to
    what their stage read or made, with "weights", "system", "model" or "checkpoint" to the checkpoints that it read.
    """
    failures = []
    for path in (*bundle.release.thresholds, *bundle.release.gates):
        maker = _maker(bundle.lock, path)
        known = digests_read_by(maker, bundle, files) if maker else {}
        try:
            fields = dict(_digests(read_json(bundle.path, f"{FILES}/{path}")))
        except (LineageError, ValueError, RecursionError) as error:
            failures.append(failed("threshold", f"{path}: {error}", subject=path, remedy="run `dvc repro calibrate`"))
            continue
        gates = {digest: own for own in bundle.release.gates for digest in (files[own].md5, files[own].sha256)}
        models = {d: own for d, own in known.items() if any(own.startswith(c.path) for c in bundle.release.checkpoints)}
        for kind, words, allowed in (
            ("gate", ("gate",), gates),
            (
                "data",
                ("data", "decisions", "calibration"),
                known | {out.md5: out.path for out in maker.outs} if maker else {},
            ),
            ("weights", ("weights", "system", "model", "checkpoint"), models),
        ):
            own = {name: fields.pop(name) for name in list(fields) if any(word in name for word in words)}
            if not own and path in bundle.release.thresholds and (kind == "weights" or (kind == "gate" and gates)):
                reason = f"{path} does not say which {kind} it belongs to"
                failures.append(failed("threshold", reason, subject=path, remedy="run `dvc repro calibrate`"))
            for name, digest in own.items():
                if digest not in allowed:
                    reason = f"{path} was calibrated on other {kind} than are released"
                    expected = f"{name} = one of {', '.join(allowed)}"[:400]
                    failures.append(_other_threshold(path, reason, expected, f"{name} = {digest}"))
    count = len(bundle.release.thresholds)
    return settle("threshold", failures, f"{count} thresholds and their gates belong to the released weights")


def _other_threshold(path: str, reason: str, expected: str, found: str) -> Check:
    remedy = "run `dvc repro calibrate`: a threshold serves only what it was calibrated on"
    return failed("threshold", reason, subject=path, expected=expected, found=found, remedy=remedy)


def check_provenance(bundle: Bundle, files: Mapping[str, FileDigest]) -> list[Check]:
    """The in-toto statement has the published form, and is about these files and this commit."""
    remedy = "release again; the statement is made from the files"
    try:
        statement = read_json(bundle.path, record.PROVENANCE)
        check_statement(statement)
        named = {own["name"]: own["digest"]["sha256"] for own in statement["subject"]}
        commits = [
            d["digest"].get("gitCommit") for d in statement["predicate"]["buildDefinition"]["resolvedDependencies"]
        ]
    except (LineageError, ValueError, KeyError, TypeError, AttributeError) as error:
        return [failed("provenance", f"provenance.json cannot be read: {error}", remedy=remedy)]
    failures = []
    actual = {name: own.sha256 for name, own in files.items() if name.startswith(f"{FILES}/")}
    for name in sorted({*named, *actual}):
        if named.get(name) != actual.get(name):
            reason, want = "provenance.json is about other files", str(named.get(name))
            found = str(actual.get(name))
            failures.append(failed("provenance", reason, subject=name, expected=want, found=found, remedy=remedy))
    if commits[:1] != [bundle.release.commit]:
        reason, found = "provenance.json is about another commit", str(commits[0] if commits else None)
        expected = bundle.release.commit
        failures.append(failed("provenance", reason, expected=expected, found=found, remedy=remedy))
    return settle("provenance", failures, f"the statement is about these {len(actual)} files")


def digests_read_by(stage: StageRecord, bundle: Bundle, files: Mapping[str, FileDigest]) -> dict[str, str]:
    """Every digest by which a stage's inputs may be called, and the path that it means."""
    found = {dep.md5.removesuffix(".dir"): dep.path for dep in stage.deps}
    for checkpoint in bundle.release.checkpoints:
        path = PurePosixPath(checkpoint.path)
        if any(own == path or own in path.parents or path in own.parents for own in _paths(stage)):
            inside = _inside(checkpoint.path, files)
            found[folder_digest(inside)] = checkpoint.path
            found |= {digest: f"{checkpoint.path}/{n}" for n, f in inside.items() for digest in (f.md5, f.sha256)}
    return found


def folder_digest(files: Mapping[str, FileDigest]) -> str:
    """The same as :func:`dualmind.storage.md5_folder`, from digests that are known."""
    digest = hashlib.md5(usedforsecurity=False)
    for name in sorted(files, key=PurePosixPath):
        digest.update(f"{name}\0{files[name].md5}\n".encode())
    return digest.hexdigest()


def _paths(stage: StageRecord) -> list[PurePosixPath]:
    return [PurePosixPath(dep.path) for dep in stage.deps]


def _inside(folder: str, files: Mapping[str, FileDigest]) -> dict[str, FileDigest]:
    return {name[len(folder) + 1 :]: own for name, own in files.items() if name.startswith(f"{folder}/")}


def _maker(lock: Lock, path: str) -> StageRecord | None:
    """The stage that made an output; one that handed on an input as it came, byte for byte, did not make it."""
    maker = next((stage for stage in lock.stages if path in {out.path for out in stage.outs}), None)
    while maker is not None:
        own = next(out.md5 for out in maker.outs if out.path == path)
        path = next((dep.path for dep in maker.deps if dep.md5 == own), "")
        before = next((stage for stage in lock.stages if path in {out.path for out in stage.outs}), None)
        if before is None:
            return maker
        maker = before
    return None


def _digests(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted names and values of all digests in a JSON document."""
    match value:
        case dict():
            for key, own in value.items():
                yield from _digests(own, f"{prefix}.{key}" if prefix else str(key))
        case str() if _DIGEST.fullmatch(value):
            yield prefix, value
