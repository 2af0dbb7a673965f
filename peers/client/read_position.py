"""`ReadPosition`: where in the journal the reader of a stream stands. See the class for how that is known."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from hub.batch import Batch, Message
from hub.journal.block import Block, to_frames
from hub.journal.message import RecordedMessage
from peers.client.values import decode_batch

__all__ = [
    "Decode",
    "ReadPosition",
    "RecordedBatch",
    "decoded",
    "recorded_batches",
]

_NUMBER_BYTES = 8

Decode = Callable[[Batch, type[Message]], list[Message]]


class RecordedBatch(Batch):
    """Messages of a journal, with their offsets and times.

    Args:
        frames: Whole MESSAGES frames.
        offsets: Offsets of the messages, in their order.
        times_us: Times of the messages, µs since 1970 UTC.
    """

    __slots__ = ("offsets", "times_us")

    def __init__(self, frames: bytes, offsets: Sequence[int], times_us: Sequence[int]) -> None:
        super().__init__(frames, len(offsets))
        self.offsets = offsets
        self.times_us = times_us
        self.size_bytes += 2 * _NUMBER_BYTES * len(offsets)


def decoded(batch: Batch, decode: Decode) -> list[Message]:
    """Decode a batch; messages of a journal get their offsets and times.

    Args:
        batch: A batch of a journal, or one that was delivered live.
        decode: From a batch, and the class to make, to its messages; leaves out, and reports by itself, those that
            cannot be read.
    """
    if not isinstance(batch, RecordedBatch):
        return decode(batch, Message)
    messages = decode(batch, RecordedMessage)
    if len(messages) != batch.messages:
        return list(_readable(batch))
    recorded = cast("list[RecordedMessage]", messages)  # a journal keeps no labels: all are of that class
    for message, offset, time_us in zip(recorded, batch.offsets, batch.times_us, strict=True):
        message.offset = offset
        message.time_us = time_us
    return messages


def _readable(batch: RecordedBatch) -> Iterator[Message]:
    """Yield the messages that can be read, one by one, so that each gets the offset that is its."""
    rest: Batch | None = batch
    for offset, time_us in zip(batch.offsets, batch.times_us, strict=True):
        if rest is None:
            return
        first, rest = rest.split(1)
        for topic, value in decode_batch(first)[0]:
            yield RecordedMessage(topic, value, offset, time_us)


class ReadPosition:
    """Where in the journal the reader of a stream stands, as far as that is known.

    ```
    put, put, reached(120), put, reached(180), put ...      the stream is given batches, and is told what they were
                    │ decode   decode │ taken               the reader takes some of them
                    ▼                 ▼
                 position 0 ──▶ 120 ──▶ ...                 moves on with the next call, when they are done with
    ```

    Owner: one stream, whose source puts; the reader's side is called by its inbox. Invariants: `position` never is
    behind something that was not handed out, and `epoch` is that in which it was told; it goes back only where the end
    of the journal was lost. Cost: O(1) a batch.

    Args:
        decode: From a batch, and the class to make, to messages.
    """

    __slots__ = ("_batches", "_decode", "_decoded", "_done", "_offsets", "_taken", "epoch", "live", "position")

    position: int | None
    """Everything recorded before this offset was read; None where the stream did not begin in the journal."""
    epoch: int
    """The epoch of the journal in which that offset was told; 0 where nobody knows."""
    live: bool
    """True once all history was put; nothing makes it False again."""

    def __init__(self, decode: Decode) -> None:
        self.position = None
        self.epoch = 0
        self.live = False
        self._decode = decode
        # How many batches were put.
        self._batches = 0
        # How many of them were decoded.
        self._decoded = 0
        # How many of them were decoded by calls that have returned.
        self._taken = 0
        # How many of them were taken by calls before the last one: the reader is done with these.
        self._done = 0
        # Offsets that were reached, each with how many batches go before it, and its epoch.
        self._offsets: deque[tuple[int, int, int]] = deque()

    # The source.

    def begin(self, offset: int, epoch: int) -> None:
        """Begin at an offset: what is put first was recorded from there on."""
        self.position, self.epoch = offset, epoch

    def put(self) -> None:
        """Take note that one more batch is put into the stream."""
        self._batches += 1

    def reached(self, offset: int, epoch: int) -> None:
        """Take note that all that was recorded before this offset was put."""
        self._offsets.append((self._batches, offset, epoch))
        self._advance()

    # The reader.

    def decode(self, batch: Batch) -> list[Message]:
        """Decode a batch that is taken."""
        self._decoded += 1
        return decoded(batch, self._decode)

    def taken(self) -> None:
        """Take note that a call has taken what was decoded; the reader is done with what the call before it took."""
        self._done, self._taken = self._taken, self._decoded
        self._advance()

    def _advance(self) -> None:
        offsets = self._offsets
        while offsets and offsets[0][0] <= self._done:
            _, self.position, self.epoch = offsets.popleft()


def recorded_batches(block: bytes) -> Iterator[RecordedBatch]:
    """Yield the messages of a block, in order.

    Raises:
        JournalCorruptError: The bytes are no block.
    """
    columns = Block.parse(block, verify=False)
    offsets = range(columns.first, columns.next) if columns.offsets is None else _copied(columns.offsets)
    times_us = _copied(columns.times)
    start = 0
    for frames, messages in to_frames(block):
        end = start + messages
        yield RecordedBatch(frames, offsets[start:end], times_us[start:end])
        start = end


def _copied(column: memoryview) -> Sequence[int]:
    """Return numbers that do not keep the whole block in memory for as long as a slow reader has not come to them."""
    return array("q", column.tobytes())
