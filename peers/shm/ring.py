"""`Ring`: the segment of a publisher. Blocks are allocated in a circle and freed in the same order.

A sent block is not written to again before its generation is 0, once it has expired or every reader has released it; a
reader that checks the generation before and after reading never sees torn values. One client owns a ring, in its event
loop; `Block.memory` may be filled by any thread.
"""

from __future__ import annotations

import mmap
from collections import deque
from enum import Enum
from struct import Struct
from typing import Final

from hub.errors import BusyError, UsageError
from peers.shm import memory
from peers.shm.memory import BLOCK_ALIGNMENT, Descriptor
from peers.wire.shared import Handle

BLOCKS_LIMIT = 4096  # Most blocks in use: as many as the hub remembers for a reader
_BIN = Struct(">BI")
_BIN_32 = 0xC6
BIN_BYTES = _BIN.size  # Length of the head of a msgpack `bin` of up to 4 GiB
_GENERATION = Struct("=Q")


class _State(Enum):
    FILLING = "being filled"
    SENT = "sent"
    FREE = "released"


_FILLING, _SENT, _FREE = _State.FILLING, _State.SENT, _State.FREE


class _Place:
    """The place of one block in a ring."""

    def __init__(self, offset: int, end: int) -> None:
        self.offset = offset
        self.end = end
        self.generation = 0  # Number of the block among all that were sent; 0 before
        self.sent_s = 0.0
        self.state = _FILLING


class Block:
    """Room for bytes, to be filled and then published, requested or replied once; it arrives as bytes.

    `Client.allocate` makes it. A block that is dropped without being sent is free again.
    """

    __slots__ = ("_place", "_ring", "_values", "memory")

    def __init__(self, values: memoryview, ring: Ring | None = None, place: _Place | None = None) -> None:
        _BIN.pack_into(values, 0, _BIN_32, len(values) - BIN_BYTES)
        # The bytes to fill, aligned to 64 bytes. Do not write to them after sending the block.
        self.memory: memoryview = values[BIN_BYTES:]
        self._values = values
        self._ring = ring  # Both are None for a block without shared memory
        self._place = place

    def __del__(self) -> None:
        if self._place is not None and self._place.state is _FILLING:
            self._place.state = _FREE

    def __len__(self) -> int:
        return len(self.memory)

    @classmethod
    def alone(cls, size_bytes: int) -> Block:
        return cls(memoryview(bytearray(BIN_BYTES + size_bytes)))

    def take(self) -> bytes:
        """Return the placeholder of the block for `encode_value`; a block is sent once."""
        if self._ring is None or self._place is None:
            return bytes(self._values)
        if self._place.state is not _FILLING:
            raise UsageError("a block is sent once; allocate another one")
        return BlockValues.of(self)

    def send(self, ring: Ring, now_s: float) -> Handle | None:
        """Begin to send; None if the block belongs to another ring or was sent."""
        if self._ring is not ring or self._place is None or self._place.state is not _FILLING:
            return None
        return ring.send(self._place, len(self._values), now_s)

    def copy(self) -> bytes:
        """Copy the values, and free the block."""
        values = bytes(self._values)
        if self._place is not None:
            self._place.state = _FREE
        return values


class BlockValues(bytes):
    """Placeholder for the msgpack of a block, with its length, but without its bytes."""

    block: Block

    @classmethod
    def of(cls, block: Block) -> BlockValues:
        values = cls()
        values.block = block
        return values

    def __len__(self) -> int:
        return BIN_BYTES + len(self.block)

    def frame(self, head: bytes) -> BlockFrame:
        """Return a placeholder for a frame of one value, which begins with `head`."""
        frame = BlockFrame(head)
        frame.block = self.block
        return frame


class BlockFrame(bytes):
    """The head of a MESSAGES frame, and the block with its value. Its length is that of the whole frame."""

    block: Block

    @property
    def head(self) -> bytes:
        """The bytes in front of the value."""
        return bytes(self)

    def __len__(self) -> int:
        return bytes.__len__(self) + BIN_BYTES + len(self.block)


class Ring:
    """One segment; after `lease_s`, a block may be reused though a reader has not released it."""

    def __init__(self, size_bytes: int, lease_s: float) -> None:
        if not memory.AVAILABLE:
            raise OSError("this system has no memory that can be handed over")
        self.size_bytes = size_bytes
        self.lease_s = lease_s
        self.descriptor: Final = Descriptor(memory.make_segment(size_bytes))
        self._memory = memoryview(mmap.mmap(self.descriptor.number, size_bytes))
        memory.seal_segment(self.descriptor.number)
        self._places: deque[_Place] = deque()  # Blocks in use, the oldest first
        self._next = 0
        self.generation = 0

    @property
    def blocks(self) -> int:
        return len(self._places)

    def allocate(self, size_bytes: int, now_s: float) -> Block:
        """Return a block of so many bytes.

        Raises:
            BusyError: There is no room now: readers have not released their blocks.
            UsageError: The segment is too small.
        """
        needed = memory.VALUES_AT + BIN_BYTES + size_bytes
        needed += -needed % BLOCK_ALIGNMENT
        if not 0 < needed <= self.size_bytes or size_bytes < 0:
            text = f"a block of {size_bytes} bytes in a segment of {self.size_bytes}; take a larger ring_bytes"
            raise UsageError(text)
        offset = self._find(needed)
        while offset < 0:
            if not self._take_back(now_s):
                raise BusyError(f"{len(self._places)} blocks of the segment are in use: its readers are slow")
            offset = self._find(needed)
        place = _Place(offset, offset + needed)
        self._places.append(place)
        self._next = place.end
        memory.BLOCK_HEAD.pack_into(self._memory, offset, 0, 0)
        values = self._memory[offset + memory.VALUES_AT : offset + memory.VALUES_AT + BIN_BYTES + size_bytes]
        return Block(values, self, place)

    def _find(self, needed: int) -> int:
        """Return the offset of free room behind the newest block; -1 if there is none."""
        if not self._places:
            return 0
        if len(self._places) >= BLOCKS_LIMIT:
            return -1
        oldest = self._places[0].offset
        if self._next > oldest:
            if self.size_bytes - self._next >= needed:
                return self._next
            return 0 if oldest >= needed else -1
        return self._next if oldest - self._next >= needed else -1

    def _take_back(self, now_s: float) -> bool:
        if not self._places:
            return False
        oldest = self._places[0]
        if oldest.state is _FILLING:
            return False
        if oldest.state is _SENT and now_s - oldest.sent_s < self.lease_s:
            return False
        _GENERATION.pack_into(self._memory, oldest.offset, 0)
        memory.fence()  # before anything is written over it
        oldest.state = _FREE
        self._places.popleft()
        return True

    def due_s(self) -> float:
        """When the oldest block expires, if it was sent; else infinity."""
        if self._places and self._places[0].state is _SENT:
            return self._places[0].sent_s + self.lease_s
        return float("inf")

    def send(self, place: _Place, size_bytes: int, now_s: float) -> Handle:
        """Begin to send a filled block; the number of the segment is left open."""
        self.generation += 1
        place.generation = self.generation
        place.sent_s = now_s
        place.state = _SENT
        memory.BLOCK_HEAD.pack_into(self._memory, place.offset, place.generation, size_bytes)
        return Handle(size_bytes, 0, place.offset, place.generation)

    def released(self, generation: int) -> None:
        for place in self._places:
            if place.state is _SENT and place.generation <= generation:
                place.state = _FREE

    def close(self) -> None:
        self.descriptor.close()
