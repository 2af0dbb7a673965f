"""`Sharing`: the shared memory of one client of a hub; `SharedMemory`: limits and counters of all clients.

```
client ─ handle, descriptor ─▶ take() ─▶ Memfd, Lease ─▶ core ─▶ give() ─▶ handle, descriptor ─▶ another client
       ─ SEGMENT ───────────▶ open_segment()                     ▲  │
       ◀ RELEASED ─ on_released                          released() ◀─ RELEASED
```

The descriptor of a frame is taken from the transport before the frame is checked, so that frames and descriptors stay
in step after a rejection. Memory that a client was sent and has not taken is bounded (`is_full`); values beyond
`shm.descriptors` are copied.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from hub.errors import CloseCode, InternalError, ProtocolError, RejectedError
from hub.messages.batch import BATCH_OVERHEAD_BYTES, Batch
from hub.messages.frame import BATCH_COUNT, BATCH_LIMIT_MESSAGES, FLAG_BATCH, FLAG_SHARED, Frame, encode_frame
from hub.quotas import Usage
from peers.shm import memory
from peers.shm.memory import BLOCK_ALIGNMENT, Account, Descriptor
from peers.shm.transport import UnixTransport
from peers.wire.shared import DESCRIPTORS, Handle, Segment, encode_segment, plain_bytes

if TYPE_CHECKING:  # clients share memory, too, and load no settings of hubs
    from hub.settings.settings import SharedMemorySettings


class Reader(Protocol):
    """A client that knows a segment."""

    def forget(self, segment: SharedSegment) -> None:
        """The publisher of a segment has gone."""

    def __hash__(self) -> int: ...


class SharedSegment:
    """The segment of one publisher in the hub; `on_released` is called when `released` has grown."""

    __slots__ = ("_latest", "_leases", "_on_released", "descriptor", "number", "readers", "released", "size_bytes")

    def __init__(
        self, number: int, size_bytes: int, descriptor: Descriptor, on_released: Callable[[SharedSegment], None]
    ) -> None:
        self.number = number
        self.size_bytes = size_bytes
        self.descriptor = descriptor
        self.released = 0  # Blocks up to this generation are not in use any more. It only grows
        self.readers: dict[Reader, None] = {}
        self._on_released: Callable[[SharedSegment], None] | None = on_released  # None once the publisher has gone
        self._latest = 0  # Generation of the newest lease; handles may not go back behind it
        # Leased generations, ascending. The first one is read at each release, which is slow in a plain dict.
        self._leases: OrderedDict[int, None] = OrderedDict()

    def lease(self, handle: Handle) -> Lease:
        """Return a lease of a block that the publisher has filled; may raise a `RejectedError`."""
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
        """Copy the values of a block, or raise a `RejectedError` if the publisher has taken it back."""
        offset = handle.offset + memory.VALUES_AT
        values = memory.read(self.descriptor.number, handle.size_bytes, offset)
        if self._head(handle) != (handle.generation, handle.size_bytes):
            raise _gone(handle)
        return values

    def let_go(self, generation: int) -> None:
        leases = self._leases
        first = next(iter(leases)) == generation
        del leases[generation]
        if first:
            self.released = next(iter(leases)) - 1 if leases else self._latest
            if self._on_released is not None:
                self._on_released(self)

    @property
    def is_closed(self) -> bool:
        return self._on_released is None

    def close(self) -> None:
        """The publisher has gone: report no more releases, and notify the readers."""
        self._on_released = None
        readers, self.readers = self.readers, {}
        for reader in readers:
            reader.forget(self)

    def _head(self, handle: Handle) -> tuple[int, int]:
        head = memory.read(self.descriptor.number, memory.BLOCK_HEAD.size, handle.offset)
        generation, size_bytes = memory.BLOCK_HEAD.unpack(head)
        return generation, size_bytes


class Lease:
    """One block, in use as long as this object exists."""

    __slots__ = ("handle", "segment")

    def __init__(self, segment: SharedSegment, handle: Handle) -> None:
        self.segment = segment
        self.handle = handle

    def __del__(self) -> None:
        self.segment.let_go(self.handle.generation)

    def read(self) -> bytes:
        return self.segment.read(self.handle)


def _gone(handle: Handle) -> RejectedError:
    return RejectedError(CloseCode.GONE, f"SHARED: the block of generation {handle.generation} is gone")


class Memfd:
    """A sealed and checked memfd with the values of one message."""

    __slots__ = ("descriptor", "handle")

    def __init__(self, descriptor: Descriptor, handle: Handle) -> None:
        self.descriptor = descriptor
        self.handle = handle

    def read(self) -> bytes:
        return memory.read(self.descriptor.number, self.handle.size_bytes, memory.VALUES_AT)


Shared = Memfd | Lease  # Where values are


class SharedBatch(Batch):
    """One MESSAGES frame with values in shared memory; `frame` is decoded, without SHARED."""

    __slots__ = ("_bytes", "_frame", "shared", "shared_frame")

    def __init__(self, frame: Frame, shared: Shared) -> None:
        self.messages = frame.messages
        self.frames_bytes = plain_bytes(frame, shared.handle.size_bytes)
        self.size_bytes = self.frames_bytes + BATCH_OVERHEAD_BYTES
        self.shared = shared
        # The frame for readers of shared memory, ready for the wire.
        self.shared_frame: bytes = encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags | FLAG_SHARED)
        self._forms = None
        self.origin = None
        self._is_sound = False
        self._frame = frame
        self._bytes = b""  # The plain frame, once it was needed

    def __repr__(self) -> str:
        return f"<SharedBatch of {self.messages} messages, {self.shared.handle.size_bytes} bytes>"

    @property
    def is_block(self) -> bool:
        """Whether the publisher may take the memory back."""
        return isinstance(self.shared, Lease)

    @property
    def frames(self) -> bytes:  # type: ignore[override]
        """The same message as plain bytes, which are read once."""
        if not self._bytes:
            try:
                self.copy()
            except RejectedError as error:
                raise InternalError(f"a block was not copied in time: {error}") from error
        return self._bytes

    def topics(self) -> Iterable[bytes]:
        return (self._frame.topic,)

    def copy(self) -> None:
        """Make `frames` now, or raise a `RejectedError` if the block is gone."""
        if self._bytes:
            return
        frame = self._frame
        count = frame.body[: BATCH_COUNT.size] if frame.flags & FLAG_BATCH else b""
        self._bytes = encode_frame(frame.kind, count + self.shared.read(), key=frame.key, flags=frame.flags)

    def split(self, messages: int) -> tuple[Batch, Batch | None]:  # noqa: ARG002 -- wherever: it is not cut
        return self, None

    def _cuts(self) -> Iterator[tuple[int, int, int]]:
        yield self.messages, self.size_bytes, 0


class SharedValues(bytes):
    """A handle in a REQUEST or REPLY, and its memory."""

    shared: Shared

    @classmethod
    def of(cls, values: bytes, shared: Shared) -> SharedValues:
        joined = cls(values)
        joined.shared = shared
        return joined

    @property
    def shared_bytes(self) -> int:
        return self.shared.handle.size_bytes

    def plain(self, flags: int) -> bytes:
        """Return the values, or raise a `RejectedError` if the block is gone; `flags` are those of the frame."""
        count = self[: BATCH_COUNT.size] if flags & FLAG_BATCH else b""
        return count + self.shared.read()


# Most blocks of one segment that a client holds; beyond them the oldest counts as released, as its lease is over.
LEASES_LIMIT = 4096


class SharedMemory:
    """Limits and counters of all clients of a hub."""

    def __init__(self, settings: SharedMemorySettings) -> None:
        self.settings = settings
        self.descriptors = Account(settings.descriptors)
        self.segments = 0  # Open segments
        self.messages_total = 0  # Messages, requests and replies in shared memory
        self.copied_total = 0  # Those of them that were copied, because there were too many descriptors
        self.refused_total = 0  # Invalid handles and segments
        self._last_segment = 0

    def next_number(self) -> int:
        self._last_segment += 1
        return self._last_segment


class Sharing:
    """Shared memory of one connection; `on_released` is called once `take_released` has something for the client."""

    def __init__(self, common: SharedMemory, transport: UnixTransport, on_released: Callable[[], object]) -> None:
        self._common = common
        self._settings = common.settings
        self._transport = transport
        self._on_released = on_released
        self._account = Account(self._settings.client_descriptors, common.descriptors)
        self._segments: dict[int, SharedSegment] = {}  # Segments of this client by their numbers
        self._released: dict[int, int] = {}  # Released generations by segment, which the client does not know yet
        # Leases that the client holds, by the segments of other clients that it knows.
        self._sent: dict[SharedSegment, deque[Lease]] = {}
        self._latest: dict[SharedSegment, int] = {}  # The generation that the client was given last, by segment
        self._given = 0  # Descriptors that the client was given since HELLO
        # Sizes of the memfds that the client has not taken yet, the oldest first; and their sum.
        self._flight: deque[int] = deque()
        self._flight_bytes = 0

    def charge(self, usage: Usage) -> None:
        self._account.usage = usage

    def take(self, handle: Handle, values: int, limit_bytes: int) -> Shared:
        """Take the memory of a frame with that many values, at most `limit_bytes` of them.

        Raises:
            RejectedError: The memory is not as described; the stream goes on.
            ProtocolError: There is no descriptor: frames and descriptors are out of step.
        """
        self._common.messages_total += 1
        descriptor = None if handle.segment else self._next_descriptor()
        try:
            return self._checked(handle, descriptor, values, limit_bytes)
        except RejectedError:
            self._common.refused_total += 1
            raise

    def _checked(self, handle: Handle, descriptor: Descriptor | None, values: int, limit_bytes: int) -> Shared:
        if not 0 < handle.size_bytes <= limit_bytes:
            raise RejectedError(CloseCode.TOO_BIG, f"SHARED: {handle.size_bytes} bytes, the limit is {limit_bytes}")
        if not 0 < values <= min(handle.size_bytes, BATCH_LIMIT_MESSAGES):
            raise RejectedError(CloseCode.BAD_DATA, f"SHARED: {values} values in {handle.size_bytes} bytes")
        if descriptor is None:
            segment = self._segments.get(handle.segment)
            if segment is None:
                text = f"SHARED: segment {handle.segment} is not of this client"
                raise RejectedError(CloseCode.NOT_ALLOWED, text)
            return segment.lease(handle)
        memory.check_sealed(descriptor.number, handle.size_bytes)
        if self._account.has_room:
            descriptor.charge(self._account)
        return Memfd(descriptor, handle)

    def is_beyond(self, shared: Shared) -> bool:
        if isinstance(shared, Lease) or shared.descriptor.is_charged:
            return False
        self._account.refuse()  # values must be copied now, because there are too many descriptors
        self._common.copied_total += 1
        return True

    def _next_descriptor(self) -> Descriptor:
        if not self._transport.descriptors:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "SHARED: no descriptor came with the frame")
        return self._transport.descriptors.popleft()

    def open_segment(self, segment: Segment) -> int:
        """Take a segment of the client and return its number; raises as `take`."""
        descriptor = self._next_descriptor()
        try:
            self._check_segment(segment, descriptor)
        except RejectedError:
            self._common.refused_total += 1
            raise
        descriptor.charge(self._account)
        number = self._common.next_number()
        self._segments[number] = SharedSegment(number, segment.size_bytes, descriptor, self._tell_later)
        self._common.segments += 1
        return number

    def _check_segment(self, segment: Segment, descriptor: Descriptor) -> None:
        settings = self._settings
        if len(self._segments) >= settings.segments:
            text = f"SEGMENT: {settings.segments} segments of this client are open, which is the limit"
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, text)
        if segment.size_bytes > settings.segment_bytes:
            text = f"SEGMENT: {segment.size_bytes} bytes, the limit is {settings.segment_bytes}"
            raise RejectedError(CloseCode.TOO_BIG, text)
        usage = self._account.usage
        if usage is not None and not usage.room:
            usage.refuse()
            raise usage.rejection(1)
        if not self._account.has_room:
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, "SEGMENT: too many descriptors are open")
        memory.check_segment(descriptor.number, segment.size_bytes)

    def close_segment(self, number: int) -> None:
        """Close a segment of the client; unknown numbers are ignored."""
        segment = self._segments.pop(number, None)
        if segment is not None:
            self._common.segments -= 1
            self._released.pop(number, None)
            segment.close()

    def check_surplus(self, *, within_frame: bool) -> None:
        """Raise a `ProtocolError` if a descriptor came with a frame that has none.

        Within a frame, its own descriptor may have arrived.
        """
        if len(self._transport.descriptors) > within_frame:
            self._transport.descriptors.clear()
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "a descriptor came with a frame that has none")

    def give(self, frame: bytes, shared: Shared) -> None:
        """Write a frame with its descriptor or segment."""
        if isinstance(shared, Memfd):
            size_bytes = shared.handle.size_bytes
            self._given += 1
            self._flight.append(size_bytes)
            self._flight_bytes += size_bytes
            self._transport.hand_over(frame, shared.descriptor, size_bytes)
            return
        segment = shared.segment
        leases = self._sent.get(segment)
        if leases is None:
            self._transport.hand_over(encode_segment(Segment(segment.number, segment.size_bytes)), segment.descriptor)
            leases = self._sent[segment] = deque(maxlen=LEASES_LIMIT)
            segment.readers[self] = None
        leases.append(shared)
        self._latest[segment] = shared.handle.generation
        self._transport.write(frame)
        if segment.is_closed:  # what was queued when its publisher went
            self.forget(segment)

    def is_late(self, shared: Shared) -> bool:
        """Return whether a later block of the segment was given, so that this handle would count as released.

        That happens to a message in the queue, when a later request overtakes it.
        """
        return isinstance(shared, Lease) and shared.handle.generation < self._latest.get(shared.segment, 0)

    @property
    def is_full(self) -> bool:
        """Whether the client has to take memory before it is given more."""
        settings = self._settings
        return len(self._flight) >= settings.client_descriptors or self._flight_bytes >= settings.client_bytes

    def released(self, number: int, generation: int) -> None:
        """The client has released blocks up to that generation, or taken that many descriptors."""
        if number == DESCRIPTORS:
            taken = generation - (self._given - len(self._flight))
            if taken > len(self._flight):
                raise ProtocolError(
                    CloseCode.PROTOCOL_ERROR, f"RELEASED: {generation} descriptors, not so many were given"
                )
            for _ in range(taken):
                self._flight_bytes -= self._flight.popleft()
            return
        for segment, leases in self._sent.items():
            if segment.number == number:
                while leases and leases[0].handle.generation <= generation:
                    leases.popleft()
                return

    def take_released(self) -> dict[int, int]:
        """Return, once, the released generations of the segments of the client."""
        released, self._released = self._released, {}
        return released

    def forget(self, segment: SharedSegment) -> None:
        del self._sent[segment]
        self._latest.pop(segment, None)
        self._transport.write(encode_segment(Segment(segment.number, 0)))

    def close(self) -> None:
        for number in list(self._segments):
            self.close_segment(number)
        for segment in self._sent:
            segment.readers.pop(self, None)
        self._sent.clear()
        self._latest.clear()
        self._flight.clear()
        self._transport.descriptors.clear()

    def _tell_later(self, segment: SharedSegment) -> None:
        if not self._released:
            self._on_released()
        self._released[segment.number] = segment.released
