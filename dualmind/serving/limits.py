"""Refuses bodies that are too large or too slow before anything else reads them."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class BodyLimits:
    """ASGI middleware: a whole body arrives in time and is small, or the application never sees the request."""

    def __init__(self, app: App, max_bytes: int, limit_s: float) -> None:
        """Args are the application, bytes of a body at most, and seconds until it must be there."""
        self._app, self._max_bytes, self._limit_s = app, max_bytes, limit_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self._max_bytes:
            await _refuse(
                send, 413, f"the body has {declared.decode('latin-1')[:20]} bytes, more than {self._max_bytes}"
            )
            return
        try:
            body = await asyncio.wait_for(self._read(receive), self._limit_s)
        except TimeoutError:
            await _refuse(send, 408, f"the body did not arrive within {self._limit_s:g} s")
            return
        if body is None:
            return  # the client is gone
        if len(body) > self._max_bytes:
            await _refuse(send, 413, f"the body has more than {self._max_bytes} bytes")
            return
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    async def _read(self, receive: Receive) -> bytes | None:
        body = b""
        while len(body) <= self._max_bytes:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        return body


async def _refuse(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # what is left of the body is never read
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
