"""`Receiver`: the receiving end of one connection during a run. It reads, and checks everything it reads.

`PlainReceiver` compares what comes from a TCP connection with its stream; `WebSocketReceiver` takes the content out of
the frames first. Where several publishers' streams come interleaved, see `generators.interleaved`.

Owner: the engine. Invariant: what was counted was right, in order and complete. Whatever is not the next message and
not something that may come at any time raises `WrongBytesError`.
"""

from __future__ import annotations

import socket
from typing import Protocol

from generators.dialect import Dialect
from generators.stream import READ_BYTES, Stream, payload_number
from generators.websocket import CLOSE, DATA, frame_head

__all__ = ["Checker", "PlainReceiver", "Receiver", "WebSocketReceiver", "WrongBytesError"]

_CONTROL_LIMIT_BYTES = 64 * 1024
"""What may come at any time (pings, notices) is smaller than this."""

_BUFFER = memoryview(bytearray(READ_BYTES))
"""There is one for all, as what was read is dealt with at once."""


class WrongBytesError(Exception):
    """A message was lost, came twice, in the wrong order, or damaged."""


class Receiver(Protocol):
    """What the engine reads with."""

    socket: socket.socket

    def receive(self) -> int:
        """Read once, without waiting; return how many bytes came.

        Raises:
            WrongBytesError: They are not what had to come.
            ConnectionError: The broker has closed.
        """

    def messages(self, publisher: int) -> int:
        """Return how many messages of a publisher have come, all of them right."""


class Checker:
    """Compares bytes, however they are cut, with a stream."""

    __slots__ = ("_dialect", "_held", "_stream", "position")

    def __init__(self, stream: Stream, dialect: Dialect) -> None:
        self._stream = stream
        self._dialect = dialect
        self._held = b""  # beginning of something that is no message
        self.position = 0

    def feed(self, data: memoryview | bytes) -> None:
        """Take the next bytes.

        Raises:
            WrongBytesError: They are not what had to come.
        """
        if not self._held and self._stream.matches(data, self.position):
            self.position += len(data)
        else:
            self._feed_odd(self._held + bytes(data))

    @property
    def messages(self) -> int:
        """Return how many have come."""
        return self._stream.messages(self.position)

    def _feed_odd(self, data: bytes) -> None:
        """Look for something between the messages that may be there, and go on behind it."""
        stream = self._stream
        self._held = b""
        while data:
            same = stream.common_bytes(data, self.position)
            self.position += same
            data = data[same:]
            if not data:
                return
            # Its first bytes may have looked like those of the next message.
            back = self.position % stream.unit_bytes
            self.position -= back
            data = stream.cut_out(self.position, back) + data
            size = self._dialect.control_bytes(data)
            if size < 0 or (size == 0 and len(data) > _CONTROL_LIMIT_BYTES):
                raise WrongBytesError(self._difference(data))
            if size == 0 or size > len(data):
                self._held = data
                return
            data = data[size:]

    def _difference(self, data: bytes) -> str:
        stream = self._stream
        expected = stream.cut_out(self.position, stream.unit_bytes)
        wanted = payload_number(expected, stream.payload_offset)
        got = payload_number(data, stream.payload_offset)
        place = f"behind {self.messages:,} messages: "
        if wanted is not None and got is not None and wanted != got:
            return place + f"number {wanted:,} had to come, {got:,} came (numbers repeat)"
        return place + f"{expected[:80]!r} had to come, {data[:80]!r} came"


class PlainReceiver:
    """A TCP connection that one publisher's messages come from."""

    __slots__ = ("_checker", "socket")

    def __init__(self, connection: socket.socket, stream: Stream, dialect: Dialect) -> None:
        self.socket = connection
        self._checker = Checker(stream, dialect)

    def receive(self) -> int:
        """Read once and check."""
        try:
            size = self.socket.recv_into(_BUFFER)
        except BlockingIOError:  # with TLS: a part of a record
            return 0
        if not size:
            raise ConnectionError("the broker closed a subscriber's connection")
        self._checker.feed(_BUFFER[:size])
        return size

    def messages(self, publisher: int) -> int:  # noqa: ARG002 -- there is one
        """Return how many have come."""
        return self._checker.messages


class WebSocketReceiver:
    """A WebSocket connection that one publisher's messages come from."""

    __slots__ = ("_checker", "_content", "_held", "socket")

    def __init__(self, connection: socket.socket, stream: Stream, dialect: Dialect) -> None:
        self.socket = connection
        self._checker = Checker(stream, dialect)
        self._content = dialect.content
        self._held = b""  # beginning of a frame

    def receive(self) -> int:
        """Read once, take the content out of complete frames, check it."""
        size = self.socket.recv_into(_BUFFER)
        if not size:
            raise ConnectionError("the broker closed a subscriber's connection")
        data = memoryview(self._held + _BUFFER[:size]) if self._held else _BUFFER[:size]
        position, end = 0, len(data)
        while (head := frame_head(data, position)) is not None:
            start = position + head.head_bytes
            stop = start + head.payload_bytes
            if stop > end:
                break
            if head.opcode in DATA:
                self._checker.feed(self._content(data[start:stop]))
            elif head.opcode == CLOSE:
                raise ConnectionError(f"the broker closed: {bytes(data[start:stop])!r}")
            position = stop
        self._held = bytes(data[position:])
        return size

    def messages(self, publisher: int) -> int:  # noqa: ARG002 -- there is one
        """Return how many have come."""
        return self._checker.messages
