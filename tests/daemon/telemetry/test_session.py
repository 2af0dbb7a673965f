"""What a collector answers: its status counts, and no more of it is taken than is worth it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from typing import Any

import pytest
from requests.exceptions import TooManyRedirects

from peers.daemon.telemetry.otlp import Otlp, otlp_exporter
from peers.daemon.telemetry.session import ANSWER_BYTES, bounded_session
from tests.daemon.telemetry.collector import LoopbackCollector, collecting
from tests.daemon.telemetry.test_otlp import span
from tests.hubs.eventually import eventually

LARGE_BYTES = 64 * 1024 * 1024
"""More than the sockets of loopback hold."""


async def sent(collector: LoopbackCollector, times: int = 1) -> list[bool]:
    """Send a span to a collector, so many times; return whether it was taken."""
    otlp = Otlp(otlp_exporter(collector.url, {"x-key": "secret"}, 5.0), "hub", "1")
    taken = [await asyncio.to_thread(otlp.send, [span()]) for _ in range(times)]
    await asyncio.to_thread(otlp.close)
    return taken


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "304 Not Modified", "307 Temporary", "308 Permanent"])
async def test_a_redirect_is_a_failure(status: str) -> None:
    """The spans have arrived nowhere; and where the answer points to gets nothing, as it would get the headers."""
    async with (
        collecting() as elsewhere,
        collecting(status=status, more=f"location: {elsewhere.url}\r\ncontent-length: 0") as collector,
    ):
        assert await sent(collector) == [False]
        assert (collector.requests, elsewhere.requests) == (1, 0)


async def test_a_large_answer_is_not_read() -> None:
    """What it says so far is enough: the span is taken, and the connection closed."""
    async with collecting(more=f"content-length: {LARGE_BYTES}", body=bytes(LARGE_BYTES)) as collector:
        assert await sent(collector, 2) == [True, True]
        assert (collector.connections, len(collector.spans)) == (2, 2)
        assert collector.sent_bytes < LARGE_BYTES


async def test_an_answer_without_an_end_is_not_read() -> None:
    """One that does not say how long it is might go on for ever."""
    async with collecting(more="transfer-encoding: chunked", body=b"1\r\nx\r\n" * 100_000) as collector:
        assert await sent(collector) == [True]


async def test_a_short_answer_keeps_the_connection() -> None:
    """It is what collectors say as a rule."""
    async with collecting(more="content-length: 2", body=b"{}") as collector:
        assert await sent(collector, 3) == [True] * 3
        assert (collector.connections, collector.sent_bytes) == (1, 6)


def bodies() -> list[Any]:
    """Answers, with their heads, and what is kept of them."""
    packed = gzip.compress(bytes(1_000_000))
    assert len(packed) < ANSWER_BYTES
    return [
        pytest.param(b"x" * ANSWER_BYTES, f"content-length: {ANSWER_BYTES}", b"x" * ANSWER_BYTES, id="short"),
        pytest.param(b"x" * ANSWER_BYTES, f"content-length: {ANSWER_BYTES + 1}", b"", id="long"),
        pytest.param(packed, f"content-encoding: gzip\r\ncontent-length: {len(packed)}", b"", id="packed"),
        pytest.param(b"x", "content-length: " + "0" * 100 + "1", b"", id="odd length"),
        pytest.param(b"x", "x: y", b"", id="no length"),
    ]


@pytest.mark.parametrize(("body", "more", "kept"), bodies())
@pytest.mark.parametrize("status", ["200 OK", "400 Bad"])
async def test_what_is_kept(body: bytes, more: str, kept: bytes, status: str) -> None:
    """A short answer as it came; nothing of another one, and nothing is unpacked."""
    async with collecting(status=status, more=more, body=body) as collector:
        post: Callable[..., Any] = bounded_session().post
        answer = await asyncio.to_thread(post, collector.url, b"", timeout=5.0)
        assert answer.content == kept
        assert f"{answer.status_code} {answer.reason}" == status


async def test_a_redirect_is_told_with_its_number() -> None:
    """That stands in the log as the reason."""
    async with collecting(status="308 Elsewhere", more="location: /x\r\ncontent-length: 0") as collector:
        with pytest.raises(TooManyRedirects, match="it answers 308, and redirects are not followed"):
            await asyncio.to_thread(bounded_session().post, collector.url, b"", timeout=5.0)
        await eventually(lambda: collector.requests == 1)
