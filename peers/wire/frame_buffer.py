"""`FrameBuffer`: what was read and not yet looked at, with at most one incomplete frame of it held.

```
held:  [header|the begin...      one growing bytearray, only of the cut frame
data:  [frame][frame][fra...     what is being looked at, as it was read
later: what was fed meanwhile
```

Those that build on it know where a frame ends (`_frame_size`): the hub's own protocol (`peers.wire.scanner`) and
Broker's (`peers.zeek.native.incoming`).

Owner: one session. Invariants: of an incomplete frame no more is held than its size, beside what was fed and not asked
for.

Cost: a frame within one read is never copied; a cut one is, once: joining it with the whole read would copy 256 KiB.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = ["FrameBuffer"]


class FrameBuffer:
    """Keeps what was read until its frames are whole.

    Args:
        frame_limit_bytes: Longest body. May be changed between frames.
    """

    __slots__ = ("_held", "_later", "_needed_bytes", "data", "frame_limit_bytes", "position")

    _header_bytes: ClassVar[int]
    """How much of a frame says how long it is."""

    data: bytes
    """What is being looked at."""

    position: int
    """How far."""

    def __init__(self, frame_limit_bytes: int) -> None:
        self.frame_limit_bytes = frame_limit_bytes
        self.data = b""
        self.position = 0
        self._later: list[tuple[bytes, int]] = []  # what comes behind it, each from a place on; rarely more than one
        self._held = bytearray()
        self._needed_bytes = 0  # size of the held frame, or of a header while that is not complete

    def _frame_size(self, data: bytes, position: int) -> int:
        """Return the size of the frame at `position`, or of a header while that is not complete.

        Raises:
            ProtocolError: It breaks a limit; nothing behind it can be read.
        """
        raise NotImplementedError

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

    def go_to(self, position: int) -> None:
        """Be done with what stands before `position`; let go of what is used up."""
        if position == len(self.data):
            self.data = b""
            self.position = 0
        else:
            self.position = position

    def _hold(self, size: int) -> None:
        """Keep what is left of `data`: the beginning of a frame of that size, or of a header."""
        if self.position < len(self.data):
            self._held = bytearray(memoryview(self.data)[self.position :])
            self._needed_bytes = size
        self.go_to(len(self.data))

    def _advance(self) -> bool:
        """Begin with what was fed next, after the frame that it completes; False if there is nothing to look at."""
        while self._later:
            data, position = self._later.pop(0)
            if not self._held:
                if len(data) > position:
                    self.data, self.position = data, position
                    return True
                continue
            used = self._complete(data)
            if used >= 0:
                self._later.insert(0, (data, used))
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
            if len(held) == self._header_bytes:  # now its size can be told
                self._needed_bytes = self._frame_size(bytes(held), 0)
        return used
