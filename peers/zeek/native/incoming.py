"""`Incoming`: what was read and not yet looked at, with at most one incomplete frame of it held.

```
held:  [length|the begin...      one growing bytearray, only of the cut frame
data:  [frame][frame][fra...     what is being looked at, as it was read
later: what was fed meanwhile
```

Owner: one session. Invariants: of an incomplete frame at most `frame_limit_bytes` + 4 bytes are held, beside what was
fed and not asked for.

Cost: a frame within one read is never copied; a cut one is, once.
"""

from __future__ import annotations

from collections import deque

from hub.errors import ProtocolError
from peers.zeek.native.codes import BrokerCode
from peers.zeek.native.handshake_messages import LENGTH

__all__ = ["Incoming"]


class Incoming:
    """Finds whole frames in what was read.

    Args:
        frame_limit_bytes: Longest frame, not counting its length. May be changed between frames.
    """

    __slots__ = ("_held", "_later", "_needed_bytes", "data", "frame_limit_bytes", "position")

    data: bytes
    """What is being looked at."""

    position: int
    """How far."""

    def __init__(self, frame_limit_bytes: int) -> None:
        self.frame_limit_bytes = frame_limit_bytes
        self.data = b""
        self.position = 0
        self._later: deque[tuple[bytes, int]] = deque()
        self._held = bytearray()
        self._needed_bytes = 0  # size of the held frame, or of a length while that is not complete

    @property
    def held_bytes(self) -> int:
        """Size of what is held of an incomplete frame."""
        return len(self._held)

    @property
    def waiting_bytes(self) -> int:
        """Size of all that was fed and not looked at."""
        later = sum(len(data) - position for data, position in self._later)
        return len(self.data) - self.position + later + len(self._held)

    @property
    def is_used_up(self) -> bool:
        """Whether nothing that was read stands behind `position`."""
        return not self.data and not self._later

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        if self.data or self._later or self._held:
            self._later.append((data, 0))
        else:
            self.data = data

    def forget(self) -> None:
        """Nothing more is wanted of what was fed."""
        self.data = b""
        self.position = 0
        self._later.clear()
        self._held = bytearray()

    def next_size(self) -> int:
        """Return the size of the whole frame that stands at `position` of `data`, with its length; 0 if there is none.

        Raises:
            ProtocolError: A length is over the limit; nothing behind it can be read.
        """
        while self.data or (self._later and self._advance()):
            size = self._frame_size(self.data, self.position)
            if self.position + size <= len(self.data):
                return size
            self._held = bytearray(memoryview(self.data)[self.position :])
            self._needed_bytes = size
            self.go_to(len(self.data))
        return 0

    def go_to(self, position: int) -> None:
        """Be done with what stands before `position`; let go of what is used up."""
        if position == len(self.data):
            self.data = b""
            self.position = 0
        else:
            self.position = position

    def take_frame(self, size: int) -> bytes:
        """Return the frame of that size at `position`, without its length, and go behind it."""
        start = self.position
        frame = self.data[start + LENGTH.size : start + size]
        self.go_to(start + size)
        return frame

    def _advance(self) -> bool:
        """Begin with what was fed next, after the frame that it completes; False if there is nothing to look at."""
        while self._later:
            data, position = self._later.popleft()
            if not self._held:
                if len(data) > position:
                    self.data, self.position = data, position
                    return True
                continue
            used = self._complete(data)
            if used >= 0:
                self._later.appendleft((data, used))
                self.data, self._held = bytes(self._held), bytearray()
                return True
        return False

    def _complete(self, data: bytes) -> int:
        """Move what the held frame lacks from `data`; return how much that was, -1 if it is not complete yet."""
        held = self._held
        used = 0
        while len(held) < self._needed_bytes:
            if used == len(data):
                return -1
            missing = self._needed_bytes - len(held)
            held += memoryview(data)[used : used + missing]
            used = min(len(data), used + missing)
            if len(held) == LENGTH.size:  # now its size can be told
                self._needed_bytes = self._frame_size(bytes(held), 0)
        return used

    def _frame_size(self, data: bytes, position: int) -> int:
        """Size of the frame at `position`, or of a length while that is not complete."""
        if len(data) - position < LENGTH.size:
            return LENGTH.size
        length: int = LENGTH.unpack_from(data, position)[0]
        if length > self.frame_limit_bytes:
            raise ProtocolError(
                BrokerCode.INVALID_MESSAGE, f"frame of {length} bytes, the limit is {self.frame_limit_bytes} bytes"
            )
        return LENGTH.size + length
