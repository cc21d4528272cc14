"""What a ledger is made of: entries, and the signed head that holds the last one."""

import base64
from collections.abc import Sequence
from hashlib import sha256
from typing import Self

import rfc8785
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from dualmind.errors import SigningKeyError
from dualmind.lineage.keys import PublicKey, SigningKey

GENESIS = "0" * 64  # what stands for the hash before the first entry


class What(BaseModel):
    """What an entry is about."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    subject: str = Field(pattern=r"^[a-z]+$")  # "release", "threshold"
    name: str  # the release's name, or the threshold's value
    digest: str  # of its bytes: SHA-256 of a bundle's manifest, MD5 of a threshold.json


class Entry(BaseModel):
    """One line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sequence: PositiveInt  # 1, 2, 3: the order, also where a clock was set back
    time: str  # UTC, as the writer's clock said
    kind: str = Field(pattern=r"^[a-z]+$")  # "release" (made), "promote" and "rollback" (serve it), "keep", "label"
    what: What
    who: str
    why: str
    previous_hash: str
    hash: str

    def line(self) -> bytes:
        """The line without its end."""
        return rfc8785.dumps(self.model_dump())

    def true_hash(self) -> str:
        """What :attr:`hash` must be."""
        return sha256(rfc8785.dumps(self.model_dump(exclude={"hash"}))).hexdigest()


class Anchor(BaseModel):
    """How far the ledger had come, as a bundle remembers it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: int = Field(ge=0)
    hash: str


class Head(BaseModel):
    """The signed end of the ledger."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    entry: Entry  # the last one; its sequence is the number of entries
    public_key: str  # PEM of the key that signed; the auditor compares it with the one that is expected
    signature: str  # over the entry's canonical JSON, in base64

    @classmethod
    def sealed(cls, entry: Entry, key: SigningKey) -> Self:
        """The head for a ledger that ends with ``entry``."""
        signature = base64.b64encode(key.sign(entry.line())).decode()
        return cls(entry=entry, public_key=key.public.pem.decode(), signature=signature)

    def check(self, expected: Sequence[PublicKey]) -> str:
        """Why the signature proves nothing, or ""."""
        try:
            key = PublicKey.parse(self.public_key.encode(), "ledger.head")
            signature = base64.b64decode(self.signature, validate=True)
        except (SigningKeyError, ValueError) as error:
            return f"its signature cannot be read ({error})"
        if not key.accepts(signature, self.entry.line()):
            return "its signature is not over these bytes"
        known = [own.fingerprint for own in expected]
        if known and key.fingerprint not in known:
            return f"it is signed with key {key.fingerprint}, expected {' or '.join(known)}"
        return ""
