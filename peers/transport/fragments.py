"""Around the websockets library: splitting reads, joining fragments, and the reason of a close.

The library checks the order of frames and the size of messages (`max_size`). A session owns a `Fragments`, which holds
at most one unfinished message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from websockets.frames import Frame, Opcode
from websockets.protocol import CONNECTING, OPEN, Protocol

from hub.errors import CloseCode, ProtocolError

# Most frames of one message: 4 MiB in frames of 64 bytes, the smallest of Autobahn's tests, and an empty one.
FRAGMENTS_LIMIT: Final = 65_600
_PIECE_BYTES: Final = 16 * 1024  # Bytes of a read that the library parses at once


class Message(NamedTuple):
    """A whole message."""

    opcode: Opcode  # TEXT or BINARY
    payload: bytes


class Fragments:
    """Joins fragments."""

    __slots__ = ("_begun", "_count", "_opcode", "_payload")

    _opcode: Opcode

    _count: int

    def __init__(self) -> None:
        self._begun = 0  # Messages of several frames so far
        self._payload: bytearray | None = None  # The unfinished message; None between messages
        self._opcode = Opcode.TEXT
        self._count = 0

    @property
    def held_bytes(self) -> int:
        return len(self._payload or b"")

    @property
    def unfinished(self) -> int:
        """The number of the unfinished message, from 1; 0 between messages."""
        return 0 if self._payload is None else self._begun

    def take(self, frame: Frame) -> Message | None:
        """Return the message that this frame completes, or None."""
        match frame.opcode:
            case Opcode.TEXT | Opcode.BINARY:
                if frame.fin:
                    return Message(frame.opcode, bytes(frame.data))
                self._opcode, self._payload, self._count = frame.opcode, bytearray(frame.data), 1
                self._begun += 1
            case Opcode.CONT if self._payload is not None:
                self._count += 1
                if self._count > FRAGMENTS_LIMIT:
                    raise ProtocolError(CloseCode.TOO_BIG, f"a message of more than {FRAGMENTS_LIMIT} fragments")
                self._payload += frame.data
                if frame.fin:
                    payload, self._payload = bytes(self._payload), None
                    return Message(self._opcode, payload)
        return None


def pieces_of(data: bytes) -> Iterator[memoryview]:
    """Split a read into pieces for the library.

    It parses all frames of a piece before the first one is handled: about 10 ms for the smallest frames.
    """
    view = memoryview(data)
    return (view[start : start + _PIECE_BYTES] for start in range(0, len(data), _PIECE_BYTES))


class End(NamedTuple):
    """Why a connection was closed."""

    code: int
    text: str
    by_far_side: bool  # Whether the far side has sent a Close frame


def end_of(protocol: Protocol) -> End | None:
    """Return what a Close frame says, preferably that of the far side; None if there is none."""
    if protocol.state is OPEN or protocol.state is CONNECTING:
        return None
    if protocol.close_rcvd is not None:
        return End(protocol.close_rcvd.code, protocol.close_rcvd.reason, by_far_side=True)
    if protocol.close_sent is not None:
        return End(protocol.close_sent.code, protocol.close_sent.reason, by_far_side=False)
    return None
