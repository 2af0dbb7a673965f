"""What the websockets library leaves to its users: cutting reads, joining messages, telling why a conversation ended.

```
TEXT(fin) ─────────────────────▶ message
TEXT ─ CONT ─ PING ─ CONT(fin) ─▶ message, of the kind of its first frame
```

The library checks the order of frames, and that a message has at most `max_size` bytes. Owner of a `Fragments`: one
session, of a hub or a client. Invariants: at most one unfinished message is held, and a fragment costs no memory beside
its bytes. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from websockets.frames import Frame, Opcode
from websockets.protocol import CONNECTING, OPEN, Protocol

from hub.errors import CloseCode, ProtocolError

__all__ = ["FRAGMENTS_LIMIT", "End", "Fragments", "Message", "end_of", "pieces_of"]

FRAGMENTS_LIMIT: Final = 65_600
"""Most frames of one message: 4 MiB in frames of 64 bytes, which are the smallest that Autobahn's test suite tries,
and an empty one behind them. No limit of size counts an empty frame, though it costs its sender only 6 bytes and the
reader 5 µs."""


_PIECE_BYTES: Final = 16 * 1024
"""How much of a read the library is given at once."""


class Message(NamedTuple):
    """A whole message."""

    opcode: Opcode
    """TEXT or BINARY."""
    payload: bytes


class Fragments:
    """Puts messages together."""

    __slots__ = ("_begun", "_count", "_opcode", "_payload")

    _begun: int
    """How many messages of several frames have begun so far."""

    _payload: bytearray | None
    """The payload so far of a message whose last frame did not come yet. The first of several frames sets it; it is
    None between messages."""

    _opcode: Opcode
    """The kind of that message, which only its first frame tells; without a meaning between messages."""

    _count: int
    """How many frames of that message came so far; without a meaning between messages."""

    def __init__(self) -> None:
        self._begun = 0
        self._payload = None
        self._opcode = Opcode.TEXT
        self._count = 0

    @property
    def held_bytes(self) -> int:
        """How many bytes of an incomplete message are held."""
        return len(self._payload or b"")

    @property
    def unfinished(self) -> int:
        """The number of the message that is incomplete, from 1; 0 between messages."""
        return 0 if self._payload is None else self._begun

    def take(self, frame: Frame) -> Message | None:
        """Return the message that this frame completes; None for others, such as control frames.

        Raises:
            ProtocolError: The message has too many frames.
        """
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
    """Cut what was read into pieces that the library is given one by one.

    It takes all frames of a piece apart before the first one is acted on, which takes about 10 ms for frames of the
    smallest size (6 bytes): in between, others get their turn.
    """
    view = memoryview(data)
    return (view[start : start + _PIECE_BYTES] for start in range(0, len(data), _PIECE_BYTES))


class End(NamedTuple):
    """Why a conversation is over."""

    code: int
    """The code of the Close frame."""
    text: str
    """The reason in the Close frame."""
    by_far_side: bool
    """Whether the far side has sent it; False if only this side has."""


def end_of(protocol: Protocol) -> End | None:
    """Return what a Close frame has said, preferably the far side's; None while neither side has sent one."""
    if protocol.state is OPEN or protocol.state is CONNECTING:
        return None
    if protocol.close_rcvd is not None:
        return End(protocol.close_rcvd.code, protocol.close_rcvd.reason, by_far_side=True)
    if protocol.close_sent is not None:
        return End(protocol.close_sent.code, protocol.close_sent.reason, by_far_side=False)
    return None
