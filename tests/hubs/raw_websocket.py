"""A client that speaks HTTP and WebSocket frames over a socket of its own, and reads only when it is asked to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from typing import Any, NamedTuple

import msgspec
from websockets.frames import Opcode
from websockets.speedups import apply_mask

from hub.handlers.handler import Handler
from tests.hubs.raw_client import RawClient
from tests.hubs.raw_socket import RawSocket

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
MASK = b"\x12\x34\x56\x78"


def request(path: str = "/v1/hub", method: str = "GET", *lines: str, version: str = "HTTP/1.1") -> bytes:
    return "\r\n".join((f"{method} {path} {version}", "Host: 127.0.0.1:7401", *lines, "", "")).encode("latin-1")


def upgrade(subprotocol: str = "hub.v1.json", *lines: str, path: str = "/v1/hub") -> bytes:
    return request(
        path,
        "GET",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {KEY}",
        "Sec-WebSocket-Version: 13",
        *((f"Sec-WebSocket-Protocol: {subprotocol}",) if subprotocol else ()),
        *lines,
    )


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, reserved: int = 0, masked: bool = True) -> bytes:
    first = (0x80 if fin else 0) | reserved << 4 | opcode
    mask_bit = 0x80 if masked else 0
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", first, mask_bit | size)
    elif size < 65536:
        head = struct.pack(">BBH", first, mask_bit | 126, size)
    else:
        head = struct.pack(">BBQ", first, mask_bit | 127, size)
    return head + (MASK + apply_mask(payload, MASK) if masked else payload)


def text(message: Any) -> bytes:
    return frame(Opcode.TEXT, json.dumps(message).encode())


def binary(message: Any) -> bytes:
    return frame(Opcode.BINARY, msgspec.msgpack.encode(message))


def decode(opcode: int, payload: bytes) -> Any:
    return json.loads(payload) if opcode == Opcode.TEXT else msgspec.msgpack.decode(payload)


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class RawWebSocket(RawSocket):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._encode = text

    # Speaking.

    async def turn(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def shake_hands(self, subprotocol: str = "hub.v1.json", *lines: str) -> None:
        await self.send(upgrade(subprotocol, *lines))
        head = await self.head()
        assert head.startswith(b"HTTP/1.1 101 "), head
        assert f"Sec-WebSocket-Protocol: {subprotocol}".encode() in head
        assert b"Sec-WebSocket-Extensions" not in head
        self._encode = text if subprotocol == "hub.v1.json" else binary

    async def say(self, type_: str, **fields: Any) -> None:
        await self.send(self._encode({"type": type_} | fields))

    async def publish(self, topic: str, *values: Any) -> None:
        await self.say("publish", topic=topic, values=list(values))

    async def barrier(self) -> list[dict[str, Any]]:
        await self.say("ping", request=987)
        before = []
        while (message := await self.message()) != {"type": "pong", "request": 987}:
            before.append(message)
        return before

    # Listening.

    async def head(self) -> bytes:
        while b"\r\n\r\n" not in self._buffer:
            await self.read()
        head, _, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        self._buffer = bytearray(rest)
        return head

    async def response(self) -> Response:
        first, *lines = (await self.head()).decode("latin-1").split("\r\n")
        body = await self.rest()
        headers = dict(line.split(": ", 1) for line in lines)
        return Response(int(first.split()[1]), headers, body)

    async def rest(self) -> bytes:
        with contextlib.suppress(EOFError):
            while True:
                await self.read()
        return bytes(self._buffer)

    async def frame(self) -> tuple[int, bytes]:
        while True:
            found = self._cut_frame()
            if found is not None:
                return found
            await self.read()

    def _cut_frame(self) -> tuple[int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, size = buffer[0], buffer[1]
        assert first & 0xF0 == 0x80, "not final, or reserved bits"
        assert size < 0x80, "masked"
        start = {126: 4, 127: 10}.get(size, 2)
        if len(buffer) < start:
            return None
        size = int.from_bytes(buffer[2:start], "big") if start > 2 else size
        if len(buffer) < start + size:
            return None
        payload = bytes(buffer[start : start + size])
        del buffer[: start + size]
        return first & 0x0F, payload

    async def message(self) -> dict[str, Any]:
        while True:
            opcode, payload = await self.frame()
            if opcode in {Opcode.TEXT, Opcode.BINARY}:
                found: dict[str, Any] = decode(opcode, payload)
                return found
            assert opcode in {Opcode.PING, Opcode.PONG}, (opcode, payload)

    async def messages(self, count: int) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        while len(found) < count:
            message = await self.message()
            assert message["type"] == "messages", message
            found += [(message["topic"], value) for value in message["values"]]
        assert len(found) == count
        return found

    async def end(self) -> tuple[int, str]:
        last: tuple[int, bytes] = (-1, b"")
        try:
            while True:
                last = await self.frame()
        except EOFError:
            assert not self._buffer, "the stream ends within a frame"
        opcode, payload = last
        assert opcode == Opcode.CLOSE, last
        return int.from_bytes(payload[:2], "big"), payload[2:].decode()


async def flood(
    publisher: RawWebSocket | RawClient, handler: Handler, total: int, *, start: int = 0, together: int = 1
) -> int:
    """Publish numbered kilobytes under /flood until `total` of them came after `handler` had stopped taking any.

    In chunks with a barrier behind each, so that the socket of the handler is full before the end.
    """
    padding = "x" * 1000
    end = start
    while total > 0 and not handler.closed:
        chunk = range(end, end + 42)
        for first in range(chunk.start, chunk.stop, together):
            values = [[number, padding] for number in range(first, min(first + together, chunk.stop))]
            await publisher.publish("/flood", *values)
        await publisher.barrier()
        end = chunk.stop
        if not handler.writable:
            total -= len(chunk)
    return end
