"""Seals what the stages made as a signed release, and records it in the ledger.

It is run by ``python -m stages.release`` after dvc.lock was committed, and stands in no dvc.yaml: a release seals a
commit, the commit holds dvc.lock, and a stage of dvc.yaml would change that very file by running.
"""

import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from dualmind.errors import DualmindError, LineageError
from dualmind.lineage.bundle import Bundle, make_bundle
from dualmind.lineage.content import check_name
from dualmind.lineage.entries import What
from dualmind.lineage.integrity import Trusted
from dualmind.lineage.keys import open_key
from dualmind.lineage.ledger import Ledger, append
from dualmind.lineage.record import Machine
from dualmind.lineage.verify import verify_release
from stages.params import load_params

LEDGER = "ledger.jsonl"  # in the folder of the releases


class ReleaseParams(BaseModel):
    """What a release is called, and who answers for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]  # its folder; never used twice
    folder: Path  # of all releases and the ledger; git should ignore it
    keys: Path  # folder of the keys; each .pub file in it is trusted by the audit
    signer: str  # name of the key; "development" is made on first use and is not for production
    why: Annotated[str, Field(min_length=1)]  # recorded in the ledger
    promote: bool  # whether it serves from now on, or is only made


def release(params: ReleaseParams, root: Path, *, time: datetime, machine: Machine) -> Bundle:
    """Make, verify and record a release; one that does not pass its own audit is not made.

    Args:
        params: what and who.
        root: the project's folder, a git checkout whose dvc.lock is committed.
        time: of the release.
        machine: where it is made.

    Raises:
        LineageError: something does not fit; the message lists each failure with its remedy, and nothing is left.
        StorageError: the disk is full.
    """
    folder, keys = root / params.folder, root / params.keys
    key = open_key(keys, params.signer, time)
    ledger = Ledger.read(folder / LEDGER)
    path = folder / check_name(params.name)
    if path.is_dir() and not any(own.what.name == params.name for own in ledger.entries):
        shutil.rmtree(path)  # a crash came between making and recording: it was never a release
    bundle = make_bundle(root, folder, params.name, key=key, time=time, machine=machine, anchor=ledger.anchor)
    verdict = verify_release(path, root, trusted=[Trusted(key.public, key.info)])
    if not verdict.ok:
        shutil.rmtree(path)
        lines = "".join(
            f"\n  - {own.name}: {own.reason} (expected {own.expected or '-'}, found {own.found or '-'}); {own.remedy}"
            for own in verdict.failures
        )
        raise LineageError(f"release {params.name} does not pass its own audit:{lines}")
    what = What(subject="release", name=params.name, digest=bundle.digest)
    for kind in ("release", "promote") if params.promote else ("release",):
        append(folder / LEDGER, key, time=time, kind=kind, what=what, who=params.signer, why=params.why)
    return bundle


def main() -> int:
    """Run the stage in the current folder; 0 if the release was made."""
    try:
        params = load_params(ReleaseParams, "release")
        bundle = release(params, Path.cwd(), time=datetime.now(UTC), machine=Machine.here())
    except DualmindError as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    kind = " with a DEVELOPMENT key, not for production" if bundle.release.signer.development else ""
    print(f"released {bundle.path}{kind}; check it with `python -m flows.audit {params.name}`")
    return 0


if __name__ == "__main__":
    sys.exit(main())
