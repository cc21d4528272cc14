import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from dualmind.serving.limits import BodyLimits, Message, Receive, Scope, Send


async def echo(_: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def ask(chunks: Sequence[bytes | None], headers: Sequence[tuple[bytes, bytes]] = ()) -> tuple[int, bytes, int]:
    """Status, body of the answer, and how many chunks were read; a chunk that is None never comes."""
    read = 0
    sent: list[Message] = []

    async def receive() -> Message:
        nonlocal read
        chunk = chunks[read]
        if chunk is None:
            await asyncio.sleep(3600)
        read += 1
        return {"type": "http.request", "body": chunk, "more_body": read < len(chunks)}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: dict[str, Any] = {"type": "http", "headers": list(headers)}
    asyncio.run(BodyLimits(echo, max_bytes=10, limit_s=0.05)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], read


@pytest.mark.parametrize("chunks", [[b"abc"], [b"ab", b"c"], [b""], [b"0123456789"], [b"01234", b"56789"]])
def test_a_small_body_arrives_as_it_was_sent(chunks: list[bytes]) -> None:
    status, body, _ = ask(chunks)
    assert (status, body) == (200, b"".join(chunks))


def test_a_body_that_says_it_is_large_is_not_read() -> None:
    assert ask([b"a" * 11], [(b"content-length", b"11")])[::2] == (413, 0)
    assert ask([b"a"], [(b"content-length", b"-1")])[::2] == (413, 0)


def test_a_body_that_does_not_say_it_is_read_no_further_than_it_may_be() -> None:
    assert ask([b"a" * 6, b"a" * 6, b"a" * 6])[::2] == (413, 2)


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    assert ask([b"a", None])[0] == 408
