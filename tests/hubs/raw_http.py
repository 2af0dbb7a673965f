"""A client that publishes and follows over plain HTTP, on a socket of its own, and reads only when it is asked to."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from peers.transport.endpoints import Endpoint
from tests.hubs.hub import Hub
from tests.hubs.raw_socket import RawSocket
from tests.hubs.raw_websocket import request

__all__ = ["Answer", "Event", "RawHttp", "follow", "http"]
JSON = "Content-Type: application/json"
NDJSON = "Content-Type: application/x-ndjson"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)


class Event(NamedTuple):
    name: str
    value: Any
    id: int | None = None  # The offset of its record
    last_id: str = ""  # With the epoch, as it came


class RawHttp(RawSocket):
    async def ask(self, method: str, path: str, *lines: str, body: bytes | None = None) -> Answer:
        length = () if body is None else (f"Content-Length: {len(body)}",)
        await self.send(request(path, method, *lines, *length), body or b"")
        return await self.answer()

    async def publish(self, path: str, value: Any, *lines: str) -> Answer:
        return await self.ask("POST", f"/v1/publish{path}", JSON, *lines, body=json.dumps(value).encode())

    async def publish_lines(self, path: str, body: bytes, *lines: str) -> Answer:
        return await self.ask("POST", f"/v1/publish{path}", NDJSON, *lines, body=body)

    async def head(self) -> tuple[int, dict[str, str]]:
        text = (await self._until(b"\r\n\r\n")).decode("latin-1")
        first, *lines = text.split("\r\n")
        return int(first.split()[1]), dict(line.split(": ", 1) for line in lines)

    async def answer(self) -> Answer:
        status, headers = await self.head()
        size = int(headers.get("Content-Length", "0"))
        while len(self._buffer) < size:
            await self.read()
        body = bytes(self._buffer[:size])
        del self._buffer[:size]
        return Answer(status, headers, body)

    async def event(self) -> Event:
        while True:
            lines = (await self._until(b"\n\n")).decode().split("\n")
            fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
            if fields:
                last_id = fields.get("id", "")
                number = last_id.rpartition("-")[2]
                name = fields.get("event", "message")
                return Event(name, json.loads(fields["data"]), int(number) if number else None, last_id)

    async def values(self, count: int) -> list[Any]:
        found = []
        for _ in range(count):
            event = await self.event()
            assert event.name == "message", event
            found.append(event.value["value"])
        return found

    async def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            await self.read()
        found, _, rest = bytes(self._buffer).partition(end)
        self._buffer = bytearray(rest)
        return found

    async def ends(self) -> bytes:
        try:
            while True:
                await self.read()
        except EOFError:
            return bytes(self._buffer)


async def http(hub: Hub, endpoint: Endpoint | None = None, *, receive_bytes: int | None = None) -> RawHttp:
    return await hub._dialled_in(RawHttp, endpoint, receive_bytes)


async def follow(
    hub: Hub, query: str, *lines: str, endpoint: Endpoint | None = None, receive_bytes: int | None = None
) -> RawHttp:
    client = await http(hub, endpoint, receive_bytes=receive_bytes)
    await client.send(request(f"/v1/events?{query}", "GET", *lines))
    status, headers = await client.head()
    assert (status, headers["Content-Type"]) == (200, "text/event-stream"), client._buffer
    return client
