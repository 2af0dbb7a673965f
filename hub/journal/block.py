"""`Block`: a frozen view of one block, and its records.

A block is bytes (`hub.journal.layout` draws them). `Block.parse` checks them once, all of it, and lays views over the
columns: nothing is copied. Programs that work on arrays use the columns; others iterate over `records`.

The functions beside it take and return blocks as bytes. They are those of `hub.journal.packing` and
`unpacking`, compiled where that was possible; what they say of a damaged block is a `JournalCorruptError`
here. They look at the columns, not at the checksum: that is verified where a block comes in, by `Block.parse`.

Invariants: a `Block` was checked; its views live as long as it does, and keep the bytes alive.

Cost: of `parse`, 18 ns a record of 100 bytes, all but 1 of it the checksum, and 0.1 µs more where nothing is compiled;
of `records`, 0.6 µs each. Not here: files, and who is sent what (`peers`).
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
    time_us: int
    """Time at which the hub took the message, µs since 1970 UTC."""

    topic: str
    encoding: int
    """`hub.frame.Encoding` of the body."""

    body: bytes
    """The value, as it was published."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block:
    """A checked block, and views of its columns.

    Attributes:
        data: All bytes of the block.
        count: How many records it has, 1 to 65,536.
        first: Offset of the first record.
        next: Offset behind the last record.
        times: Times of the records, µs since 1970 UTC.
        offsets: Offsets of the records; None if they have no gaps: record i has `first` + i.
        topic_nos: Numbers of their topics, as indexes into `topics`.
        value_ends: Value i is `values[value_ends[i]:value_ends[i + 1]]`.
        topics: The topics of the records, each once.
        encodings: Encodings of the values; None if all are msgpack.
        values: The values, back to back.
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
        """Check a block and lay views over it.

        Args:
            data: All of one block.
            verify: Whether to look at the checksum, too. It need not be where the giver of the block has done that.

        Raises:
            JournalCorruptError: It is not a block, or damaged.
        """
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
        """Yield the records, in order."""
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
    """Choose records of a block: see `hub.journal.packing.select`.

    Raises:
        JournalCorruptError: The block is damaged.
        IndexError: `wanted` is not as long as the dictionary.
    """
    try:
        return _select(block, start, end, wanted)
    except ValueError as error:
        raise _corrupt(error) from error


def merge(blocks: list[bytes]) -> bytes:
    """Make one block of several: see `hub.journal.packing.merge`.

    Raises:
        JournalCorruptError: One is damaged, or they are not dense and consecutive, or too many for one block.
    """
    try:
        return _merge(blocks)
    except ValueError as error:
        raise _corrupt(error) from error


def to_frames(block: bytes, limit_bytes: int = FRAME_BYTES) -> list[tuple[bytes, int]]:
    """Turn a block into MESSAGES frames: see `hub.journal.packing.to_frames`.

    Raises:
        JournalCorruptError: The block is damaged.
    """
    try:
        return _to_frames(block, limit_bytes)
    except ValueError as error:
        raise _corrupt(error) from error
