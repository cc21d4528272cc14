"""What an audit asks of DVC: is its cache intact, and does a stage make the same bytes again at the commit?"""

import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from dualmind.errors import PipelineError
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.checks import Check, failed, passed, settle
from dualmind.lineage.content import is_inside
from dualmind.lineage.lockfile import StageRecord
from dualmind.lineage.record import Machine
from dualmind.storage import md5_file, write_text
from tasks.dvc import reproduce, run_program
from tasks.programs import ProcessGroups
from tasks.publish import cache_folder, local_config

_MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")
_PREPARE_LIMIT_S = 600.0  # for git or DVC to fetch what a stage reads
_STEPS_PER_UNIT = 100  # of training, that cost as much as a stage that trains nothing


def check_cache(bundle: Bundle, root: Path) -> list[Check]:
    """Every output that lies in DVC's cache, data sets included, still has the bytes that dvc.lock names.

    What is not in this cache is not known here; DVC fetches it by its MD5.

    Raises:
        PipelineError: DVC's configuration cannot be read.
    """
    store = cache_folder(root) / "files" / "md5"
    failures, found = [], 0
    todo = {out.md5: out.path for out in bundle.lock.outs.values()}
    while todo:
        md5, path = todo.popitem()
        file = store / md5[:2] / md5[2:]
        if not _MD5.fullmatch(md5) or not file.is_file():
            continue
        found += 1
        if (actual := md5_file(file)) != md5.removesuffix(".dir"):
            remedy = f"remove {file}, then run `dvc fetch` or `dvc repro --force`"
            reason = f"{path} was changed in DVC's cache"
            expected, have = f"md5 {md5}", f"md5 {actual}"
            failures.append(failed("cache", reason, subject=path, expected=expected, found=have, remedy=remedy))
        elif md5.endswith(".dir"):
            todo |= {own["md5"]: f"{path}/{own['relpath']}" for own in json.loads(file.read_bytes())}
    return settle("cache", failures, f"{found} outputs and parts of them in DVC's cache are what dvc.lock names")


def sample_stages(bundle: Bundle, number: int, rng: np.random.Generator) -> list[str]:
    """Names of ``number`` different stages (or all, if there are fewer), drawn with weights of one over their cost.

    DVC records no times, so a stage's cost is estimated from the training steps in the meta data of what it makes.
    """
    stages = bundle.lock.stages
    weights = np.array([1 / _cost(stage, bundle) for stage in stages])
    drawn = rng.choice(len(stages), size=min(number, len(stages)), replace=False, p=weights / weights.sum())
    return [stages[index].name for index in sorted(drawn)]


def _cost(stage: StageRecord, bundle: Bundle) -> float:
    outs = {out.path for out in stage.outs}
    return 1 + sum(own.meta.steps for own in bundle.release.checkpoints if own.path in outs) / _STEPS_PER_UNIT


def reexecute(
    bundle: Bundle, root: Path, names: Sequence[str], *, minutes: float, here: Machine, log: Callable[[str], None]
) -> list[Check]:
    """Run stages again at the release's commit, on inputs from DVC's cache or remote.

    Args:
        bundle: the release.
        root: a git checkout of the project; nothing in it is written, but for what its cache lacks of the inputs.
        names: stages, which run in the order of dvc.lock.
        minutes: for all of them; what does not fit is reported as not answered, which is a failure.
        here: this machine, to name a difference that another processor explains.
        log: takes each line of output as it comes.
    """
    deadline = time.monotonic() + 60 * minutes
    scratch = Path(tempfile.mkdtemp(prefix="dualmind-audit-"))
    groups = ProcessGroups(1)
    try:
        copy = _copy(bundle.release.commit, root, scratch, groups, log)
        return [
            _again(stage, bundle, copy, deadline, here, groups, log)
            for stage in bundle.lock.stages
            if stage.name in names
        ]
    except PipelineError as error:
        remedy = "run the audit in a full git clone of the project, with its DVC cache or remote"
        return [failed("reexecute", str(error), subject=name, remedy=remedy) for name in names]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _copy(commit: str, root: Path, scratch: Path, groups: ProcessGroups, log: Callable[[str], None]) -> Path:
    """A checkout of the commit that reads the project's DVC cache; returns the project's folder in it."""

    def run(where: Path, *command: str) -> str:
        ended = run_program(command, where, groups, timeout_s=_PREPARE_LIMIT_S, log=log)
        if ended.code:
            raise PipelineError(f"`{' '.join(command[:4])}` failed in {where}: {' '.join(ended.tail[-3:])}")
        return ended.tail[-1].strip() if ended.tail else ""

    top, prefix = run(root, "git", "rev-parse", "--show-toplevel"), run(root, "git", "rev-parse", "--show-prefix")
    run(scratch, "git", "clone", "--quiet", "--shared", "--no-checkout", top, "copy")
    run(scratch / "copy", "git", "checkout", "--quiet", "--detach", commit)
    copy = scratch / "copy" / prefix
    write_text(copy / ".dvc/config.local", local_config(root))
    return copy


def _again(
    stage: StageRecord,
    bundle: Bundle,
    copy: Path,
    deadline: float,
    here: Machine,
    groups: ProcessGroups,
    log: Callable[[str], None],
) -> Check:
    left = deadline - time.monotonic()
    if left <= 0:
        reason = f"stage {stage.name} was not run again: the budget was used up"
        return failed("reexecute", reason, subject=stage.name, remedy="raise audit.minutes, or draw fewer stages")
    try:
        _restore(stage, bundle, copy, groups, log)
        ref = reproduce(stage.name, copy, groups, timeout_s=left, lock_wait_s=_PREPARE_LIMIT_S, log=log, again=True)
    except PipelineError as error:
        remedy = "see its output; if it was killed by the limit, raise audit.minutes; if inputs miss, run `dvc fetch`"
        return failed("reexecute", str(error)[:600], subject=stage.name, remedy=remedy)
    found = {out.path: out.md5 for out in ref.outs}
    for out in stage.outs:
        if found.get(out.path) != out.md5:
            why, remedy = _explain(stage, bundle, here)
            return failed(
                "reexecute", f"stage {stage.name} made another {out.path} when it was run again{why}",
                subject=stage.name, expected=f"md5 {out.md5}", found=f"md5 {found.get(out.path)}", remedy=remedy,
            )  # fmt: skip
    return passed("reexecute", f"stage {stage.name} was run again and made the same bytes")


def _restore(stage: StageRecord, bundle: Bundle, copy: Path, groups: ProcessGroups, log: Callable[[str], None]) -> None:
    """Bring the outputs that a stage reads from the cache, or from the remote where the cache lacks them."""
    made = {own.path for dep in stage.deps if (own := bundle.lock.made_by(dep.path)) is not None}
    made |= {path for path in bundle.lock.outs for dep in stage.deps if path.startswith(f"{dep.path}/")}
    if outside := [path for path in made if not is_inside(path)]:
        raise PipelineError(f"stage {stage.name} reads {outside[0]}, which lies outside the project")
    if not made:
        return
    dvc = [sys.executable, "-m", "dvc", "--wait-for-lock"]
    for command in ("checkout", "--force"), ("pull",):
        ended = run_program([*dvc, *command, *sorted(made)], copy, groups, timeout_s=_PREPARE_LIMIT_S, log=log)
        if not ended.code:
            return
    raise PipelineError(f"inputs of stage {stage.name} are not in the cache: {' '.join(ended.tail[-3:])}")


def _explain(stage: StageRecord, bundle: Bundle, here: Machine) -> tuple[str, str]:
    """Why the bytes may differ without anyone having changed them, and what to do."""
    then = bundle.release.machine
    outs = {out.path for out in stage.outs}
    threads = {own.meta.threads for own in bundle.release.checkpoints if own.path in outs}
    if then.cpu != here.cpu:
        return f"; that was on another CPU ({then.cpu} then, {here.cpu} here)", f"run the audit on a {then.cpu}"
    if threads and max(threads) > here.num_cpus:
        why = f"; it ran with {max(threads)} threads then, here are {here.num_cpus} CPUs"
        return why, f"run the audit on a machine with {max(threads)} CPUs"
    changed = [
        f"{name} {version} then, {here.packages.get(name, 'not installed')} here"
        for name, version in then.packages.items()
        if here.packages.get(name) != version
    ]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return f"; other packages are installed ({changed[0]}{more})", "install the versions in sbom.cdx.json"
    return "", "the release does not come from this code and data, or the stage is not reproducible: look into it"
