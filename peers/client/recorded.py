"""`RecordedBatch`: messages of a journal on their way to the reader of a stream, with their offsets and times.

```
block of the journal ── recorded_batches ──▶ RecordedBatch ... ── decoded ──▶ [RecordedMessage, ...]
```

The values go the way of all others (frames, decoded when the reader comes to them), so that history is read as fast;
offsets and times go beside them, in order. Cost: about 0.4 µs a message. Not here: how a block is taken apart
(`peers.client.recorded_block`: only who reads the journal loads that), and blocks of history without an object for each
record (`peers.client.journal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from hub.batch import Batch, Message
from hub.journal.message import RecordedMessage
from peers.client.values import decode_batch

__all__ = ["Decode", "RecordedBatch", "decoded"]

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
