"""A client that speaks frames over a socket of its own, and reads only when it is asked to."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any, Self

from hub.messages.batch import Batch, decode_values
from hub.messages.frame import HEADER, HEADER_BYTES, Frame, encode_frame
from peers.transport.endpoints import Endpoint
from peers.wire.control import Notice, decode_close, decode_notice, encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from tests.hubs.raw_socket import Gap, RawSocket


def publication(topic: str, *values: Any) -> bytes:
    return Batch.of(topic, values).frames


def numbered(topic: str, numbers: range, *, padding: int = 0, together: int = 1) -> bytes:
    values = [[number, bytes(padding)] for number in numbers]
    starts = range(0, len(values), together)
    return b"".join(publication(topic, *values[start : start + together]) for start in starts)


class RawClient(RawSocket):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._requests = 0

    # Speaking.

    async def greet(self, **fields: Any) -> Hello:
        said: dict[str, Any] = {"protocol": 1, "role": "client"} | fields
        await self.send(Hello(**said).encode())
        frame = await self.frame()
        assert frame.kind == Kind.HELLO, frame
        return Hello.decode(frame.body)

    async def subscribe(self, *prefixes: str) -> list[Frame]:
        return await self._change(Kind.SUBSCRIBE, prefixes)

    async def unsubscribe(self, *prefixes: str) -> list[Frame]:
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
        await self.send(publication(topic, *values))

    async def ping(self, body: bytes = b"barrier") -> list[Frame]:
        await self.send(encode_frame(Kind.PING, body))
        before: list[Frame] = []
        async for frame in self.frames():
            if frame == Frame(Kind.PONG, 0, b"", body):
                return before
            before.append(frame)
        raise AssertionError(f"no answer to PING, but {before}")

    # Listening.

    async def barrier(self) -> list[Frame]:
        return await self.ping()

    async def frame(self) -> Frame:
        """Return the next frame."""
        while True:
            if len(self._buffer) >= HEADER_BYTES:
                body_bytes, kind, flags, key_bytes = HEADER.unpack_from(self._buffer)
                start, end = HEADER_BYTES + key_bytes, HEADER_BYTES + key_bytes + body_bytes
                if len(self._buffer) >= end:
                    frame = Frame(kind, flags, bytes(self._buffer[HEADER_BYTES:start]), bytes(self._buffer[start:end]))
                    del self._buffer[:end]
                    return frame
            await self.read()

    async def frames(self) -> AsyncIterator[Frame]:
        with contextlib.suppress(EOFError):
            while True:
                yield await self.frame()
        assert not self._buffer, "the stream ends within a frame"

    async def values(self, count: int) -> list[tuple[str, Any]]:
        """Read messages until there are so many values; topic and value of each. Anything else is an error.

        But for a PING, which is answered: it comes where this client has said nothing for long, on a busy machine.
        """
        found: list[tuple[str, Any]] = []
        while len(found) < count:
            frame = await self.frame()
            if frame.kind == Kind.PING:
                await self.send(encode_frame(Kind.PONG, frame.body))
                continue
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
        frame = await self.frame()
        assert frame.kind == Kind.NOTICE, frame
        return decode_notice(frame.body)

    async def end(self) -> tuple[int, str]:
        last = None
        async for frame in self.frames():
            assert last is None or last.kind != Kind.CLOSE, "a frame behind CLOSE"
            last = frame
        assert last is not None, "no frame before the end"
        assert last.kind == Kind.CLOSE, last
        return decode_close(last.body)


class SecuredClient(RawClient):
    """A socket on which frames are spoken behind TLS. It believes any certificate."""

    async def shake_hands(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._secured = context.wrap_bio(self._incoming, self._outgoing)
        while True:
            try:
                self._secured.do_handshake()
                break
            except ssl.SSLWantReadError:
                await super().send(self._outgoing.read())
                self._incoming.write(await super()._receive())
        await super().send(self._outgoing.read())

    @classmethod
    async def connect(cls, endpoint: Endpoint, *, receive_bytes: int | None = None) -> Self:
        client = await super().connect(endpoint, receive_bytes=receive_bytes)
        await client.shake_hands()
        return client

    async def send(self, *data: bytes) -> None:
        self._secured.write(b"".join(data))
        await super().send(self._outgoing.read())

    async def _receive(self) -> bytes:
        while True:
            try:
                return self._secured.read(1 << 20)
            except ssl.SSLWantReadError:
                came = await super()._receive()
                if not came:
                    return b""
                self._incoming.write(came)
            except ssl.SSLZeroReturnError:
                return b""
