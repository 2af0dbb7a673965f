"""`Incoming` finds Broker's frames in what was read; each is a length and so many bytes.

Owner: one session. Invariants: those of `peers.wire.scanner.FrameBuffer`.
"""

from __future__ import annotations

from hub.errors import ProtocolError
from peers.wire.scanner import FrameBuffer
from peers.zeek.broker.codes import BrokerCode
from peers.zeek.broker.handshake_messages import LENGTH

__all__ = ["Incoming"]

_TLS_HANDSHAKE = b"\x16\x03"
"""A TLS record that opens a handshake begins like this in every version. Read as a length, it means 369 MB or more."""


class Incoming(FrameBuffer):
    """Finds whole frames in what was read; `frame_limit_bytes` does not count their length."""

    __slots__ = ()

    _header_bytes = LENGTH.size

    def next_size(self) -> int:
        """Return the size, length included, of the frame at `position` of `data`; 0 if no whole frame stands there.

        Raises:
            ProtocolError: A length is over the limit, so nothing behind it can be read.
        """
        while self.data or (self._later and self._advance()):
            size = self._frame_size(self.data, self.position)
            if self.position + size <= len(self.data):
                return size
            self._hold(size)
        return 0

    def take_frame(self, size: int) -> bytes:
        """Return the frame of that size at `position`, without its length, and go behind it."""
        start = self.position
        frame = self.data[start + LENGTH.size : start + size]
        self.go_to(start + size)
        return frame

    def _frame_size(self, data: bytes, position: int) -> int:
        if len(data) - position < LENGTH.size:
            return LENGTH.size
        length: int = LENGTH.unpack_from(data, position)[0]
        if length > self.frame_limit_bytes:
            if data.startswith(_TLS_HANDSHAKE, position):
                raise ProtocolError(
                    BrokerCode.INVALID_MESSAGE,
                    "the far side begins a TLS handshake, and this connection is without TLS",
                )
            raise ProtocolError(
                BrokerCode.INVALID_MESSAGE, f"frame of {length} bytes, the limit is {self.frame_limit_bytes} bytes"
            )
        return LENGTH.size + length
