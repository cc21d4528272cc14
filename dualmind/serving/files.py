"""Which files of a release serve. A bundle is verified before anything of it is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dualmind.errors import ServingError
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.integrity import Trusted
from dualmind.lineage.ledger import Ledger
from dualmind.lineage.verify import verify_release


@dataclass(frozen=True, slots=True)
class Weights:
    """A checkpoint's folder, and the digest of what should be in it."""

    path: Path
    digest: str


@dataclass(frozen=True, slots=True)
class ReleaseFiles:
    """The two systems of a release, and the gate and threshold that it was made with."""

    name: str
    digest: str  # of the release as a whole, as the ledger calls it
    system1: Weights
    system2: Weights
    gate: Path
    threshold: Path


OpenRelease = Callable[[str], ReleaseFiles]  # by name; raises LineageError or ServingError


def open_bundle(folder: Path, root: Path, *, ledger: Path, trusted: Sequence[Trusted]) -> ReleaseFiles:
    """The files of a release bundle that passes its audit.

    Where a release holds several checkpoints of one kind, the one that descends from another is served: a student, not
    the pretrained model that it began as.

    Args:
        folder: of the bundle.
        root: a git checkout of the project.
        ledger: where releases are recorded.
        trusted: keys of which one must have signed.

    Raises:
        ServingError: the bundle does not pass, or lacks a part that serves.
        LineageError: the ledger cannot be read.
    """
    verdict = verify_release(folder, root, ledger=Ledger.read(ledger), trusted=trusted)
    if not verdict.ok:
        first = verdict.failures[0]
        raise ServingError(
            f"release {folder.name} is not served: {first.name}: {first.reason}; {first.remedy} "
            f"(all reasons: `python -m flows.audit {folder.name}`)"
        )
    bundle = Bundle.open(folder)
    return ReleaseFiles(
        name=bundle.release.name,
        digest=bundle.digest,
        system1=_weights(bundle, "system1"),
        system2=_weights(bundle, "system2"),
        gate=_one(bundle, bundle.release.gates, "gate.json"),
        threshold=_one(bundle, bundle.release.thresholds, "threshold.json"),
    )


def _weights(bundle: Bundle, kind: str) -> Weights:
    own = [record for record in bundle.release.checkpoints if record.meta.kind == kind]
    parents = {digest for record in own for digest in record.meta.parents.values()}
    last = [record for record in own if record.digest not in parents]
    if len(last) != 1:
        raise ServingError(
            f"release {bundle.release.name} has {len(last)} checkpoints of kind {kind} that nothing descends from "
            f"({', '.join(record.path for record in last) or 'none'}); it must have one to be served"
        )
    return Weights(bundle.file(last[0].path), last[0].digest)


def _one(bundle: Bundle, paths: Sequence[str], name: str) -> Path:
    if len(paths) != 1:
        raise ServingError(
            f"release {bundle.release.name} has {len(paths)} files {name}; it must have one to be served"
        )
    return bundle.file(paths[0])
