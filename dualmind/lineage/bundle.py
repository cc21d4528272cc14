"""Makes and opens a release: one folder that holds all that is served and all that shows where it comes from.

    releases/<name>/
        release.json       what is released, of which commit, by whom, on which machine
        files/...          checkpoints, gate, threshold, receipts and results, under their paths in the project
        dvc.lock  dvc.yaml  params.yaml      as they were
        README.md          model card
        sbom.cdx.json  provenance.json  openlineage.jsonl
        public_key.pem     of the key that signed
        manifest.json      SHA-256, MD5 and size of all the above
        signature          by model-signing, over all the above

What goes in follows from dvc.lock alone: every output folder with a meta.json is a checkpoint, every small JSON output
is a receipt, a gate, a threshold or a result. So a new stage needs no change here.
"""

import shutil
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from dualmind.data.validation import Receipt
from dualmind.errors import BundleError, ReceiptMismatch
from dualmind.lineage import record
from dualmind.lineage.card import model_card
from dualmind.lineage.content import (
    MAX_DOCUMENT_BYTES,
    check_name,
    digest_file,
    is_inside,
    list_files,
    read_json,
    read_model,
)
from dualmind.lineage.entries import Anchor
from dualmind.lineage.history import History
from dualmind.lineage.keys import SigningKey
from dualmind.lineage.lockfile import FileRef, Lock, parse_lock
from dualmind.lineage.record import FILES, CheckpointRecord, Machine, Manifest, Meta, Release
from dualmind.lineage.standards import Contents, ml_bom, openlineage, provenance
from dualmind.lineage.times import stamp
from dualmind.storage import atomic_folder, md5_folder, write_json, write_text

_MAX_RESULT_BYTES = 16 << 20  # a larger JSON output is data, of which the digest in dvc.lock is enough


@dataclass(frozen=True, slots=True)
class Bundle:
    """A release folder that was opened; :mod:`dualmind.lineage.verify` says whether it can be trusted."""

    path: Path
    release: Release
    lock: Lock

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read what a release says of itself.

        Raises:
            BundleError: it is no release folder, or is unsafe to read.
            LineageError: its dvc.lock cannot be read.
        """
        list_files(path)
        release = read_model(path, record.RELEASE, Release)
        return cls(path, release, parse_lock((path / "dvc.lock").read_bytes(), str(path / "dvc.lock")))

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest, and so of everything; what the ledger calls the release by."""
        return sha256((self.path / record.MANIFEST).read_bytes()).hexdigest()

    def file(self, path: str) -> Path:
        """Where the output that had ``path`` in the project lies here.

        Raises:
            BundleError: the release has no such output.
        """
        found = self.path / FILES / path
        if not is_inside(path) or not found.exists():
            raise BundleError(f"release {self.release.name} has no {path}; it has {', '.join(sorted(self.lock.outs))}")
        return found


def make_bundle(
    root: Path, releases: Path, name: str, *, key: SigningKey, time: datetime, machine: Machine, anchor: Anchor
) -> Bundle:
    """Make ``releases/<name>`` from what dvc.lock records; equal inputs give equal bytes, but for the signature.

    Args:
        root: the project's folder, a git checkout whose stages are up to date.
        releases: where releases lie.
        name: of the release and its folder.
        key: signs it.
        time: of the release.
        machine: where it is made.
        anchor: how far the ledger has come.

    Raises:
        BundleError: there is such a release, or an output is missing, unsafe or no checkpoint.
        HistoryError: the project is no git checkout.
        LineageError: dvc.lock cannot be read.
        StorageError: the disk is full; no folder is left.
    """
    path = releases / check_name(name)
    if path.exists():
        raise BundleError(f"{path} exists, and a release is never changed; choose another release.name")
    history = History(root)
    ignored = [str(f.resolve().relative_to(root.resolve())) for f in (releases, key.path.parent) if _below(f, root)]
    lock = parse_lock(_read(root, "dvc.lock"), str(root / "dvc.lock"))
    releases.mkdir(parents=True, exist_ok=True)
    with atomic_folder(path) as folder:
        for document in record.DOCUMENTS:
            (folder / document).write_bytes(_read(root, document))
        (folder / record.PUBLIC_KEY).write_bytes(key.public.pem)
        checkpoints = [own for ref in lock.outs.values() if (own := _copy_checkpoint(root, folder, ref)) is not None]
        results = [ref.path for ref in lock.outs.values() if _copy_result(root, folder, ref)]
        receipts = {own: found for own in results if (found := _as_receipt(folder / FILES / own)) is not None}
        gates, thresholds = (
            [own for own in results if Path(own).name == kind] for kind in ("gate.json", "threshold.json")
        )
        release = Release(
            name=name,
            time=stamp(time),
            commit=history.head,
            changes=history.changes(ignored),
            signer=key.info,
            ledger=anchor,
            machine=machine,
            checkpoints=checkpoints,
            receipts=list(receipts),
            gates=gates,
            thresholds=thresholds,
            results=[own for own in results if own not in {*receipts, *gates, *thresholds}],
        )
        write_json(folder / record.RELEASE, release.model_dump())
        _describe(folder, release, lock, receipts)
        digests = {own: digest_file(folder / own) for own in list_files(folder)}
        write_json(folder / record.MANIFEST, Manifest(files=digests).model_dump())
        _sign(folder, key)
    return Bundle.open(path)


def _copy_checkpoint(root: Path, folder: Path, ref: FileRef) -> CheckpointRecord | None:
    """Copy an output that is a checkpoint; what is no folder with a meta.json is none."""
    source = root / ref.path
    if not ref.md5.endswith(".dir") or not is_inside(ref.path):
        return None
    if not source.is_dir():
        raise BundleError(f"{source} is recorded in dvc.lock but is not there; run `dvc checkout {ref.path}`")
    if not (source / "meta.json").is_file():
        return None
    target = folder / FILES / ref.path
    for file in sorted(p for p in source.rglob("*") if p.is_file()):
        own = target / file.relative_to(source)
        own.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, own)  # the content, where DVC's cache gives links
    try:
        meta = Meta.model_validate_json((target / "meta.json").read_bytes())
    except ValidationError as error:
        raise BundleError(f"{source / 'meta.json'} is not a checkpoint's: {error.errors()[0]['msg']}") from error
    if not (target / "model.safetensors").is_file():
        raise BundleError(f"{source} has no model.safetensors; run `dvc checkout {ref.path}`")
    return CheckpointRecord(path=ref.path, digest=md5_folder(target), meta=meta)


def _copy_result(root: Path, folder: Path, ref: FileRef) -> bool:
    """Copy an output that is a small JSON file."""
    if not ref.path.endswith(".json") or ref.md5.endswith(".dir") or ref.size > _MAX_RESULT_BYTES:
        return False
    if not is_inside(ref.path):
        return False
    target = folder / FILES / ref.path
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(root / ref.path, target)
    except FileNotFoundError as error:
        raise BundleError(
            f"{root / ref.path} is recorded in dvc.lock but is not there; run `dvc checkout {ref.path}`"
        ) from error
    return True


def _as_receipt(path: Path) -> Receipt | None:
    """The receipt that a JSON file is; None where it is none, or tells of no success."""
    try:
        return Receipt.read(path)
    except ReceiptMismatch:
        return None


def _describe(folder: Path, release: Release, lock: Lock, receipts: dict[str, Receipt]) -> None:
    contents = Contents(release, lock, {own: digest_file(folder / own) for own in list_files(folder)}, receipts)
    write_text(folder / record.PROVENANCE, provenance(contents))
    write_text(folder / record.SBOM, ml_bom(contents))
    write_text(folder / record.OPENLINEAGE, openlineage(contents))
    threshold: dict[str, Any] = {}
    for own in release.thresholds:
        threshold[own] = read_json(folder, f"{FILES}/{own}")
    write_text(folder / record.CARD, model_card(contents, threshold))


def _sign(folder: Path, key: SigningKey) -> None:
    from model_signing import hashing, signing

    ignored = hashing.Config().set_ignored_paths(paths=[record.SIGNATURE], ignore_git_paths=False)
    config = signing.Config().use_elliptic_key_signer(private_key=key.path).set_hashing_config(ignored)
    config.sign(folder, folder / record.SIGNATURE)


def _read(root: Path, name: str) -> bytes:
    path = root / name
    try:
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise BundleError(f"{path} has over {MAX_DOCUMENT_BYTES} bytes; this is no {name}")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise BundleError(f"{root} has no {name}; run from the project's folder, after `dvc repro`") from error


def _below(folder: Path, root: Path) -> bool:
    return folder.resolve().is_relative_to(root.resolve())
