"""What was received in shared memory, without a copy: `View`, and where it is: `Mapping`, `KnownSegment`, `ReadBlock`.

```
SEGMENT ─▶ KnownSegment ─ handle ─▶ ReadBlock ─┐                    ┌─ with view as memory: ... or BlockGoneError
descriptor ───────────────────────▶ Mapping ───┴─▶ View ─ of bytes ─┴─ copy()
```

Owner: a block is released, and memory of its own unmapped, when the last object that has it lets go: a view, a message,
what waits in a stream. Invariants: nothing is mapped that was not checked, and nothing for writing.

Never torn: of a block, the generation is checked before and behind.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable
from struct import Struct
from typing import TypeVar

from hub.batch import BATCH_OVERHEAD_BYTES
from hub.errors import BlockGoneError
from hub.frame import BATCH_COUNT, FLAG_BATCH, Frame, encode_frame
from hub.stretch import Run
from peers.shm import memory
from peers.shm.memory import Descriptor
from peers.wire.shared import Handle, plain_bytes

__all__ = [
    "KnownSegment",
    "Mapping",
    "ReadBlock",
    "Received",
    "SharedRun",
    "View",
    "ViewValues",
    "copied",
    "is_bytes",
    "payload_of",
]

_GENERATION = Struct("=Q")

_BIN_HEADS = {0xC4: 2, 0xC5: 3, 0xC6: 5}
"""How long the head of a msgpack `bin` is, bytes, by its first byte."""

_LONGEST_HEAD = max(_BIN_HEADS.values())


class Mapping:
    """A memfd of one message, mapped when it is first looked at.

    Args:
        descriptor: Descriptor of the memory, checked.
        handle: Says where the values are in it.
    """

    __slots__ = ("_descriptor", "_map", "size_bytes")

    def __init__(self, descriptor: Descriptor, handle: Handle) -> None:
        self.size_bytes = handle.size_bytes
        self._descriptor = descriptor
        # None until somebody looks at the values.
        self._map: mmap.mmap | None = None

    @property
    def is_charged(self) -> bool:
        """Whether an account is charged for its descriptor."""
        return self._descriptor.is_charged

    def memory(self) -> memoryview:
        """Return the values, read-only."""
        if self._map is None:
            length = memory.VALUES_AT + self.size_bytes
            self._map = mmap.mmap(self._descriptor.number, length, mmap.MAP_SHARED, mmap.PROT_READ)
        return memoryview(self._map)[memory.VALUES_AT :]

    def check(self) -> None:
        """Accept what was read: the memory is sealed, so it never changes."""

    def payload(self) -> bytes | None:
        """Return a copy of the bytes that the one value is; None if it is something else.

        Reading a MiB costs 50 µs, mapping and copying it 120.
        """
        number = self._descriptor.number
        start = memory.read(number, _LONGEST_HEAD, memory.VALUES_AT)
        head = _BIN_HEADS.get(start[0])
        if head is None or int.from_bytes(start[1:head], "big") != self.size_bytes - head:
            return None
        return memory.read(number, self.size_bytes - head, memory.VALUES_AT + head)


class KnownSegment:
    """A segment of another client, mapped for reading.

    Args:
        number: The number that the hub knows it by.
        size_bytes: Length of the segment.
        descriptor: Descriptor of its memory, checked.
        on_released: Called when `released` has grown.
    """

    __slots__ = ("_latest", "_on_released", "_open", "map", "number", "released", "size_bytes")

    def __init__(
        self, number: int, size_bytes: int, descriptor: Descriptor, on_released: Callable[[KnownSegment], None]
    ) -> None:
        self.number = number
        self.size_bytes = size_bytes
        self.map = memoryview(mmap.mmap(descriptor.number, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ))
        # Nobody here needs blocks up to this generation any more; it only grows.
        self.released = 0
        # Generation of the newest block that came.
        self._latest = 0
        # Generations of blocks that somebody here has, ascending.
        self._open: dict[int, None] = {}
        # None once the connection has ended: nobody is told any more.
        self._on_released: Callable[[KnownSegment], None] | None = on_released

    def block(self, handle: Handle) -> ReadBlock:
        """Return a block, which is needed until this object is let go.

        Raises:
            ValueError: It is no block of this segment.
        """
        end = handle.offset + memory.VALUES_AT + handle.size_bytes
        if end > self.size_bytes or handle.generation in self._open:
            raise ValueError(f"{handle} is no block of a segment of {self.size_bytes} bytes")
        self._latest = max(self._latest, handle.generation)
        self._open[handle.generation] = None
        return ReadBlock(self, handle)

    def let_go(self, generation: int) -> None:
        """Take note that nobody has that block any more."""
        generations = self._open
        del generations[generation]
        released = min(generations) - 1 if generations else self._latest
        if released > self.released:
            self.released = released
            if self._on_released is not None:
                self._on_released(self)

    def close(self) -> None:
        """Tell nobody any more. What is mapped stays so for those who have blocks."""
        self._on_released = None


class ReadBlock:
    """One block, which is needed as long as somebody has this object."""

    __slots__ = ("_handle", "_segment", "size_bytes")

    def __init__(self, segment: KnownSegment, handle: Handle) -> None:
        self.size_bytes = handle.size_bytes
        self._segment = segment
        self._handle = handle

    def __del__(self) -> None:
        self._segment.let_go(self._handle.generation)

    def payload(self) -> bytes | None:
        """Return a copy of the bytes that the one value is; None if it is something else. Raises as `memory`."""
        found = payload_of(self.memory())
        if found is None:
            return None
        copied = bytes(found)
        self.check()
        return copied

    def memory(self) -> memoryview:
        """Return the values, read-only.

        Raises:
            BlockGoneError: The publisher has taken the block back.
        """
        self.check()
        start = self._handle.offset + memory.VALUES_AT
        return self._segment.map[start : start + self.size_bytes]

    def check(self) -> None:
        """See to it that the block is still what it was; raises as `memory`."""
        memory.fence()
        found = _GENERATION.unpack_from(self._segment.map, self._handle.offset)[0]
        if found != self._handle.generation:
            raise BlockGoneError(f"the block of generation {self._handle.generation} was taken back by its publisher")


Received = Mapping | ReadBlock
"""Where values are that came in shared memory."""


def payload_of(values: memoryview) -> memoryview | None:
    """Return the bytes that a msgpack `bin` holds; None if the values are none."""
    head = _BIN_HEADS.get(values[0])
    if head is None or len(values) < head or int.from_bytes(values[1:head], "big") != len(values) - head:
        return None
    return values[head:]


class View:
    """Bytes that came in shared memory, not copied: a value where a client was connected with `views=True`.

    ```
    with view as memory:
        array = numpy.frombuffer(memory, dtype=numpy.float64)
        total = array.sum()
    ```

    What was read counts once the block is left: `BlockGoneError` there says that the bytes may have changed under it,
    because the block was held longer than its publisher waits. Let go of the view to let the publisher have its room.
    """

    __slots__ = ("_open", "_received")

    def __init__(self, received: Received) -> None:
        self._received = received
        # The memory while a `with` looks at it; None outside.
        self._open: memoryview | None = None

    def __repr__(self) -> str:
        return f"<View of {len(self)} bytes>"

    def __len__(self) -> int:
        with contextlib.suppress(BlockGoneError):
            values = self._received.memory()
            payload = payload_of(values)
            return 0 if payload is None else len(payload)
        return 0

    def __enter__(self) -> memoryview:
        """Return the bytes, read-only.

        Raises:
            BlockGoneError: They are gone already.
        """
        values = self._received.memory()
        payload = payload_of(values)
        if payload is None:
            self._received.check()
            raise BlockGoneError("what stood in the block was no bytes, or was taken back by its publisher")
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
        """Return the bytes.

        Raises:
            BlockGoneError: They are gone.
        """
        with self as found:
            copied = bytes(found)
        return copied  # noqa: RET504 -- checked when the block above is left


R = TypeVar("R")


class SharedRun(Run[R]):
    """Messages whose values came in shared memory; they are looked at when somebody reads them.

    Args:
        route: The route of all messages.
        frame: The frame, taken apart, without SHARED.
        received: The memory that holds the values.
        views: Whether bytes are to be given as a `View`.
    """

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
        # Empty until somebody asks for the values as bytes; from then on the frame that holds them.
        self._bytes = b""

    @property
    def frames(self) -> bytes:  # type: ignore[override]
        """The same messages as plain bytes.

        Raises:
            BlockGoneError: They were in a block, and its publisher has taken it back.
        """
        if not self._bytes:
            frame = self._frame
            body = copied(self._received, frame.body, frame.flags)
            self._bytes = encode_frame(frame.kind, body, key=frame.key, flags=frame.flags)
        return self._bytes

    @property
    def topic(self) -> str:
        """The topic of all these messages."""
        return self._frame.key.decode()

    @property
    def view(self) -> View | None:
        """The value as a view, if it is to be given as one and is bytes; else None."""
        return View(self._received) if self._views and not self._frame.flags and is_bytes(self._received) else None

    def payload(self) -> bytes | None:
        """Return a copy of the one value, if it is bytes; raises as `frames`."""
        return None if self._frame.flags else self._received.payload()

    @property
    def value(self) -> memoryview | None:
        """The one msgpack value, where it stands; None of several values and others, which are in `frames`."""
        return None if self._frame.flags else self._received.memory()


def copied(received: Received, body: bytes, flags: int) -> bytes:
    """Return values as bytes, with their count where there is one."""
    values = bytes(received.memory())
    received.check()
    return body[: BATCH_COUNT.size] + values if flags & FLAG_BATCH else values


def is_bytes(received: Received) -> bool:
    """Return whether the values are one value that is bytes; also where that cannot be told any more."""
    try:
        return payload_of(received.memory()) is not None
    except BlockGoneError:
        return True


class ViewValues(bytes):
    """A place-holder for values that are looked at where they came."""

    received: Received

    @classmethod
    def of(cls, received: Received) -> ViewValues:
        """Make the place-holder of what was received."""
        values = cls()
        values.received = received
        return values

    def value(self) -> View | None:
        """Return a view of the value; None if that is no bytes."""
        return View(self.received) if is_bytes(self.received) else None
