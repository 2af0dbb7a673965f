"""`SharedBatch`: a message whose values are in shared memory, as the core routes it; `SharedValues`: of a request.

```
               ┌─▶ handlers that take shared memory: `shared_frame`, as it came, and the descriptor
SharedBatch ───┤
               └─▶ all others (TCP, WebSocket, links, journal): `frames`, made by one read for all of them
```

Owner: as of all batches, the queues that hold it; with the last of them the memory is let go. A queue is charged its
full size. It is not cut: its values go together, or are lost together.

Cost: nothing that depends on the size, unless somebody needs the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hub.batch import BATCH_OVERHEAD_BYTES, Batch
from hub.errors import InternalError, RejectedError
from hub.frame import BATCH_COUNT, FLAG_BATCH, FLAG_SHARED, Frame, encode_frame
from peers.shm import memory
from peers.shm.descriptor import Descriptor
from peers.shm.segments import Lease
from peers.wire.shared import Handle, plain_bytes

__all__ = ["Memfd", "Shared", "SharedBatch", "SharedValues"]


class Memfd:
    """A memfd of one message: sealed memory that holds its values and nothing else.

    Args:
        descriptor: Descriptor of the memory, sealed and checked.
        handle: Says where the values are in it.
    """

    __slots__ = ("descriptor", "handle")

    def __init__(self, descriptor: Descriptor, handle: Handle) -> None:
        self.descriptor = descriptor
        self.handle = handle

    def read(self) -> bytes:
        """Return a copy of the values."""
        return memory.read(self.descriptor.number, self.handle.size_bytes, memory.VALUES_AT)


Shared = Memfd | Lease
"""Where values are: in a memfd, or in a block of a publisher's segment."""


class SharedBatch(Batch):
    """One MESSAGES frame whose values are in shared memory.

    Args:
        frame: The frame, taken apart; without SHARED, its body as it came.
        shared: The memory that holds its values.
    """

    __slots__ = ("_bytes", "_frame", "shared", "shared_frame")

    shared_frame: bytes
    """The frame for those who take shared memory, ready for the wire."""

    def __init__(self, frame: Frame, shared: Shared) -> None:
        self.messages = frame.messages
        self.frames_bytes = plain_bytes(frame, shared.handle.size_bytes)
        self.size_bytes = self.frames_bytes + BATCH_OVERHEAD_BYTES
        self.shared = shared
        self.shared_frame = encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags | FLAG_SHARED)
        self._forms = None
        self.origin = None
        self._is_sound = False
        self._frame = frame
        # Empty until somebody needs the values as bytes; from then on the frame that holds them.
        self._bytes = b""

    def __repr__(self) -> str:
        return f"<SharedBatch of {self.messages} messages, {self.shared.handle.size_bytes} bytes>"

    @property
    def is_block(self) -> bool:
        """Whether the publisher may take the memory back, as it may with a block."""
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
        """Return the topic of the one frame, for which nobody needs the values."""
        return (self._frame.topic,)

    def copy(self) -> None:
        """Make `frames` now.

        Raises:
            RejectedError: It is a block, and gone.
        """
        if self._bytes:
            return
        frame = self._frame
        count = frame.body[: BATCH_COUNT.size] if frame.flags & FLAG_BATCH else b""
        self._bytes = encode_frame(frame.kind, count + self.shared.read(), key=frame.key, flags=frame.flags)

    def split(self, messages: int) -> tuple[Batch, Batch | None]:  # noqa: ARG002 -- wherever: it is not cut
        """Return the batch whole: its values go together."""
        return self, None

    def _cuts(self) -> Iterator[tuple[int, int, int]]:
        yield self.messages, self.size_bytes, 0


class SharedValues(bytes):
    """A handle, as it stands in a REQUEST or REPLY, and the memory that it speaks of."""

    shared: Shared

    @classmethod
    def of(cls, values: bytes, shared: Shared) -> SharedValues:
        """Join a handle and the memory that it speaks of."""
        joined = cls(values)
        joined.shared = shared
        return joined

    @property
    def shared_bytes(self) -> int:
        """How much the values take beside the handle, bytes."""
        return self.shared.handle.size_bytes

    def plain(self, flags: int) -> bytes:
        """Return the values themselves.

        Args:
            flags: Flags of the frame.

        Raises:
            RejectedError: It is a block, and gone.
        """
        count = self[: BATCH_COUNT.size] if flags & FLAG_BATCH else b""
        return count + self.shared.read()
