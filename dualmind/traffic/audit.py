"""Which decisions are labelled: a uniform random sample that nobody outside can steer or foresee."""

import hashlib
from collections.abc import Iterable

from dualmind.errors import TrafficError

_LEAST_SECRET_BYTES = 16


class AuditSampler:
    """Draws a share of all requests by a keyed hash of their id.

    Anybody with the secret can check every draw afterwards. Without it a client cannot tell which ids are drawn, and
    the server makes the ids anyway. Keep the secret out of the repository and out of the log.
    """

    def __init__(self, rate: float, secret: bytes) -> None:
        """A sampler.

        Args:
            rate: share of requests to draw, 0..1.
            secret: at least 16 bytes, the same in all servers.

        Raises:
            TrafficError: ``rate`` is not in 0..1, or the secret too short.
        """
        if not 0 <= rate <= 1:
            raise TrafficError(f"audit rate {rate}: give a share of 0..1")
        if not _LEAST_SECRET_BYTES <= len(secret) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise TrafficError(
                f"the audit's secret has {len(secret)} bytes: give {_LEAST_SECRET_BYTES} to "
                f"{hashlib.blake2b.MAX_KEY_SIZE} random ones"
            )
        self.rate = rate
        self._below, self._secret = round(rate * 2**64), secret

    def is_drawn(self, request_id: str) -> bool:
        """Is this request to be audited?"""
        digest = hashlib.blake2b(request_id.encode(), digest_size=8, key=self._secret).digest()
        return int.from_bytes(digest) < self._below

    def misdrawn(self, rows: Iterable[tuple[str, bool]]) -> list[str]:
        """Ids whose logged draw (id, ``audited``) is not the one that the secret gives: for auditors."""
        return [request_id for request_id, audited in rows if audited != self.is_drawn(request_id)]
