"""`Block`: a checked view of one block, and its records.

The functions beside it take and return blocks as bytes: those of `hub.journal.packing`, compiled if possible. They
check the columns but not the checksum, which `Block.parse` verifies where a block comes in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from hub.errors import JournalCorruptError
from hub.journal.layout import CHECKED_FROM, columns_of
from hub.journal.packing import FRAME_BYTES

try:
    from hub.journal._packing import frames_of_columns, pack, read_layout, whole_checksum
    from hub.journal._packing import merge as _merge
    from hub.journal._packing import select as _select
    from hub.journal._packing import to_frames as _to_frames
except ImportError:  # not built: no compiler was there
    from hub.journal.layout import read_layout
    from hub.journal.packing import frames_of_columns, pack, whole_checksum
    from hub.journal.packing import merge as _merge
    from hub.journal.packing import select as _select
    from hub.journal.packing import to_frames as _to_frames

__all__ = ["Block", "Record", "frames_of_columns", "merge", "pack", "select", "to_frames", "whole_checksum"]


class Record(NamedTuple):
    """One message of the journal."""

    offset: int
    time_us: int  # when the hub took the message, µs since 1970 UTC
    topic: str
    encoding: int  # `hub.messages.frame.Encoding` of the body
    body: bytes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block:
    """A checked block, and views of its columns.

    `offsets` is None if they have no gaps: record i has `first` + i. `topic_nos` are indexes into `topics`. Value i is
    `values[value_ends[i]:value_ends[i + 1]]`. `encodings` is None if all are msgpack.
    """

    data: bytes | memoryview
    count: int
    first: int
    next: int
    times: memoryview
    offsets: memoryview | None
    topic_nos: memoryview
    value_ends: memoryview
    topics: list[str]
    encodings: memoryview | None
    values: memoryview

    def __repr__(self) -> str:
        return f"<Block of {self.count} records from {self.first} on, {len(self.data)} bytes>"

    @classmethod
    def parse(cls, data: bytes | memoryview, *, verify: bool = True) -> Block:
        """Check a block and lay views over it; without `verify`, not its checksum. Raises `JournalCorruptError`."""
        view = memoryview(data).cast("B")
        if verify and crc32(view[CHECKED_FROM:]) != int.from_bytes(view[4:CHECKED_FROM], "little"):
            raise _corrupt("its checksum does not match")
        try:
            layout = read_layout(view)
            columns = columns_of(view, layout)
            topics = [columns.topic(number).decode() for number in range(layout.topics)]
        except ValueError as error:
            raise _corrupt(error) from error
        return cls(
            data,
            layout.records,
            layout.first,
            columns.offsets[-1] + 1,
            columns.times,
            columns.offsets if isinstance(columns.offsets, memoryview) else None,
            columns.topic_nos,
            columns.value_ends,
            topics,
            columns.encodings if isinstance(columns.encodings, memoryview) else None,
            columns.values,
        )

    def records(self) -> Iterator[Record]:
        topics, values = self.topics, self.values
        start = 0
        for offset, time_us, topic_no, encoding, end in zip(
            self.offsets or range(self.first, self.next),
            self.times,
            self.topic_nos,
            self.encodings or bytes(self.count),
            self.value_ends[1:],
            strict=True,
        ):
            yield Record(offset, time_us, topics[topic_no], encoding, bytes(values[start:end]))
            start = end


def _corrupt(cause: object) -> JournalCorruptError:
    return JournalCorruptError(f"a block of the journal is damaged: {cause}; fetch it again or restore the journal")


def select(block: bytes, start: int, end: int, wanted: bytes | None = None) -> bytes:
    """See `hub.journal.packing.select`; raises `JournalCorruptError` if the block is damaged."""
    try:
        return _select(block, start, end, wanted)
    except ValueError as error:
        raise _corrupt(error) from error


def merge(blocks: list[bytes]) -> bytes:
    """See `hub.journal.packing.merge`; raises `JournalCorruptError` in place of `ValueError`."""
    try:
        return _merge(blocks)
    except ValueError as error:
        raise _corrupt(error) from error


def to_frames(block: bytes, limit_bytes: int = FRAME_BYTES) -> list[tuple[bytes, int]]:
    """See `hub.journal.packing.to_frames`; raises `JournalCorruptError` if the block is damaged."""
    try:
        return _to_frames(block, limit_bytes)
    except ValueError as error:
        raise _corrupt(error) from error
