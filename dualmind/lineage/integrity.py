"""Is every byte what was signed, by whom, and does the ledger know of it?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidSignature

from dualmind.errors import BundleError, LineageError, SigningKeyError
from dualmind.lineage import record
from dualmind.lineage.bundle import Bundle
from dualmind.lineage.checks import Check, failed, passed, settle
from dualmind.lineage.content import digest_file, is_inside, list_files, read_document, read_model
from dualmind.lineage.keys import KeyInfo, PublicKey, read_info, read_public
from dualmind.lineage.ledger import Ledger
from dualmind.lineage.record import Manifest

_RESTORE = "do not serve it; restore the folder from a copy whose digest the ledger knows"


@dataclass(frozen=True, slots=True)
class Trusted:
    """A public key that the auditor got from the signer on another way than the release."""

    key: PublicKey
    info: KeyInfo

    @classmethod
    def read(cls, path: Path) -> Self:
        """A ``.pub`` file and, if it is there, the ``.json`` beside it.

        Raises:
            SigningKeyError: it holds no public key, or what is beside it is about another one.
        """
        key = read_public(path)
        return cls(key, read_info(path.with_suffix(".json"), key, path.stem))


def check_files(path: Path) -> list[Check]:
    """The folder is safe to read and complete."""
    try:
        present = list_files(path)
    except BundleError as error:
        return [failed("files", str(error), remedy=_RESTORE)]
    missing = [name for name in record.REQUIRED if name not in present]
    failures = [failed("files", f"{name} is missing", subject=name, remedy=_RESTORE) for name in missing]
    return settle("files", failures, f"{len(present)} plain files, none too large, none missing")


def check_bytes(path: Path) -> list[Check]:
    """Each file is the one that the manifest names, and there is no other."""
    try:
        manifest = read_model(path, record.MANIFEST, Manifest).files
    except BundleError as error:
        return [failed("bytes", str(error), subject=record.MANIFEST, remedy=_RESTORE)]
    failures = []
    present = {own: size for own, size in list_files(path).items() if own not in {record.MANIFEST, record.SIGNATURE}}
    for name in sorted({*manifest, *present}):
        if not is_inside(name):
            reason = f"the manifest names {name!r}, which leads out of the release"
            failures.append(failed("bytes", reason, subject=name, remedy=_RESTORE))
        elif name not in present:
            failures.append(failed("bytes", f"{name} is missing", subject=name, remedy=_RESTORE))
        elif name not in manifest:
            failures.append(failed("bytes", f"{name} was added", subject=name, remedy=_RESTORE))
        elif present[name] != manifest[name].size:  # so that nothing large is hashed in vain
            want, have = f"{manifest[name].size} bytes", f"{present[name]} bytes"
            failures.append(
                failed("bytes", f"{name} was changed", subject=name, expected=want, found=have, remedy=_RESTORE)
            )
        elif (found := digest_file(path / name)) != manifest[name]:
            want, have = f"sha256 {manifest[name].sha256}", f"sha256 {found.sha256}"
            failures.append(
                failed("bytes", f"{name} was changed", subject=name, expected=want, found=have, remedy=_RESTORE)
            )
    return settle("bytes", failures, f"each of {len(manifest)} files has the SHA-256 and MD5 of the manifest")


def check_signature(path: Path) -> list[Check]:
    """The signature is over these bytes and by the key that lies in the release."""
    from model_signing import hashing, verifying

    config = hashing.Config().set_ignored_paths(paths=[record.SIGNATURE], ignore_git_paths=False)
    try:
        PublicKey.parse(read_document(path, record.PUBLIC_KEY), record.PUBLIC_KEY)
        verifier = verifying.Config().use_elliptic_key_verifier(public_key=path / record.PUBLIC_KEY)
        verifier.set_hashing_config(config).verify(path, path / record.SIGNATURE)
    except InvalidSignature:
        return [failed("signature", "the signature was not made by the key in the release", remedy=_RESTORE)]
    except (LineageError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        reason = f"the signature is not over these bytes ({str(error)[:400]})"
        return [failed("signature", reason, remedy=_RESTORE)]
    return [passed("signature", "every byte is what was signed")]


def check_key(bundle: Bundle, trusted: Sequence[Trusted]) -> list[Check]:
    """The key is one of those that the auditor trusts, and had not expired; a development key is named as such."""
    signer, failures = bundle.release.signer, []
    try:
        key = PublicKey.parse(read_document(bundle.path, record.PUBLIC_KEY), record.PUBLIC_KEY)
    except (SigningKeyError, BundleError) as error:
        return [failed("key", str(error), remedy=_RESTORE)]
    if key.fingerprint != signer.fingerprint:
        reason = "release.json names another key than the one that signed"
        expected, found = signer.fingerprint, key.fingerprint
        failures.append(failed("key", reason, expected=expected, found=found, remedy=_RESTORE))
    own = next((t.info for t in trusted if t.key.fingerprint == key.fingerprint), None)
    if trusted and own is None:
        expected = " or ".join(f"{t.info.name} {t.key.fingerprint}" for t in trusted)
        reason = "the release is signed with a key that is not trusted"
        remedy = "do not serve it; ask the signer whether the key is theirs, and if so pass its .pub file"
        failures.append(failed("key", reason, expected=expected, found=key.fingerprint, remedy=remedy))
    expires = (own or signer).expires
    if expires and bundle.release.time >= expires:
        remedy = "release again with a key that is valid"
        reason = "the key had expired when the release was made"
        failures.append(failed("key", reason, expected=f"before {expires}", found=bundle.release.time, remedy=remedy))
    text = f"signed with key {signer.name!r} {key.fingerprint}"
    if signer.development:
        text += ", a DEVELOPMENT key that nobody guards: not for production"
    if not trusted:
        text += "; no expected key was given, so whose it is was not checked"
    return settle("key", failures, text)


def check_ledger(bundle: Bundle, ledger: Ledger, trusted: Sequence[Trusted]) -> list[Check]:
    """The ledger is as it was written, as long as this release remembers it, and records these very bytes."""
    release, failures = bundle.release, []
    verdict = ledger.verify([own.key for own in trusted], [release.ledger])
    if not verdict.ok:
        return [failed("ledger", f"{ledger.path}: {verdict.message}", remedy="restore the ledger from a copy")]
    known = [e for e in ledger.entries if e.what.subject == "release" and e.what.name == release.name]
    if not known:
        reason = f"{ledger.path} knows no release {release.name}"
        failures.append(failed("ledger", reason, remedy="do not serve it; release through `python -m stages.release`"))
    for entry in known:
        if entry.what.digest != bundle.digest:
            reason = f"entry {entry.sequence} records other bytes under the name {release.name}"
            want, have = f"manifest {entry.what.digest}", f"manifest {bundle.digest}"
            failures.append(failed("ledger", reason, expected=want, found=have, remedy=_RESTORE))
            break
    flags = "".join(f"; {flag}" for flag in verdict.flags)
    return settle("ledger", failures, f"{verdict.message}; it records this release{flags}")
