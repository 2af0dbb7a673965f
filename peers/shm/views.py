"""Receive values in shared memory without a copy: `View` of a `Mapping` (memfd) or `ReadBlock` (of a `KnownSegment`).

```
SEGMENT ─▶ KnownSegment ─ handle ─▶ ReadBlock ─┐                    ┌─ with view as memory: ... or BlockGoneError
descriptor ───────────────────────▶ Mapping ───┴─▶ View ─ of bytes ─┴─ copy()
```

A block is released, and a memfd unmapped, with the last object that refers to it: a view, a message, a queue of a
stream. Only checked memory is mapped, and only for reading. The generation of a block is checked before and after.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable
from struct import Struct
from typing import TypeVar

from hub.errors import BlockGoneError
from hub.messages.batch import BATCH_OVERHEAD_BYTES
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, Frame, encode_frame
from hub.messages.stretch import Run
from peers.shm import memory
from peers.shm.memory import Descriptor
from peers.wire.shared import Handle, plain_bytes

_GENERATION = Struct("=Q")
_BIN_HEADS = {0xC4: 2, 0xC5: 3, 0xC6: 5}  # Length of the head of a msgpack `bin`, bytes, by its first byte
_LONGEST_HEAD = max(_BIN_HEADS.values())


class Mapping:
    """A checked memfd of one message, mapped at the first look."""

    __slots__ = ("_descriptor", "_map", "size_bytes")

    def __init__(self, descriptor: Descriptor, handle: Handle) -> None:
        self.size_bytes = handle.size_bytes
        self._descriptor = descriptor
        self._map: mmap.mmap | None = None

    @property
    def is_charged(self) -> bool:
        return self._descriptor.is_charged

    def memory(self) -> memoryview:
        if self._map is None:
            length = memory.VALUES_AT + self.size_bytes
            self._map = mmap.mmap(self._descriptor.number, length, mmap.MAP_SHARED, mmap.PROT_READ)
        return memoryview(self._map)[memory.VALUES_AT :]

    def check(self) -> None:
        """Do nothing: sealed memory never changes."""

    def payload(self) -> bytes | None:
        """Copy the bytes of a single `bin` value; None if the value is something else.

        Reading a MiB costs 50 µs, mapping and copying it 120.
        """
        number = self._descriptor.number
        start = memory.read(number, _LONGEST_HEAD, memory.VALUES_AT)
        head = _BIN_HEADS.get(start[0])
        if head is None or int.from_bytes(start[1:head], "big") != self.size_bytes - head:
            return None
        return memory.read(number, self.size_bytes - head, memory.VALUES_AT + head)


class KnownSegment:
    """A segment of another client, mapped for reading; `on_released` is called when `released` has grown."""

    def __init__(
        self, number: int, size_bytes: int, descriptor: Descriptor, on_released: Callable[[KnownSegment], None]
    ) -> None:
        self.number = number
        self.size_bytes = size_bytes
        self.map = memoryview(mmap.mmap(descriptor.number, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ))
        self.released = 0  # Blocks up to this generation are not in use any more; it only grows
        self._latest = 0
        self._open: dict[int, None] = {}  # Generations of blocks in use, ascending
        self._on_released: Callable[[KnownSegment], None] | None = on_released  # None once the connection has ended

    def block(self, handle: Handle) -> ReadBlock:
        """Return a block, or raise a `ValueError` if the handle is none of this segment."""
        end = handle.offset + memory.VALUES_AT + handle.size_bytes
        if end > self.size_bytes or handle.generation in self._open:
            raise ValueError(f"{handle} is not a block of a segment of {self.size_bytes} bytes")
        self._latest = max(self._latest, handle.generation)
        self._open[handle.generation] = None
        return ReadBlock(self, handle)

    def let_go(self, generation: int) -> None:
        generations = self._open
        del generations[generation]
        released = min(generations) - 1 if generations else self._latest
        if released > self.released:
            self.released = released
            if self._on_released is not None:
                self._on_released(self)

    def close(self) -> None:
        """Report no more releases. The memory stays mapped for blocks in use."""
        self._on_released = None


class ReadBlock:
    """One block, in use as long as this object exists."""

    __slots__ = ("_handle", "_segment", "size_bytes")

    def __init__(self, segment: KnownSegment, handle: Handle) -> None:
        self.size_bytes = handle.size_bytes
        self._segment = segment
        self._handle = handle

    def __del__(self) -> None:
        self._segment.let_go(self._handle.generation)

    def payload(self) -> bytes | None:
        """Copy the bytes of a single `bin` value; None if the value is something else. Raises as `memory`."""
        found = payload_of(self.memory())
        if found is None:
            return None
        copied = bytes(found)
        self.check()
        return copied

    def memory(self) -> memoryview:
        """Return the values, read-only, or raise a `BlockGoneError` if the publisher has taken the block back."""
        self.check()
        start = self._handle.offset + memory.VALUES_AT
        return self._segment.map[start : start + self.size_bytes]

    def check(self) -> None:
        """Check that the block was not reused; raises as `memory`."""
        memory.fence()
        found = _GENERATION.unpack_from(self._segment.map, self._handle.offset)[0]
        if found != self._handle.generation:
            raise BlockGoneError(f"the block of generation {self._handle.generation} was taken back by its publisher")


Received = Mapping | ReadBlock  # Where received values are


def payload_of(values: memoryview) -> memoryview | None:
    """Return the bytes in a msgpack `bin`; None for other values."""
    head = _BIN_HEADS.get(values[0])
    if head is None or len(values) < head or int.from_bytes(values[1:head], "big") != len(values) - head:
        return None
    return values[head:]


class View:
    """Received bytes in shared memory, not copied: a value where a client was connected with `views=True`.

    ```
    with view as memory:
        array = numpy.frombuffer(memory, dtype=numpy.float64)
        total = array.sum()
    ```

    Results are valid only if the block ends without an error: `BlockGoneError` at its end means that the bytes may
    have changed, because the view was held longer than the lease of the publisher. Drop a view to free its room.
    """

    __slots__ = ("_open", "_received")

    def __init__(self, received: Received) -> None:
        self._received = received
        self._open: memoryview | None = None  # The memory inside a `with`; None outside

    def __repr__(self) -> str:
        return f"<View of {len(self)} bytes>"

    def __len__(self) -> int:
        with contextlib.suppress(BlockGoneError):
            values = self._received.memory()
            payload = payload_of(values)
            return 0 if payload is None else len(payload)
        return 0

    def __enter__(self) -> memoryview:
        """Return the bytes, read-only, or raise a `BlockGoneError`."""
        values = self._received.memory()
        payload = payload_of(values)
        if payload is None:
            self._received.check()
            raise BlockGoneError("the block had no bytes, or was reused by its publisher")
        self._open = payload
        return payload

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            with contextlib.suppress(BufferError):  # an array of the caller's still looks at it
                opened.release()
        if error is None:
            self._received.check()

    def copy(self) -> bytes:
        """Copy the bytes, or raise a `BlockGoneError`."""
        with self as found:
            copied = bytes(found)
        return copied  # noqa: RET504 -- checked when the block above is left


R = TypeVar("R")


class SharedRun(Run[R]):
    """Messages with values in shared memory, which are read on demand; `frame` is decoded, without SHARED."""

    __slots__ = ("_bytes", "_frame", "_received", "_views")

    def __init__(self, route: R, frame: Frame, received: Received, *, views: bool) -> None:
        self.route = route
        self.messages = frame.messages
        self.frames_bytes = plain_bytes(frame, received.size_bytes)
        self.size_bytes = self.frames_bytes + BATCH_OVERHEAD_BYTES
        self.origin = None
        self._forms = None
        self._is_sound = False
        self._frame = frame
        self._received = received
        self._views = views
        self._bytes = b""  # The plain frame, once it was needed

    @property
    def frames(self) -> bytes:  # type: ignore[override]
        """The same messages as plain bytes; may raise a `BlockGoneError`."""
        if not self._bytes:
            frame = self._frame
            body = copied(self._received, frame.body, frame.flags)
            self._bytes = encode_frame(frame.kind, body, key=frame.key, flags=frame.flags)
        return self._bytes

    @property
    def topic(self) -> str:
        return self._frame.key.decode()

    @property
    def view(self) -> View | None:
        """The value as a view, if views are wanted and it is bytes; else None."""
        return View(self._received) if self._views and not self._frame.flags and is_bytes(self._received) else None

    def payload(self) -> bytes | None:
        """Copy the value, if it is one of bytes; raises as `frames`."""
        return None if self._frame.flags else self._received.payload()

    @property
    def value(self) -> memoryview | None:
        """The single msgpack value in place; None for batches, which are in `frames`."""
        return None if self._frame.flags else self._received.memory()


def copied(received: Received, body: bytes, flags: int) -> bytes:
    values = bytes(received.memory())
    received.check()
    return body[: BATCH_COUNT.size] + values if flags & FLAG_BATCH else values


def is_bytes(received: Received) -> bool:
    """Return whether the value is bytes; True also where the block is gone."""
    try:
        return payload_of(received.memory()) is not None
    except BlockGoneError:
        return True


class ViewValues(bytes):
    """Placeholder for values that are read in place."""

    received: Received

    @classmethod
    def of(cls, received: Received) -> ViewValues:
        values = cls()
        values.received = received
        return values

    def value(self) -> View | None:
        return View(self.received) if is_bytes(self.received) else None
