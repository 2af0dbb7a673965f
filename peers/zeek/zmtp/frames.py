"""The frames of ZMTP 3, and the messages that they make: a message is one frame or several, each with a part of it.

```
u8 flags: 1 more parts follow, 2 the length has 8 bytes, 4 a command      u8 or u64 length      body
```

Under the mechanism NULL, the frames of a message are the same bytes on every connection, so a message is passed on as
the slice that came. Under CURVE they stand in boxes, and are the same bytes once these are opened. A message that is
too long is refused by the header of the frame that would be too much. Cost: 0.3 µs a part.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from hub.errors import CloseCode, ProtocolError

PARTS_LIMIT = 64  # Most parts of a message. Those of Zeek have 4.
MORE = 1
LONG = 2
COMMAND = 4
LONG_HEADER = Struct(">BQ")
SHORT_HEADER_BYTES = 2
SHORT_LIMIT = 255
# Bytes that were taken are freed with the next read, more than this at once: a far side may send nothing more.
TAKEN_BYTES = 256 * 1024


class Message(NamedTuple):
    """A message as it came."""

    frames: bytes
    ends: tuple[int, ...]  # Of its frames
    starts: tuple[int, ...]  # Of the bodies of its frames

    @property
    def parts(self) -> list[bytes]:
        return [self.frames[start:end] for start, end in zip(self.starts, self.ends, strict=True)]


class Command(NamedTuple):
    """A command frame."""

    name: bytes
    data: bytes


def encode_frame(body: bytes, flags: int = 0) -> bytes:
    """Return one frame, in the shortest form, as libzmq does."""
    if len(body) > SHORT_LIMIT:
        return LONG_HEADER.pack(flags | LONG, len(body)) + body
    return bytes((flags, len(body))) + body


def encode_message(parts: list[bytes]) -> bytes:
    last = len(parts) - 1
    return b"".join([encode_frame(part, MORE if number < last else 0) for number, part in enumerate(parts)])


def encode_command(command: Command) -> bytes:
    return encode_frame(bytes((len(command.name),)) + command.name + command.data, COMMAND)


class Incoming:
    """Finds messages and commands in the input; `limit_bytes` may be changed between messages."""

    __slots__ = ("_ends", "_position", "_starts", "held", "limit_bytes", "start")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held = bytearray()  # bytes that were fed, from `start` on; not to be kept
        self.start = self._position = 0  # where the next message begins, and its next frame
        self._starts: list[int] = []  # relative to the beginning of the message
        self._ends: list[int] = []

    @property
    def held_bytes(self) -> int:
        return len(self.held) - self.start

    def feed(self, data: bytes) -> None:
        if self.start:
            self._let_go()
        self.held += data

    def go_to(self, position: int) -> None:
        self.start = self._position = position
        self._starts, self._ends = [], []
        if position > TAKEN_BYTES:
            self._let_go()

    def _let_go(self) -> None:
        del self.held[: self.start]
        self._position -= self.start
        self.start = 0

    def forget(self) -> None:
        self.held = bytearray()
        self.start = self._position = 0
        self._starts, self._ends = [], []

    def take(self, size: int) -> bytes:
        """Take at most `size` bytes that are no frame."""
        data = bytes(memoryview(self.held)[self.start : self.start + size])
        self.start += len(data)
        self._position = self.start
        return data

    def peek(self, size: int) -> bytes:
        return bytes(memoryview(self.held)[self.start : self.start + size])

    def open_more(self) -> bool:
        """Whether more input can be read by now; only where it is sealed."""
        return False

    def next_message(self) -> Message | Command | None:
        """Return the next message or command; None if it is not whole. Raises `ProtocolError`."""
        while (frame := self._next_frame()) is not None:
            flags, start, end = frame
            if len(self._ends) == PARTS_LIMIT:
                raise ProtocolError(CloseCode.TOO_BIG, f"ZMTP: a message of more than {PARTS_LIMIT} parts")
            self._position = end
            if flags & COMMAND:
                return self._command(start, end)
            self._starts.append(start - self.start)
            self._ends.append(end - self.start)
            if not flags & MORE:
                message = Message(
                    bytes(memoryview(self.held)[self.start : end]), tuple(self._ends), tuple(self._starts)
                )
                self.go_to(end)
                return message
        return None

    def _next_frame(self) -> tuple[int, int, int] | None:
        """Return flags, begin and end of the body of the frame at `_position`; None if it is not whole."""
        held, position = self.held, self._position
        there = len(held) - position
        if there < SHORT_HEADER_BYTES:
            if there and held[position] > (MORE | LONG | COMMAND):
                raise _bad_flags(held[position])
            return None
        flags = held[position]
        if flags > (MORE | LONG | COMMAND) or flags & (MORE | COMMAND) == MORE | COMMAND:
            raise _bad_flags(flags)
        if flags & LONG:
            if there < LONG_HEADER.size:
                return None
            length = LONG_HEADER.unpack_from(held, position)[1]
            start = position + LONG_HEADER.size
        else:
            length = held[position + 1]
            start = position + SHORT_HEADER_BYTES
        if start + length - self.start > self.limit_bytes:
            text = f"ZMTP: a message of {start + length - self.start} bytes or more, the limit is {self.limit_bytes}"
            raise ProtocolError(CloseCode.TOO_BIG, text)
        return (flags, start, start + length) if start + length <= len(held) else None

    def _command(self, start: int, end: int) -> Command:
        if self._ends:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "ZMTP: a command between the parts of a message")
        body = bytes(memoryview(self.held)[start:end])
        self.go_to(end)
        name_end = 1 + body[0] if body else 0
        if not 1 < name_end <= len(body):
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "ZMTP: a command without a name")
        return Command(body[1:name_end], body[name_end:])


def _bad_flags(flags: int) -> ProtocolError:
    return ProtocolError(
        CloseCode.PROTOCOL_ERROR, f"ZMTP: a frame with the flags {flags:#04x}, which there are none of"
    )
