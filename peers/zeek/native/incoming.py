"""`Incoming`: Broker's frames, each a length and so many bytes, in what was read."""

from __future__ import annotations

from hub.errors import ProtocolError
from peers.wire.frame_buffer import FrameBuffer
from peers.zeek.native.codes import BrokerCode
from peers.zeek.native.handshake_messages import LENGTH

__all__ = ["Incoming"]


class Incoming(FrameBuffer):
    """Finds whole frames in what was read; `frame_limit_bytes` does not count their length."""

    __slots__ = ()

    _header_bytes = LENGTH.size

    def next_size(self) -> int:
        """Return the size of the whole frame that stands at `position` of `data`, with its length; 0 if there is none.

        Raises:
            ProtocolError: A length is over the limit; nothing behind it can be read.
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
            raise ProtocolError(
                BrokerCode.INVALID_MESSAGE, f"frame of {length} bytes, the limit is {self.frame_limit_bytes} bytes"
            )
        return LENGTH.size + length
