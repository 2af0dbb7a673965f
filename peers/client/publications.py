"""`Publications`: what a client has published and not yet handed to its connection, as frames, bounded in bytes.

```
append(topic, packed) ─▶ open: values of one topic ──other topic, 64 KiB, end of the turn──▶ sealed frames ─▶ take()
```

Values published one after the other to the same topic leave as one BATCH frame. A value for another topic closes the
batch, so that the order over all topics is the order of the calls.

Owner: one client; not thread-safe. No I/O. Invariants: 0 ≤ `buffered_bytes` ≤ `limit_bytes`; a call that raises has
added nothing.

Cost: measured in docs/clients.md; O(1) a value. Memory: what is charged is the frames with the objects around them;
the values of the one open batch, at most 4096, cost 41 bytes each on top.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from struct import Struct

from hub.batch import Batch, encode_values
from hub.errors import BusyError, CloseCode, HubError, InvalidTopicError, RejectedError
from hub.frame import BATCH_COUNT, FLAG_CONFIRM, HEADER_BYTES, KIND_MESSAGES, Frame
from hub.tags.envelope import Envelope
from hub.topics import RESERVED, check_topic, printable
from peers.client.receipts import Receipt, Receipts
from peers.client.target import Target
from peers.shm.ring import BlockValues
from peers.wire.hello import FRAME_LIMIT_BYTES
from peers.wire.oversize import fitting

__all__ = ["BATCH_BYTES", "BUFFER_BYTES", "Publications", "checked_head"]

BUFFER_BYTES = 8 * 1024 * 1024
"""Default of most bytes that wait in a client: 80,000 messages of 100 bytes, or a second of a busy sensor."""

BATCH_BYTES = 64 * 1024
"""Largest body of a batch: beyond it a frame costs nothing more per message, only latency."""

_BATCH_VALUES = 4096
"""Most values of a batch, so that a client with tiny values does not hold an object for each byte."""

_LENGTH = Struct(">I")
_HEAD_BYTES = HEADER_BYTES - _LENGTH.size
_FLAGS_IN_HEAD = 1

_FRAME_OVERHEAD_BYTES = 48
"""What a sealed frame costs beside its bytes: the object (33), its place in a deque (8), rounded up."""

_TOPICS_LIMIT = 65_536
"""Most topics remembered as checked, by all publishers of a process; about 300 bytes each."""


class Publications:
    """The outbound buffer of one client.

    Args:
        limit_bytes: Most that is held.
    """

    __slots__ = (
        "_batch_limit",
        "_frame_limit",
        "_frames",
        "_head",
        "_open",
        "_open_bytes",
        "_overhead_bytes",
        "_receipts",
        "_topic",
        "buffered_bytes",
        "limit_bytes",
        "receipts",
        "sealed_messages",
    )

    def __init__(self, limit_bytes: int = BUFFER_BYTES) -> None:
        self.receipts = Receipts()
        """Of those frames that were taken; those of the others are with their frames."""
        self.limit_bytes = limit_bytes
        self.buffered_bytes = 0
        self.sealed_messages = 0
        self._frames: deque[tuple[bytes, int, list[Receipt]]] = deque()  # sealed: frame, number of its values
        self._receipts: list[Receipt] = []  # of the values that are open, if their publishers want to know
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._topic: Target | None = None
        self._head = b""
        self._overhead_bytes = 0  # of the frame that the open batch becomes
        self._frame_limit = FRAME_LIMIT_BYTES
        self._batch_limit = BATCH_BYTES

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._frames) or bool(self._open)

    @property
    def published_messages(self) -> int:
        """Values taken so far."""
        return self.sealed_messages + len(self._open)

    @property
    def buffered_messages(self) -> int:
        """Values that wait."""
        return sum(messages for _, messages, _ in self._frames) + len(self._open)

    def append(self, topic: Target, packed: bytes, receipt: Receipt | None = None) -> None:
        """Take a value that is msgpack already.

        Args:
            topic: Of the message, perhaps with labels and names.
            packed: The value.
            receipt: Gets the offset in the hub's journal.

        Raises:
            InvalidTopicError: No client may publish to this topic.
            RejectedError: The value is larger than what the hub takes, or than the whole buffer.
            BusyError: The buffer is full.
        """
        if topic != self._topic:
            self._turn_to(topic)
        if (receipt is None) is bool(self._receipts):
            self.seal()
        size = len(packed)
        if self._open_bytes + size > self._batch_limit or len(self._open) >= _BATCH_VALUES:
            if size > self._frame_limit:
                raise RejectedError(
                    CloseCode.TOO_BIG, f"a value of {size} bytes, the hub takes at most {self._frame_limit} bytes"
                )
            self.seal()
        charge = size if self._open else size + self._overhead_bytes
        if self.buffered_bytes + charge > self.limit_bytes:
            if charge > self.limit_bytes:
                raise RejectedError(
                    CloseCode.TOO_BIG, f"a value of {size} bytes, this client's buffer_bytes are {self.limit_bytes}"
                )
            raise BusyError(
                f"{self.buffered_bytes} bytes wait to be sent, the limit is {self.limit_bytes}: the hub or the network "
                f"is slower than this publisher; wait with `await publish()`, or connect with a larger buffer_bytes"
            )
        self.buffered_bytes += charge
        self._open_bytes += size
        self._open.append(packed)
        if receipt is not None:
            self._receipts.append(receipt)

    def seal(self) -> None:
        """End of the turn, or of a batch: what is open becomes a frame."""
        values = self._open
        if not values:
            return
        if len(values) == 1:  # topics in turn: the usual case where it matters
            head = _LENGTH.pack(self._open_bytes) + self._head
            value = values[0]
            frame = value.frame(head) if type(value) is BlockValues else head + value
            self.buffered_bytes -= BATCH_COUNT.size  # was charged, but one value alone has no count
        else:
            frame = encode_values(self._head[_HEAD_BYTES:], values, self._head[_FLAGS_IN_HEAD])
        receipts, self._receipts = self._receipts, []
        self._frames.append((_confirmable(frame) if receipts else frame, len(values), receipts))
        self.sealed_messages += len(values)
        self._open = []
        self._open_bytes = 0

    def take(self, limit_bytes: int) -> list[bytes]:
        """Remove and return the oldest frames, at least one if there is any.

        Args:
            limit_bytes: Stop when this much was taken.
        """
        if self._open:
            self.seal()
        frames = self._frames
        taken: list[bytes] = []
        size = 0
        while frames and size < limit_bytes:
            frame, _, receipts = frames.popleft()
            taken.append(frame)
            if receipts:
                self.receipts.expect(receipts)
            size += len(frame)
        self.buffered_bytes -= size + _FRAME_OVERHEAD_BYTES * len(taken)
        return taken

    def take_batches(self) -> list[Batch]:
        """Remove and return everything, as batches."""
        self.seal()
        batches = [Batch(frame, messages) for frame, messages, _ in self._frames]
        self._frames.clear()
        self.buffered_bytes = 0
        return batches

    def fit(self, frame_limit_bytes: int) -> int:
        """Obey the limit of the hub that is connected now.

        Returns:
            How many values that wait are larger than it takes, and were dropped.
        """
        self.seal()
        self._frame_limit = frame_limit_bytes
        self._batch_limit = min(BATCH_BYTES, frame_limit_bytes - BATCH_COUNT.size)
        if all(len(frame) - HEADER_BYTES <= frame_limit_bytes for frame, _, _ in self._frames):
            return 0
        waiting = list(self._frames)
        self._frames.clear()
        lost = sum([self._fit_frame(*one) for one in waiting])
        self.buffered_bytes = sum(len(frame) + _FRAME_OVERHEAD_BYTES for frame, _, _ in self._frames)
        return lost

    def _fit_frame(self, frame: bytes, messages: int, receipts: list[Receipt]) -> int:
        """Put a frame back, in pieces if need be; return how many of its values are lost."""
        lost = 0
        for piece in fitting([Batch(frame, messages)], self._frame_limit):
            if isinstance(piece, Batch):
                mine, receipts = receipts[: piece.messages], receipts[piece.messages :]
                self._frames.append((piece.frames, piece.messages, mine))
                continue
            lost += piece
            gone, receipts = receipts[:piece], receipts[piece:]
            for receipt in gone:
                receipt.settle(RejectedError(CloseCode.TOO_BIG, "the value is larger than what this hub takes"))
        return lost

    def clear(self, error: HubError) -> int:
        """Throw away what waits, because of `error`; return how many values that were."""
        lost = self.buffered_messages
        for receipts in (*(receipts for _, _, receipts in self._frames), self._receipts):
            for receipt in receipts:
                receipt.settle(error)
        self._frames.clear()
        self._receipts = []
        self._open = []
        self._open_bytes = self.buffered_bytes = 0
        return lost

    def _turn_to(self, topic: Target) -> None:
        """From now on, values are for another topic."""
        head = checked_head(topic)
        self.seal()
        self._topic = topic
        self._head = head
        self._overhead_bytes = _LENGTH.size + len(head) + BATCH_COUNT.size + _FRAME_OVERHEAD_BYTES


_FLAGS_AT = 5
"""Where the flags stand in a frame."""


def _confirmable(frame: bytes) -> bytes:
    """Return a frame with CONFIRM."""
    flags = frame[_FLAGS_AT] | FLAG_CONFIRM
    return b"%b%c%b" % (frame[:_FLAGS_AT], flags, frame[_FLAGS_AT + 1 :])


@lru_cache(_TOPICS_LIMIT)
def checked_head(topic: Target) -> bytes:
    """Return what stands between the length and the body of a frame with one value of this topic. Thread-safe.

    Raises:
        InvalidTopicError: No client may publish to it.
    """
    if isinstance(topic, Envelope):
        return topic.routing_key
    if check_topic(topic).startswith(RESERVED):
        raise InvalidTopicError(f"topic {printable(topic)}: {RESERVED} is the hub's own, clients do not publish to it")
    return Frame(KIND_MESSAGES, 0, topic.encode(), b"").routing_key
