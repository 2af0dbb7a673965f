"""`SealedIncoming`: finds messages in what was read from a CURVE connection.

```
handshake   read ─▶ frames, which are commands in the clear
behind it   read ─▶ sealed ── open_more ─▶ frames in the clear ─▶ messages, as under the mechanism NULL
```

Owner: one session. Invariants: boxes are opened a few at a time, and only when all that was opened before is taken, so
that a connection has its share of a turn, and what is held in the clear is bounded as under NULL; what stands in front
of a box that does not open is taken before that is told.
"""

from __future__ import annotations

from hub.errors import CloseCode, ProtocolError
from peers.zeek.zmtp.curve.traffic import BOXES_AT_ONCE, SEALED_BYTES, Traffic
from peers.zeek.zmtp.frames import COMMAND, LONG, LONG_HEADER, SHORT_HEADER_BYTES, TAKEN_BYTES, Incoming

__all__ = ["SealedIncoming"]


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
