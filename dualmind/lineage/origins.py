"""Does git know the commit, and are dvc.lock, the code and the params those of that commit?"""

import posixpath
from pathlib import PurePosixPath
from typing import Any

from dualmind.errors import HistoryError, LineageError
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.checks import Check, failed, passed, settle
from dualmind.lineage.history import History
from dualmind.lineage.lockfile import FileRef, Lock, folder_md5, look_up, parse_lock, pointed_md5, read_params
from dualmind.lineage.record import DOCUMENTS

_AGAIN = "commit what ran, run `dvc repro`, commit dvc.lock and release again"


def check_origins(bundle: Bundle, history: History) -> list[Check]:
    """All questions that git answers. Where git cannot, the answer is no."""
    try:
        found = check_commit(bundle, history)
        if found[0].ok or history.has(bundle.release.commit):
            found += [*check_documents(bundle, history), *check_code(bundle, history), *check_params(bundle, history)]
    except HistoryError as error:
        remedy = "install git and run the audit in a full clone of the project"
        found = [failed("commit", f"git cannot answer: {error}", remedy=remedy)]
    return [*found, *check_tree(bundle)]


def check_commit(bundle: Bundle, history: History) -> list[Check]:
    """The commit exists, and a branch or tag leads to it.

    Raises:
        HistoryError: there is no git or no repository.
    """
    commit = bundle.release.commit
    if not history.has(commit):
        if history.is_shallow:
            reason, remedy = "this clone is shallow and does not hold the commit", "run `git fetch --unshallow`"
        else:
            reason = "the commit does not exist here: the history was rewritten, or this is another project"
            remedy = (
                "run `git fetch --all --tags` in a clone of the project; if it stays missing, do not trust the release"
            )
        return [failed("commit", reason, expected=commit, found="no such commit", remedy=remedy)]
    if not history.contains(commit):
        reason = "the history was rewritten after the release: no branch or tag leads to the commit"
        remedy = "restore the branch (`git branch restored COMMIT`), or release again from the present history"
        return [failed("commit", reason, expected=commit, found="only reachable by its id", remedy=remedy)]
    return [passed("commit", f"{commit} is in the history")]


def check_tree(bundle: Bundle) -> list[Check]:
    """Nothing was uncommitted when the release was made."""
    if changes := bundle.release.changes:
        shown = ", ".join(changes[:8]) + (f" and {len(changes) - 8} more" if len(changes) > 8 else "")
        reason = "files were not committed when the release was made"
        return [failed("tree", reason, expected="none", found=shown, remedy=_AGAIN, subject=changes[0])]
    return [passed("tree", "nothing was uncommitted when it was made")]


def check_documents(bundle: Bundle, history: History) -> list[Check]:
    """dvc.lock, dvc.yaml and params.yaml are those of the commit.

    Raises:
        HistoryError: git failed.
    """
    failures = []
    for name in DOCUMENTS:
        committed, own = history.show(bundle.release.commit, name), (bundle.path / name).read_bytes()
        if committed == own:
            continue
        kind = "lock" if name == "dvc.lock" else "documents"
        if committed is None:
            reason, expected, found = f"the commit has no {name}", f"{name} in the commit", "nothing"
        else:
            reason = f"{name} is not that of the commit"
            expected, found = _first_difference(name, committed, own)
        failures.append(failed(kind, reason, subject=name, expected=expected, found=found, remedy=_AGAIN))
    return settle("lock", failures, "dvc.lock, dvc.yaml and params.yaml are those of the commit")


def _first_difference(name: str, committed: bytes, own: bytes) -> tuple[str, str]:
    """Where two versions of a document differ first, in its own terms where it is a lock."""
    if name == "dvc.lock":
        try:
            ours, theirs = _flat(parse_lock(own, name)), _flat(parse_lock(committed, "the commit's"))
        except LineageError as error:
            return "a dvc.lock that can be read", str(error)
        for key in sorted({*ours, *theirs}):
            if ours.get(key) != theirs.get(key):
                return f"{key} {theirs.get(key, 'not there')}", f"{key} {ours.get(key, 'not there')}"
    lines = committed.decode(errors="replace").splitlines(), own.decode(errors="replace").splitlines()
    for number, (left, right) in enumerate(zip(*lines, strict=False), start=1):
        if left != right:
            return f"line {number}: {left[:120]}", f"line {number}: {right[:120]}"
    return f"{len(lines[0])} lines", f"{len(lines[1])} lines"


def _flat(lock: Lock) -> dict[str, str]:
    pairs = [("reads", stage, stage.deps) for stage in lock.stages] + [("makes", s, s.outs) for s in lock.stages]
    return {f"{stage.name} {word} {ref.path}": ref.md5 for word, stage, refs in pairs for ref in refs}


def check_code(bundle: Bundle, history: History) -> list[Check]:
    """What the stages read beside each other's outputs is what is committed: code that ran is code that can be read.

    Raises:
        HistoryError: git failed.
    """
    lock = bundle.lock
    inputs = {(s.name, dep.path): dep for s in lock.stages for dep in s.deps if not _is_made(dep.path, lock)}
    files = history.files(bundle.release.commit)
    below = {path: _below(path, files) for path in {dep.path for dep in inputs.values()}}
    md5s = history.md5s(files[name] for names in below.values() for name in names)
    failures, compared, outside = [], 0, 0
    for (stage, path), dep in inputs.items():
        names = below[path]
        if names == [path]:
            expected = md5s[files[path]]
        elif names:
            expected = folder_md5({posixpath.relpath(name, path): md5s[files[name]] for name in names})
        elif (pointer := history.show(bundle.release.commit, f"{path}.dvc")) is not None:
            expected = pointed_md5(pointer)
        elif path.endswith(".py"):
            expected = "a committed file"
        else:
            outside += 1  # data from elsewhere: its digest is in dvc.lock, and that is all that is known
            continue
        compared += 1
        if expected != dep.md5:
            failures.append(_other_code(stage, dep, expected))
    note = f"; {outside} inputs come from outside the project and are known by digest only" if outside else ""
    return settle("code", failures, f"{compared} inputs of stages are what is committed{note}")


def _other_code(stage: str, dep: FileRef, expected: str) -> Check:
    reason = f"stage {stage} ran with another {dep.path} than is committed"
    return failed("code", reason, subject=dep.path, expected=f"md5 {expected}", found=f"md5 {dep.md5}", remedy=_AGAIN)


def _is_made(path: str, lock: Lock) -> bool:
    """Whether a stage makes it, or something that it lies in or contains."""
    return lock.made_by(path) is not None or any(PurePosixPath(path) in PurePosixPath(out).parents for out in lock.outs)


def _below(path: str, files: dict[str, str]) -> list[str]:
    return [path] if path in files else [name for name in files if name.startswith(f"{path.rstrip('/')}/")]


def check_params(bundle: Bundle, history: History) -> list[Check]:
    """Each stage ran with the values that the params files of the commit hold.

    Raises:
        HistoryError: git failed.
    """
    failures, compared, contents = [], 0, dict[str, Any]()
    for stage in bundle.lock.stages:
        for file, values in stage.params.items():
            if file not in contents:
                own = (bundle.path / file).read_bytes() if file in DOCUMENTS else None
                text = own if own is not None else history.show(bundle.release.commit, file) or b""
                try:
                    contents[file] = read_params(text, file)
                except LineageError as error:
                    return [failed("params", str(error), subject=file, remedy=_AGAIN)]
            for key, ran_with in values.items():
                compared += 1
                there, value = look_up(contents[file], key)
                if not there or value != ran_with:
                    reason = f"stage {stage.name} ran with another {key} than {file} holds"
                    expected = f"{key} = {value!r}" if there else f"{key} is not there"
                    found, subject = f"{key} = {ran_with!r}", f"{file}:{key}"
                    failures.append(
                        failed("params", reason, subject=subject, expected=expected, found=found, remedy=_AGAIN)
                    )
    return settle("params", failures, f"{compared} values are those that the stages ran with")
