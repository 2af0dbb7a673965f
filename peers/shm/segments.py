"""`SharedSegment`: the segment of one publisher as the hub has it; `Lease`: one block of it that somebody still needs.

```
publisher ─ handle (generation 7) ─▶ Lease 7 ◀── batches in queues
                                        ▲  ▲──── receivers that were sent it and have not released it
                                        └ the last lets go: everything up to 7 is released ─▶ RELEASED to the publisher
```

Owner: the connection of the publisher; whoever has a lease keeps the segment's descriptor open. Invariants: generations
of a segment only grow; `released` never is behind a lease that exists.

The hub does not know how long a lease lasts: the publisher, who waits for room, takes blocks back that are too old, and
says so in front of them. So what is read is checked before and behind.

Not here: descriptors (`peers.shm.descriptor`), how blocks are made (`peers.shm.ring`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from hub.errors import CloseCode, RejectedError
from peers.shm import memory
from peers.shm.descriptor import Descriptor
from peers.wire.shared import Handle

__all__ = ["BLOCK_ALIGNMENT", "Lease", "Reader", "SharedSegment"]

BLOCK_ALIGNMENT = 64
"""Blocks begin at multiples of this: a line of the processor's cache, bytes."""


class Reader(Protocol):
    """A client that was told of a segment."""

    def forget(self, segment: SharedSegment) -> None:
        """Forget a segment: its publisher has gone."""

    def __hash__(self) -> int: ...


class SharedSegment:
    """The segment of one publisher, as the hub has it.

    Args:
        number: The number that all on this hub know it by, 1 or more.
        size_bytes: Length of the segment.
        descriptor: Descriptor of its memory, checked.
        on_released: Called when `released` has grown.
    """

    __slots__ = ("_latest", "_leases", "_on_released", "descriptor", "number", "readers", "released", "size_bytes")

    released: int
    """Nobody needs blocks up to this generation any more. It only grows."""

    def __init__(
        self, number: int, size_bytes: int, descriptor: Descriptor, on_released: Callable[[SharedSegment], None]
    ) -> None:
        self.number = number
        self.size_bytes = size_bytes
        self.descriptor = descriptor
        self.released = 0
        self.readers: dict[Reader, None] = {}
        """The clients that were told of the segment; `close` tells them of its end."""
        # None once the publisher has gone: it need not be told any more.
        self._on_released: Callable[[SharedSegment], None] | None = on_released
        # Generation of the newest block that was leased; a handle must not go back behind it.
        self._latest = 0
        # Generations that somebody has a lease of, ascending. The first is looked for each time that one is given back,
        # which in a plain dict walks over all that were there before it.
        self._leases: OrderedDict[int, None] = OrderedDict()

    def lease(self, handle: Handle) -> Lease:
        """Take a block that the publisher has filled.

        Raises:
            RejectedError: There is no such block; the text says why.
        """
        end = handle.offset + memory.VALUES_AT + handle.size_bytes
        if handle.offset % BLOCK_ALIGNMENT or end > self.size_bytes or not handle.size_bytes:
            text = f"SHARED: {handle.size_bytes} bytes at {handle.offset} are no block of {self.size_bytes} bytes"
            raise RejectedError(CloseCode.BAD_DATA, text)
        if handle.generation <= self._latest:
            text = f"SHARED: generation {handle.generation} comes behind {self._latest}"
            raise RejectedError(CloseCode.BAD_DATA, text)
        if self._head(handle) != (handle.generation, handle.size_bytes):
            raise _gone(handle)
        self._latest = handle.generation
        self._leases[handle.generation] = None
        return Lease(self, handle)

    def read(self, handle: Handle) -> bytes:
        """Return a copy of the values of a block.

        Raises:
            RejectedError: The publisher has taken it back meanwhile.
        """
        offset = handle.offset + memory.VALUES_AT
        values = memory.read(self.descriptor.number, handle.size_bytes, offset)
        if self._head(handle) != (handle.generation, handle.size_bytes):
            raise _gone(handle)
        return values

    def let_go(self, generation: int) -> None:
        """Take note that nobody has this lease any more."""
        leases = self._leases
        first = next(iter(leases)) == generation
        del leases[generation]
        if first:
            self.released = next(iter(leases)) - 1 if leases else self._latest
            if self._on_released is not None:
                self._on_released(self)

    @property
    def is_closed(self) -> bool:
        """Whether the publisher has gone."""
        return self._on_released is None

    def close(self) -> None:
        """End the segment, as its publisher has gone: it is not told any more, and the readers are told that."""
        self._on_released = None
        readers, self.readers = self.readers, {}
        for reader in readers:
            reader.forget(self)

    def _head(self, handle: Handle) -> tuple[int, int]:
        head = memory.read(self.descriptor.number, memory.BLOCK_HEAD.size, handle.offset)
        generation, size_bytes = memory.BLOCK_HEAD.unpack(head)
        return generation, size_bytes


class Lease:
    """One block, which is needed as long as somebody has this object."""

    __slots__ = ("handle", "segment")

    def __init__(self, segment: SharedSegment, handle: Handle) -> None:
        self.segment = segment
        self.handle = handle

    def __del__(self) -> None:
        self.segment.let_go(self.handle.generation)

    def read(self) -> bytes:
        """Return a copy of the values; raises as `SharedSegment.read`."""
        return self.segment.read(self.handle)


def _gone(handle: Handle) -> RejectedError:
    return RejectedError(CloseCode.GONE, f"SHARED: the block of generation {handle.generation} is gone")
