"""Keys that sign releases and the ledger's head: elliptic curve, PEM files, usable offline.

A folder holds for each key ``NAME.pem`` (private, mode 0600), ``NAME.pub`` and ``NAME.json``. The key named
``development`` is made on first use, so that a release can be tried at once; everything it signs says so. Another key
is made by :func:`make_key` or with openssl; its public half goes to the auditors on another way than the releases.
"""

import os
import re
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from dualmind.errors import SigningKeyError
from dualmind.lineage.times import stamp
from dualmind.storage import write_json, write_text

DEVELOPMENT = "development"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CURVES = ("secp256r1", "secp384r1", "secp521r1")  # those that model-signing accepts
_MAX_KEY_BYTES = 1 << 16
_ALGORITHM = ec.ECDSA(hashes.SHA256())


class KeyInfo(BaseModel):
    """What is said of a key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    fingerprint: str  # SHA-256 of the public key's DER form, in hex
    development: bool  # made on first use, guarded by nobody
    expires: str  # a UTC time after which it signs no more; "" for never


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The half that checks."""

    key: ec.EllipticCurvePublicKey

    @classmethod
    def parse(cls, pem: bytes, where: str) -> Self:
        """Read a PEM file's bytes.

        Raises:
            SigningKeyError: they hold no public key on a known curve.
        """
        try:
            key = serialization.load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise SigningKeyError(f"{where} holds no public key ({error}); give the signer's .pub file") from error
        if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in _CURVES:
            raise SigningKeyError(f"{where} holds a key of another kind than {', '.join(_CURVES)}")
        return cls(key)

    @property
    def pem(self) -> bytes:
        """As a PEM file's bytes."""
        return self.key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the DER form, in hex."""
        der = self.key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return sha256(der).hexdigest()

    def accepts(self, signature: bytes, data: bytes) -> bool:
        """Whether ``signature`` was made over ``data`` by the other half."""
        try:
            self.key.verify(signature, data, _ALGORITHM)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """Both halves, and what is said of them."""

    path: Path  # of the private half, which model-signing reads itself
    private: ec.EllipticCurvePrivateKey
    info: KeyInfo

    @property
    def public(self) -> PublicKey:
        """The half that checks."""
        return PublicKey(self.private.public_key())

    def sign(self, data: bytes) -> bytes:
        """A signature over ``data``; another one each time."""
        return self.private.sign(data, _ALGORITHM)


def make_key(folder: Path, name: str, *, expires: str = "") -> SigningKey:
    """Make a key pair on P-256.

    Raises:
        SigningKeyError: the name is no file name, or there is such a key already.
    """
    path = _path(folder, name)
    folder.mkdir(parents=True, exist_ok=True)
    private = ec.generate_private_key(ec.SECP256R1())
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise SigningKeyError(f"{path} exists; a key is never overwritten, choose another name") from error
    with os.fdopen(handle, "wb") as file:
        file.write(pem)
        os.fsync(file.fileno())
    public = PublicKey(private.public_key())
    info = KeyInfo(name=name, fingerprint=public.fingerprint, development=name == DEVELOPMENT, expires=expires)
    write_text(path.with_suffix(".pub"), public.pem.decode())
    write_json(path.with_suffix(".json"), info.model_dump())
    write_text(folder / ".gitignore", "*.pem\n*.lock\n")  # a private key is never committed
    return SigningKey(path, private, info)


def open_key(folder: Path, name: str, now: datetime) -> SigningKey:
    """The key of that name; the development key is made if it is not there.

    Raises:
        SigningKeyError: there is no such key, it cannot be read, or it has expired.
    """
    path = _path(folder, name)
    if name == DEVELOPMENT:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            if not path.exists():
                make_key(folder, name)
    if not path.is_file():
        command = f"openssl ecparam -name prime256v1 -genkey -noout -out {path}"
        raise SigningKeyError(f"there is no key at {path}; make one with `{command}` or sign as {DEVELOPMENT!r}")
    try:
        private = serialization.load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: it is encrypted
        raise SigningKeyError(f"{path} is no unencrypted private key in PEM form ({error})") from error
    if not isinstance(private, ec.EllipticCurvePrivateKey) or private.curve.name not in _CURVES:
        raise SigningKeyError(f"{path} holds a key of another kind than {', '.join(_CURVES)}")
    public = PublicKey(private.public_key())
    info = read_info(path.with_suffix(".json"), public, name)
    if info.expires and stamp(now) >= info.expires:
        raise SigningKeyError(f"key {name!r} expired at {info.expires}; make a new one and tell the auditors its .pub")
    return SigningKey(path, private, info)


def read_public(path: Path) -> PublicKey:
    """A public key file.

    Raises:
        SigningKeyError: it is missing or holds no public key.
    """
    return PublicKey.parse(_read(path), str(path))


def read_info(path: Path, public: PublicKey, name: str) -> KeyInfo:
    """What stands beside a key about it; a key made with openssl has nothing there and never expires.

    Raises:
        SigningKeyError: what stands there is about another key.
    """
    if not path.is_file():
        return KeyInfo(name=name, fingerprint=public.fingerprint, development=name == DEVELOPMENT, expires="")
    try:
        info = KeyInfo.model_validate_json(_read(path))
    except ValidationError as error:
        raise SigningKeyError(f"{path} does not describe a key: {error.errors()[0]['msg']}") from error
    if info.fingerprint != public.fingerprint:
        raise SigningKeyError(
            f"{path} is about key {info.fingerprint}, beside it is {public.fingerprint}; restore the pair"
        )
    return info


def _path(folder: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise SigningKeyError(f"{name!r} names no key; use letters, digits, points, dashes and underlines")
    return folder / f"{name}.pem"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_KEY_BYTES)
    except OSError as error:
        raise SigningKeyError(f"key file {path} cannot be read: {error.strerror}") from error
