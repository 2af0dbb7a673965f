"""`recorded_batches`: a block of the journal as batches for the reader of a stream; see `peers.client.recorded`."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from hub.journal.block import Block, to_frames
from peers.client.recorded import RecordedBatch

__all__ = ["recorded_batches"]


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
