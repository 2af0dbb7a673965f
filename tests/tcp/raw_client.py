"""A client that speaks frames over a socket of its own, and reads only when it is asked to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from hub.batch import Batch, decode_values
from hub.frame import HEADER, HEADER_BYTES, Frame, encode_frame
from peers.transport.endpoints import Endpoint, Scheme
from peers.wire.control import Notice, decode_close, decode_notice, encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind

READ_BYTES = 256 * 1024


def publication(topic: str, *values: Any) -> bytes:
    """One MESSAGES frame."""
    return Batch.of(topic, values).frames


def numbered(topic: str, numbers: range, *, padding: int = 0, together: int = 1) -> bytes:
    """Frames of numbers, with so many bytes beside each; `together` of them in a frame."""
    values = [[number, bytes(padding)] for number in numbers]
    starts = range(0, len(values), together)
    return b"".join(publication(topic, *values[start : start + together]) for start in starts)


@dataclass(frozen=True)
class Gap:
    """So many messages were lost here."""

    messages: int


class RawClient:
    """One socket. Nothing is read until a method asks for it: a client that asks for nothing is stalled."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._requests = 0

    @classmethod
    async def connect(cls, endpoint: Endpoint, *, receive_bytes: int | None = None) -> RawClient:
        """Connect, and say nothing.

        Args:
            endpoint: Where the hub listens.
            receive_bytes: Size of the receive buffer, as asked for.
        """
        family = socket.AF_UNIX if endpoint.scheme is Scheme.UNIX else socket.AF_INET
        sock = socket.socket(family)
        sock.setblocking(False)
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        address = endpoint.path if endpoint.scheme is Scheme.UNIX else (endpoint.host, endpoint.port)
        await asyncio.get_running_loop().sock_connect(sock, address)
        return cls(sock)

    # Speaking.

    async def send(self, *frames: bytes) -> None:
        """Write it all; waits while the hub does not read."""
        await self._loop.sock_sendall(self._sock, b"".join(frames))

    async def greet(self, **fields: Any) -> Hello:
        """Say HELLO as a client, unless `fields` say otherwise; return the hub's."""
        said: dict[str, Any] = {"protocol": 1, "role": "client"} | fields
        await self.send(Hello(**said).encode())
        frame = await self.frame()
        assert frame.kind == Kind.HELLO, frame
        return Hello.decode(frame.body)

    async def subscribe(self, *prefixes: str) -> list[Frame]:
        """Subscribe and wait for the confirmation; return what came before it."""
        return await self._change(Kind.SUBSCRIBE, prefixes)

    async def unsubscribe(self, *prefixes: str) -> list[Frame]:
        """Unsubscribe and wait for the confirmation; return what came before it."""
        return await self._change(Kind.UNSUBSCRIBE, prefixes)

    async def _change(self, kind: Kind, prefixes: tuple[str, ...]) -> list[Frame]:
        self._requests += 1
        await self.send(encode_subscription(kind, list(prefixes), self._requests))
        before: list[Frame] = []
        async for frame in self.frames():
            if frame.kind == Kind.NOTICE:
                notice = decode_notice(frame.body)  # with a journal it says where that stands, too
                if (notice.kind, notice.request) == ("confirmed", self._requests):
                    return before
            before.append(frame)
        raise AssertionError(f"no confirmation, but {before}")

    async def publish(self, topic: str, *values: Any) -> None:
        """Send one frame."""
        await self.send(publication(topic, *values))

    async def ping(self, body: bytes = b"barrier") -> list[Frame]:
        """Wait until the hub has acted on all that was sent; return what came before the answer."""
        await self.send(encode_frame(Kind.PING, body))
        before: list[Frame] = []
        async for frame in self.frames():
            if frame == Frame(Kind.PONG, 0, b"", body):
                return before
            before.append(frame)
        raise AssertionError(f"no answer to PING, but {before}")

    # Listening.

    async def frame(self) -> Frame:
        """Return the next frame.

        Raises:
            EOFError: The hub has closed, in order.
            ConnectionResetError: It has not.
        """
        while True:
            if len(self._buffer) >= HEADER_BYTES:
                body_bytes, kind, flags, key_bytes = HEADER.unpack_from(self._buffer)
                start, end = HEADER_BYTES + key_bytes, HEADER_BYTES + key_bytes + body_bytes
                if len(self._buffer) >= end:
                    frame = Frame(kind, flags, bytes(self._buffer[HEADER_BYTES:start]), bytes(self._buffer[start:end]))
                    del self._buffer[:end]
                    return frame
            data = await self._loop.sock_recv(self._sock, READ_BYTES)
            if not data:
                raise EOFError(f"{len(self._buffer)} bytes of an incomplete frame")
            self._buffer += data

    async def frames(self) -> AsyncIterator[Frame]:
        """All frames until the hub closes."""
        with contextlib.suppress(EOFError):
            while True:
                yield await self.frame()
        assert not self._buffer, "the stream ends within a frame"

    async def values(self, count: int) -> list[tuple[str, Any]]:
        """Read messages until there are so many values; topic and value of each. Anything else is an error."""
        found: list[tuple[str, Any]] = []
        while len(found) < count:
            frame = await self.frame()
            assert frame.kind == Kind.MESSAGES, frame
            found += [(frame.key.decode(), value) for value in decode_values(frame)]
        assert len(found) == count
        return found

    async def numbers_and_gaps(self, stop: int, start: int = 0) -> list[int | Gap]:
        """Read messages numbered from `start` to `stop` and notices of lost ones, until all are told or the hub closes.

        Each gap must stand exactly where the numbers are missing, and say how many.
        """
        found: list[int | Gap] = []
        expected = start
        while expected < stop:
            frame = await self.frame()
            if frame.kind == Kind.CLOSE:
                self._buffer[:0] = encode_frame(frame.kind, frame.body)
                break
            if frame.kind == Kind.NOTICE:
                notice = decode_notice(frame.body)
                assert notice == Notice("dropped", count=notice.count), notice
                assert notice.count > 0
                found.append(Gap(notice.count))
                expected += notice.count
                continue
            for number, _ in decode_values(frame):
                assert number == expected, f"{number} where {expected} should stand"
                found.append(number)
                expected += 1
        assert expected <= stop
        return found

    async def notice(self) -> Notice:
        """Read a frame that must be a notice."""
        frame = await self.frame()
        assert frame.kind == Kind.NOTICE, frame
        return decode_notice(frame.body)

    async def end(self) -> tuple[int, str]:
        """Read to the end of the stream, which must be a CLOSE; return what it says."""
        last = None
        async for frame in self.frames():
            assert last is None or last.kind != Kind.CLOSE, "a frame behind CLOSE"
            last = frame
        assert last is not None, "no frame before the end"
        assert last.kind == Kind.CLOSE, last
        return decode_close(last.body)

    # Leaving.

    def finish(self) -> None:
        """Send no more, but read on."""
        self._sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Go without a word: the hub's side is reset."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self._sock.close()

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()
