"""Hostile clients over HTTP: one answer each, bounded memory, and a quiet pair that does not notice."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_http import JSON, NDJSON, RawHttp, follow, http
from tests.hubs.raw_websocket import request
from tests.hubs.settings import settings_of

POST = request("/v1/publish/t", "POST", JSON, "Content-Length: 1")


class QuietPair:
    def __init__(self, publisher: RawHttp, reader: RawHttp) -> None:
        self._publisher = publisher
        self._reader = reader
        self._number = 0

    @classmethod
    async def at(cls, hub: Hub) -> QuietPair:
        return cls(await http(hub), await follow(hub, "prefix=/quiet"))

    async def talk(self) -> None:
        self._number += 1
        assert (await self._publisher.publish("/quiet", self._number)).status == 200
        assert await self._reader.values(1) == [self._number]


@pytest.mark.parametrize(
    "attack",
    [
        request("/v1/publish/t", "POST", JSON, "Content-Length: 1", "Transfer-Encoding: chunked") + b"0\r\n\r\n" + POST,
        request("/v1/publish/t", "POST", JSON, "Transfer-Encoding: chunked") + b"1\n1\n0\n\n" + POST,
        request("/v1/publish/t", "POST", JSON, "Transfer-Encoding: chunked") + b"2\r\n11" + POST,
        request("/v1/publish/t", "POST", JSON, "Transfer-Encoding: chunked") + b"0\r\nX: 1\n\r\n" + POST,
        request("/v1/publish/t", "POST", JSON, "Content-Length: 3") + b"{{{" + POST,
        request("/v1/events?prefix=/t", "GET", f"Content-Length: {len(POST)}") + POST,
        request("/readyz", "GET", f"Content-Length: {len(POST)}") + POST,
        request("/v1/publish/t", "POST", JSON, f"Content-Length: {len(POST)}", version="HTTP/1.0") + POST + b"1" + POST,
    ],
)
async def test_nothing_is_smuggled(hub: Hub, attack: bytes) -> None:
    pair, reader = await QuietPair.at(hub), await hub.websocket("/t")
    client = await http(hub)
    await client.send(attack, b"1")
    assert (await client.answer()).status >= 400
    await client.ends()
    await pair.talk()
    assert await reader.barrier() == []


async def test_requests_drop_by_drop(hub: Hub) -> None:
    pair = await QuietPair.at(hub)
    heads, bodies = [await http(hub) for _ in range(30)], [await http(hub) for _ in range(30)]
    for client in bodies:
        await client.send(request("/v1/publish/t", "POST", NDJSON, "Transfer-Encoding: chunked"))
    for byte in b'5\r\n"aaaaaaaaaaaa':
        for client in (*heads, *bodies):
            await client.send(b"G" if client in heads else bytes([byte]))
        await pair.talk()
    hub.later(6)  # nobody has said who he is within `limits.handshake_s`
    for client in heads:
        assert (await client.ends()).startswith(b"HTTP/1.1 408 ")
    await pair.talk()
    hub.later(21)
    await pair.talk()
    hub.later(11)
    for client in bodies:
        assert (await client.answer()).status in {400, 408}
    await pair.talk()


async def test_a_body_without_end(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(frame_bytes=200_000))
    pair = await QuietPair.at(hub)
    block = b"%x\r\n" % 50_000 + b" " * 50_000 + b"\r\n"
    for kind, status in ((JSON, 413), (NDJSON, 413)):
        client = await http(hub)
        await client.send(request("/v1/publish/t", "POST", kind, "Transfer-Encoding: chunked"))
        for _ in range(5):
            await client.send(block)
            await pair.talk()
        assert (await client.answer()).status == status
    client = await http(hub)
    lines = b"%x\r\n" % 40_000 + b'"' + b"x" * 39_997 + b'"\n' + b"\r\n"
    await client.send(request("/v1/publish/t", "POST", NDJSON, "Transfer-Encoding: chunked"), lines)
    tracemalloc.start()
    try:
        for _ in range(50):
            await client.send(lines)
            await pair.talk()
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
    await client.send(b"0\r\n\r\n")
    assert (await client.answer()).value == {"messages": 51}


async def test_a_flood_of_requests(hub: Hub) -> None:
    pair, client = await QuietPair.at(hub), await http(hub, receive_bytes=4096)
    await client.publish("/t", 1)
    hub.shrink_buffers()
    flood = request("/v1/publish/t", "POST", JSON, "Content-Length: 1") + b"1"
    connection = hub.connections[-1]
    sent = 0
    while connection.transport.is_reading():
        sent += client.send_nowait((flood * 50)[sent % len(flood) :])
        await pair.talk()
        assert connection.transport.get_write_buffer_size() < 400_000
    await pair.talk()
    while not connection.transport.is_reading():  # it is read, and so it goes on
        await client.answer()
