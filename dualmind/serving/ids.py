"""Names of requests: made by the server, checkable without a table, telling nothing to who has no key.

A name is ``<year and month><96 random bits><64 bits of a keyed hash>``. The hash says that this server made the name,
so ``/feedback`` knows unknown names after a restart too; another keyed hash of the name says whether it was drawn.
"""

import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from dualmind.errors import ServingError
from dualmind.traffic.audit import AuditSampler

_NAME = re.compile(r"([0-9]{4})(0[1-9]|1[0-2])[0-9a-f]{24}([0-9a-f]{16})")
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Origin:
    """What a name tells the server."""

    month: str  # as in ``2026-11``
    audited: bool  # drawn for the sample


class Names:
    """Makes and reads names."""

    def __init__(self, secret: bytes, audit_rate: float) -> None:
        """Args are at least 16 secret bytes and the share of requests to audit.

        Raises:
            TrafficError: the secret is too short, or the rate is not in 0..1.
        """
        self._secret, self._sampler = secret, AuditSampler(audit_rate, secret)

    def make(self, month: str) -> tuple[str, bool]:
        """A new name for a decision of a month, and whether it was drawn: a uniform share of all, whoever answers."""
        stem = f"{month.replace('-', '')}{secrets.token_hex(12)}"
        name = f"{stem}{self._seal(stem)}"
        return name, self._sampler.is_drawn(name)

    def read(self, name: str) -> Origin | None:
        """What a name tells; None if this server did not make it."""
        match = _NAME.fullmatch(name)
        if match is None or not hmac.compare_digest(self._seal(name[:-16]), match[3]):
            return None
        return Origin(f"{match[1]}-{match[2]}", self._sampler.is_drawn(name))

    def _seal(self, stem: str) -> str:
        return hashlib.blake2b(stem.encode(), digest_size=8, key=self._secret, person=b"name").hexdigest()


def open_secret(path: Path) -> bytes:
    """The server's secret; made on first use, readable by its owner alone.

    Raises:
        ServingError: the file holds something else.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(_SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
    try:
        found = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError as error:
        raise ServingError(f"{path} holds no secret in hex; remove it, and a new one is made") from error
    if len(found) != _SECRET_BYTES:
        raise ServingError(f"{path} holds {len(found)} bytes, not {_SECRET_BYTES}; remove it, and a new one is made")
    return found


def reviewer_token(secret: bytes) -> str:
    """What a person shows to label the drawn sample; others' verdicts are voluntary feedback."""
    return hashlib.blake2b(b"reviewer", digest_size=24, key=secret).hexdigest()
