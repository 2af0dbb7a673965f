"""`FrameBuffer`: bytes that were read and not looked at yet, and the beginning of at most one incomplete frame.

```
held:  [header|the begin...      one growing bytearray, only of the cut frame
data:  [frame][frame][fra...     what is being looked at, as it was read
later: what was fed meanwhile
```

Its subclasses know where a frame ends (`_frame_size`): `peers.wire.scanner` for the hub's own protocol, and
`peers.broker.incoming` for Broker's.

Owner: one session. Invariant: besides what was fed and not asked for, no more is held than the size of one frame.

Cost: a frame that lies within one read is not copied. A frame that was cut is copied once, by itself: joining it with
the whole next read would copy up to 256 KiB.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = ["FrameBuffer"]


class FrameBuffer:
    """Keeps what was read until its frames are whole.

    Args:
        frame_limit_bytes: Longest body. The owner may change it between frames.
    """

    __slots__ = ("_held", "_later", "_needed_bytes", "data", "frame_limit_bytes", "has_more", "position")

    _header_bytes: ClassVar[int]
    """How many bytes at the beginning of a frame tell how long it is."""

    data: bytes
    """The read that is being looked at; empty when everything up to its end has been taken or held."""

    position: int
    """How much of `data` has been taken; 0 while it is empty."""

    def __init__(self, frame_limit_bytes: int) -> None:
        self.frame_limit_bytes = frame_limit_bytes
        self.data = b""
        self.position = 0
        self.has_more = False
        """Whether anything that was read stands behind `position`. A plain attribute, as it is asked for at each read:
        `feed` makes it true, and whatever takes the last of `data` makes it false."""
        self._later: list[tuple[bytes, int]] = []
        """Reads that were fed after `data`, each with the position from which it counts; there is rarely more than one.
        `feed` appends, `_advance` takes from the front."""
        self._held = bytearray()
        """The beginning of a frame that goes on in the next read. `_hold` fills it, and `_advance` empties it when the
        frame is complete."""
        self._needed_bytes = 0
        """Size of the held frame, or of a header while the header is incomplete; without a meaning if none is held."""

    def _frame_size(self, data: bytes, position: int) -> int:
        """Return the size of the frame at `position`, or of a header while the header is incomplete.

        Raises:
            ProtocolError: The frame breaks a limit, so nothing behind it can be read.
        """
        raise NotImplementedError

    @property
    def held_bytes(self) -> int:
        """How many bytes of an incomplete frame are held."""
        return len(self._held)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes were fed and not taken."""
        later = sum(len(data) - position for data, position in self._later)
        return len(self.data) - self.position + later + len(self._held)

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        if self.data or self._later or self._held:
            self._later.append((data, 0))
        else:
            self.data = data
        self.has_more = True

    def forget(self) -> None:
        """Throw away everything that was fed and not taken."""
        self.data = b""
        self.position = 0
        self._later.clear()
        self._held = bytearray()
        self.has_more = False

    def go_to(self, position: int) -> None:
        """Take everything before `position`; if that is all of `data`, let go of it."""
        if position == len(self.data):
            self.data = b""
            self.position = 0
            if not self._later:
                self.has_more = False
        else:
            self.position = position

    def _hold(self, size: int) -> None:
        """Hold what is left of `data`, which is the beginning of a frame of that size, or of a header."""
        if self.position < len(self.data):
            self._held = bytearray(memoryview(self.data)[self.position :])
            self._needed_bytes = size
        self.go_to(len(self.data))

    def _advance(self) -> bool:
        """Begin with the next read, or with the held frame if that read completes it.

        Returns:
            Whether there is something to look at.
        """
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
        self.has_more = False
        return False

    def _complete(self, data: bytes) -> int:
        """Move what the held frame lacks from `data`; return how much that was, or -1 if that did not complete it."""
        held = self._held
        used = 0
        while len(held) < self._needed_bytes:
            if used == len(data):
                return -1
            missing = self._needed_bytes - len(held)
            held += memoryview(data)[used : used + missing]
            used = min(len(data), used + missing)
            if len(held) == self._header_bytes:  # the header is complete and tells the size of the frame
                self._needed_bytes = self._frame_size(bytes(held), 0)
        return used
