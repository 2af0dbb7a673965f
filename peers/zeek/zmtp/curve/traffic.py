"""`Traffic`: the boxes of a CURVE connection whose handshake is done, one for each frame, both ways.

```
frame, as under NULL:   u8 flags  length  body
in a box:               frame header  u8 7 "MESSAGE"  8 nonce  box of: u8 flags (1 more, 2 a command), body
```

So everybody else reads and writes frames as they are under the mechanism NULL.

Owner: one connection. Invariants: a number is used once, and those of the far side grow, so that no box is taken twice,
or in another order; what does not open changes nothing.

Cost: a box takes 0.5 µs to seal or to open; in Python 2.7 and 4 µs, with what finds it.
Unlike all else that is sent to nodes, it is paid for each of them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from nacl.bindings import crypto_box_afternm, crypto_box_open_afternm
from nacl.exceptions import CryptoError

from hub.errors import CloseCode, ProtocolError
from peers.zeek.zmtp.frames import (
    COMMAND,
    LONG,
    LONG_HEADER,
    MORE,
    SHORT_HEADER_BYTES,
    SHORT_LIMIT,
    TAKEN_BYTES,
    Incoming,
)

NUMBER: Final = Struct(">Q")
"""A short nonce."""

BOX_BYTES: Final = 16
"""By which a box is longer than what is in it."""

_MESSAGE: Final = b"\x07MESSAGE"
_NUMBER_AT: Final = len(_MESSAGE)
_BOX_AT: Final = _NUMBER_AT + NUMBER.size
_LEAST_BYTES: Final = _BOX_AT + BOX_BYTES + 1

SEALED_BYTES: Final = _LEAST_BYTES
"""By which the body of a frame grows in its box."""

_FROM_CLIENT: Final = b"CurveZMQMESSAGEC"
_FROM_SERVER: Final = b"CurveZMQMESSAGES"

# Flags of a frame as they stand in a box, and the other way round.
_INNER: Final = {flags: bytes((flags & MORE | (flags & COMMAND) >> 1,)) for flags in range(8)}
_OUTER: Final = {0: 0, 1: MORE, 2: COMMAND}

# Flags within a box, and the length of a short frame → its header.
_SHORT_HEADERS: Final = [[bytes((_OUTER[flags], length)) for length in range(SHORT_LIMIT + 1)] for flags in range(3)]

# The size of a short box → header of its frame, with the name behind it.
_SHORT_BOXES: Final = [bytes((0, size)) + _MESSAGE for size in range(SHORT_LIMIT + 1)]


def seal_in_python(frames: bytes, number: int, prefix: bytes, key: bytes, function: int) -> tuple[bytes, int]:  # noqa: ARG001 -- as the twin has it
    """Return whole frames in boxes, and the last number that was used; `_zmtp.pyx` has a compiled twin."""
    # Local names, and no calls that can be spared: this is paid for every frame to every node.
    seal, pack = crypto_box_afternm, NUMBER.pack
    parts: list[bytes] = []
    add = parts.append
    position, end = 0, len(frames)
    while position < end:
        flags = frames[position]
        if flags & LONG:
            start = position + LONG_HEADER.size
            position = start + LONG_HEADER.unpack_from(frames, position)[1]
        else:
            start = position + SHORT_HEADER_BYTES
            position = start + frames[start - 1]
        number += 1
        short = pack(number)
        box = seal(_INNER[flags] + frames[start:position], prefix + short, key)
        size = _BOX_AT + len(box)
        add(_SHORT_BOXES[size] if size <= SHORT_LIMIT else LONG_HEADER.pack(LONG, size) + _MESSAGE)
        add(short)
        add(box)
    return b"".join(parts), number


# The twin calls libsodium where PyNaCl has it, so it is linked with nothing.
_SEALER = _OPENER = 0
try:
    from nacl._sodium import ffi, lib

    from peers.zeek.zmtp._zmtp import open_frames, seal_frames

    _SEALER = int(ffi.cast("uintptr_t", ffi.addressof(lib, "crypto_box_easy_afternm")))
    _OPENER = int(ffi.cast("uintptr_t", ffi.addressof(lib, "crypto_box_open_easy_afternm")))
except (ImportError, AttributeError):  # not built: no compiler was there; or PyNaCl has it elsewhere
    seal_frames = seal_in_python

BOXES_AT_ONCE: Final = 64 if _OPENER else 2
"""Boxes that are opened for one event of a session. Events that come together are sealed together for each reader, so
few are dear; but in Python two take 8 µs."""


class Traffic:
    """Seals and opens frames.

    Args:
        key: That both sides have for this connection.
        is_server: Whether this side is the server.
        sent: The last number that this side has used for a box.
        came: The last number that the far side has used.
    """

    __slots__ = ("_came", "_came_nonce", "_key", "_sent", "_sent_nonce")

    def __init__(self, key: bytes, *, is_server: bool, sent: int, came: int) -> None:
        self._key = key
        self._sent, self._came = sent, came
        self._sent_nonce = _FROM_SERVER if is_server else _FROM_CLIENT
        self._came_nonce = _FROM_CLIENT if is_server else _FROM_SERVER

    def seal(self, frames: bytes) -> bytes:
        """Return whole frames in boxes."""
        sealed, self._sent = seal_frames(frames, self._sent, self._sent_nonce, self._key, _SEALER)
        return sealed

    def open_all(self, sealed: bytearray, position: int, limit_bytes: int) -> tuple[bytes, int]:
        """Open the next boxes that are as they should be; nothing where that is for `open`.

        Args:
            sealed: What was read.
            position: Where a frame begins.
            limit_bytes: The longest body of a frame around a box.

        Returns:
            The frames, and where the last box ends.
        """
        if not _OPENER:
            return b"", position
        came, nonce = self._came, self._came_nonce
        frames, position, self._came = open_frames(
            sealed, position, BOXES_AT_ONCE, limit_bytes, came, nonce, self._key, _OPENER
        )
        return frames, position

    def open(self, body: bytes) -> bytes:
        """Return the frame that is in the body of another one.

        Raises:
            ProtocolError: It is no box, was sealed with another key, was changed on the way, or came before.
        """
        if len(body) < _LEAST_BYTES or not body.startswith(_MESSAGE):
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "CURVE: a frame that is no MESSAGE")
        short = body[_NUMBER_AT:_BOX_AT]
        number = int.from_bytes(short, "big")
        if number <= self._came:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"CURVE: box {number} behind box {self._came}")
        try:
            plain: bytes = crypto_box_open_afternm(body[_BOX_AT:], self._came_nonce + short, self._key)
        except CryptoError as error:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"CURVE: box {number} does not open") from error
        flags = plain[0]
        if flags not in _OUTER:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"CURVE: box {number} has the flags {flags:#04x}")
        self._came = number
        length = len(plain) - 1
        if length > SHORT_LIMIT:
            return LONG_HEADER.pack(_OUTER[flags] | LONG, length) + plain[1:]
        return _SHORT_HEADERS[flags][length] + plain[1:]


class SealedIncoming(Incoming):
    """As `Incoming`, but that what is fed behind the handshake is sealed."""

    __slots__ = ("_position_sealed", "_sealed", "_traffic")

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        # None in the handshake.
        self._traffic: Traffic | None = None
        # What was read and not opened, and where in it the next frame begins.
        self._sealed = bytearray()
        self._position_sealed = 0

    def begin(self, traffic: Traffic) -> None:
        """The handshake is done: what comes now, and what has come behind it, is sealed."""
        self._traffic = traffic
        self._sealed += self.take(self.held_bytes)

    @property
    def held_bytes(self) -> int:
        """How much was fed, or opened, and not taken."""
        return super().held_bytes + len(self._sealed) - self._position_sealed

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        if self._traffic is None:
            super().feed(data)
            return
        if self._position_sealed:
            self._let_go_sealed()
        self._sealed += data

    def _let_go_sealed(self) -> None:
        """Let go of what was opened."""
        del self._sealed[: self._position_sealed]
        self._position_sealed = 0

    def forget(self) -> None:
        """Throw away everything that was fed and not taken."""
        super().forget()
        self._sealed, self._position_sealed = bytearray(), 0

    def open_more(self) -> bool:
        """Open a few boxes; return whether there were any that are whole.

        Raises:
            ProtocolError: The next frame is no box, or does not open.
        """
        traffic = self._traffic
        if traffic is None:
            return False
        frames, self._position_sealed = traffic.open_all(
            self._sealed, self._position_sealed, self.limit_bytes + SEALED_BYTES
        )
        opened = [frames] if frames else []
        try:
            while not frames and len(opened) < BOXES_AT_ONCE and (found := self._next_sealed()) is not None:
                start, end = found
                opened.append(traffic.open(bytes(memoryview(self._sealed)[start:end])))
                self._position_sealed = end
        except ProtocolError:
            if not opened:
                raise
        if not opened:
            return False
        if self._position_sealed > TAKEN_BYTES:
            self._let_go_sealed()
        super().feed(b"".join(opened))
        return True

    def _next_sealed(self) -> tuple[int, int] | None:
        """Return where the body of the next frame begins and ends; None if it is not whole."""
        sealed, position = self._sealed, self._position_sealed
        there = len(sealed) - position
        if not there:
            return None
        flags = sealed[position]
        if flags & ~(LONG | COMMAND):
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"CURVE: a frame with the flags {flags:#04x} around a box")
        size = LONG_HEADER.size if flags & LONG else SHORT_HEADER_BYTES
        if there < size:
            return None
        start = position + size
        length = LONG_HEADER.unpack_from(sealed, position)[1] if flags & LONG else sealed[start - 1]
        if length > self.limit_bytes + SEALED_BYTES:
            text = f"CURVE: a box of {length} bytes, the limit is {self.limit_bytes + SEALED_BYTES}"
            raise ProtocolError(CloseCode.TOO_BIG, text)
        return (start, start + length) if start + length <= len(sealed) else None
