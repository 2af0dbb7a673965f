"""The layout of a block: the unit in which records are stored and travel.

```
 0  4s   magic HJB1                        all little-endian; each section begins at a multiple of 8
 4  u32  crc32 of all bytes from 8 on
 8  u32  count         records
12  u32  topics        entries of the topic dictionary
16  u32  topic_bytes   length of its text
20  u32  flags         1 SPARSE: offsets there; 2 ENCODINGS: encodings there, else all are msgpack
24  u64  value_bytes   length of the values
32  i64  first         offset of the first record; record i of a dense block has offset first + i
40  times      i64[count]       µs since 1970 UTC, when the hub took the message
    offsets    i64[count]       SPARSE only: ascending, offsets[0] == first
    topic_nos  i32[count]       index into the dictionary
    value_ends i32[count + 1]   value i is values[value_ends[i]:value_ends[i + 1]]
    topic_ends i32[topics + 1]  the same for the dictionary
    encodings  u8[count]        ENCODINGS only: `hub.messages.frame.Encoding`
    text       u8[topic_bytes]  of the dictionary, UTF-8
    values     u8[value_bytes]
```

An excerpt is a block without some columns, for a reader that has not requested them: the magic HJX1, flags for missing
columns (4 `offset`, 8 `time`, 16 `topic`, 32 `value`), and the sections of the others. It travels; it is not stored.

Readers with arrays (Arrow, numpy) take columns as they are; a run of one topic goes out as one slice of the values.
`read_layout` checks all columns, so that a wrong one is found also under a right checksum.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Sequence
from itertools import accumulate, islice, pairwise
from operator import ge, gt
from struct import Struct
from struct import error as StructError  # noqa: N812 -- a class
from typing import Final, Literal, NamedTuple, get_args
from zlib import crc32

from hub.errors import JournalCorruptError

if sys.byteorder != "little":  # pragma: no cover -- a column is read as it stands, here and in every reader
    raise ImportError("the journal works on little-endian machines only: its columns are mapped, not decoded")

MAGIC = b"HJB1"
BLOCK_HEADER = Struct("<4sIIIIIQq")
CHECKED_FROM = 8  # the checksum covers the bytes from here on
SPARSE = 0b01  # offsets have gaps, and a column of their own
ENCODINGS = 0b10  # some values are not msgpack: a column says which
RECORDS_LIMIT = 65_536  # most records in one block: as many as one frame may hold
SECTION_LIMIT_BYTES = 2**31 - 1  # of one block's text, and values: ends are signed 32-bit numbers, as in Arrow
TOPIC_LIMIT_BYTES = 2**16 - 1  # longest topic: the key length of a frame has 16 bits
OFFSET_LIMIT = 2**62  # offsets are below it, so that sums of two do not overflow
Column = Literal["offset", "time", "topic", "value"]  # the columns that can be requested; see `excerpt_of`
COLUMNS: Final[tuple[Column, ...]] = get_args(Column)
_ENCODING_LIMIT = 0b11  # the bits that a frame has for it


class Layout(NamedTuple):
    """The header of a block, and where its sections begin, bytes from its start."""

    records: int
    topics: int
    topic_bytes: int
    flags: int
    value_bytes: int
    first: int
    times: int
    offsets: int
    topic_nos: int
    value_ends: int
    topic_ends: int
    encodings: int
    text: int
    values: int


class Columns(NamedTuple):
    """The sections of a block, as views."""

    times: memoryview
    offsets: memoryview | range  # a range if the block is dense
    topic_nos: memoryview
    value_ends: memoryview
    topic_ends: memoryview
    encodings: memoryview | bytes  # zeros if the block has no such column
    text: memoryview
    values: memoryview

    def topic(self, number: int) -> bytes:
        return bytes(self.text[self.topic_ends[number] : self.topic_ends[number + 1]])

    def value(self, index: int) -> bytes:
        return bytes(self.values[self.value_ends[index] : self.value_ends[index + 1]])


def columns_of(view: memoryview, layout: Layout) -> Columns:
    count = layout.records
    return Columns(
        view[layout.times : layout.times + 8 * count].cast("q"),
        view[layout.offsets : layout.offsets + 8 * count].cast("q")
        if layout.flags & SPARSE
        else range(layout.first, layout.first + count),
        view[layout.topic_nos : layout.topic_nos + 4 * count].cast("i"),
        view[layout.value_ends : layout.value_ends + 4 * (count + 1)].cast("i"),
        view[layout.topic_ends : layout.topic_ends + 4 * (layout.topics + 1)].cast("i"),
        view[layout.encodings : layout.encodings + count] if layout.flags & ENCODINGS else bytes(count),
        view[layout.text : layout.text + layout.topic_bytes],
        view[layout.values : layout.values + layout.value_bytes],
    )


def read_layout(block: bytes | memoryview) -> Layout:
    """Find the sections of a block and check all of it but the checksum; raises `ValueError` with the place."""
    view = memoryview(block)
    if len(view) < BLOCK_HEADER.size:
        raise ValueError(f"{len(view)} bytes are shorter than a header")
    magic, _, count, topics, topic_bytes, flags, value_bytes, first = BLOCK_HEADER.unpack_from(view)
    if magic != MAGIC:
        raise ValueError("it does not begin with HJB1")
    if flags & ~(SPARSE | ENCODINGS):
        raise ValueError(f"flags {flags} are not known to this version")
    if not 0 < count <= RECORDS_LIMIT or not 0 < topics <= count or not 0 <= first < OFFSET_LIMIT:
        raise ValueError(f"{count} records of {topics} topics from {first} on cannot be")
    if topic_bytes > SECTION_LIMIT_BYTES or value_bytes > SECTION_LIMIT_BYTES:
        raise ValueError(f"{topic_bytes} bytes of topics or {value_bytes} of values are too many")
    *places, end = places_of(section_sizes(count, topics, topic_bytes, flags, value_bytes))
    if end != len(view):
        raise ValueError(f"it has {len(view)} bytes and says {end}")
    layout = Layout(count, topics, topic_bytes, flags, value_bytes, first, *places)
    _check_columns(columns_of(view, layout), layout)
    return layout


def section_sizes(count: int, topics: int, topic_bytes: int, flags: int, value_bytes: int) -> list[int]:
    """Return the length of each section, bytes, without padding."""
    return [
        8 * count,
        8 * count if flags & SPARSE else 0,
        4 * count,
        4 * (count + 1),
        4 * (topics + 1),
        count if flags & ENCODINGS else 0,
        topic_bytes,
        value_bytes,
    ]


def places_of(sizes: Sequence[int]) -> list[int]:
    """Return where sections of such lengths begin, and where the last one ends with its padding."""
    return list(accumulate((size + -size % 8 for size in sizes), initial=BLOCK_HEADER.size))


def _check_columns(columns: Columns, layout: Layout) -> None:
    if min(columns.topic_nos) < 0 or max(columns.topic_nos) >= layout.topics:
        raise ValueError("a topic is not in the dictionary")
    _check_ends("values", columns.value_ends, layout.value_bytes)
    _check_ends("topics", columns.topic_ends, layout.topic_bytes)
    if any(end - start > TOPIC_LIMIT_BYTES for start, end in pairwise(columns.topic_ends)):
        raise ValueError("a topic is longer than a frame can bear")
    if max(columns.encodings) > _ENCODING_LIMIT:
        raise ValueError("an encoding has more than two bits")
    offsets = columns.offsets
    if offsets[0] != layout.first or offsets[-1] >= OFFSET_LIMIT or any(map(ge, offsets, islice(offsets, 1, None))):
        raise ValueError(f"the offsets do not ascend from {layout.first} on")


def _check_ends(name: str, ends: Sequence[int], length: int) -> None:
    if ends[0] != 0 or ends[-1] != length or any(map(gt, ends, islice(ends, 1, None))):
        raise ValueError(f"the ends of {name} do not ascend from 0 to {length}")


class Sections(NamedTuple):
    """The sections of a new block, in their order."""

    times: bytes | memoryview
    offsets: bytes | memoryview  # empty: the block is dense
    topic_nos: bytes | memoryview
    value_ends: bytes | memoryview
    topic_ends: bytes | memoryview
    encodings: bytes | memoryview  # empty: all are msgpack
    text: bytes | memoryview
    values: bytes | memoryview


def write_block(  # noqa: PLR0913, PLR0917 -- the columns
    times: Sequence[int],
    offsets: Sequence[int],
    topic_nos: Sequence[int],
    encodings: Sequence[int],
    topics: Sequence[bytes],
    values: Sequence[bytes],
) -> bytes:
    """Return a block: dense if offsets have no gaps, without a column of encodings if all are msgpack."""
    is_sparse = offsets[-1] - offsets[0] != len(values) - 1
    sections = Sections(
        array("q", times).tobytes(),
        array("q", offsets).tobytes() if is_sparse else b"",
        array("i", topic_nos).tobytes(),
        array("i", accumulate(map(len, values), initial=0)).tobytes(),
        array("i", accumulate(map(len, topics), initial=0)).tobytes(),
        bytes(encodings) if any(encodings) else b"",
        b"".join(topics),
        b"".join(values),
    )
    return join_sections(offsets[0], len(values), len(topics), sections)


def join_sections(first: int, count: int, topics: int, sections: Sections) -> bytes:
    """Return a block of sections; nothing is checked."""
    views = [memoryview(section).cast("B") for section in sections]
    flags = SPARSE * bool(views[1]) | ENCODINGS * bool(views[5])
    header = BLOCK_HEADER.pack(MAGIC, 0, count, topics, len(views[6]), flags, len(views[7]), first)
    body = b"".join([header[CHECKED_FROM:], *(part for view in views for part in (view, bytes(-len(view) % 8)))])
    return MAGIC + crc32(body).to_bytes(4, "little") + body


_EXCERPT_MAGIC: Final = b"HJX1"
_LEFT_OUT: Final[dict[Column, int]] = {"offset": 4, "time": 8, "topic": 16, "value": 32}  # flags of missing columns
_OF_SECTIONS: Final[tuple[Column, ...]] = ("time", "offset", "topic", "value", "topic", "value", "topic", "value")
"""The column of each section of a block."""


def excerpt_of(block: bytes, columns: Collection[Column]) -> bytes:
    """Return these columns of a checked block: the block itself where that is all of it."""
    left_out = sum(flag for column, flag in _LEFT_OUT.items() if column not in columns)
    if not left_out:
        return block
    _, _, count, topics, topic_bytes, flags, value_bytes, first = BLOCK_HEADER.unpack_from(block)
    places = places_of(section_sizes(count, topics, topic_bytes, flags, value_bytes))
    view = memoryview(block)
    kept = [
        view[places[number] : places[number + 1]] for number, column in enumerate(_OF_SECTIONS) if column in columns
    ]
    if "topic" not in columns:
        topics = topic_bytes = 0
    if "value" not in columns:
        value_bytes, flags = 0, flags & ~ENCODINGS
    if "offset" not in columns:
        flags &= ~SPARSE
    header = BLOCK_HEADER.pack(_EXCERPT_MAGIC, 0, count, topics, topic_bytes, flags | left_out, value_bytes, first)
    body = b"".join([header[CHECKED_FROM:], *kept])
    return _EXCERPT_MAGIC + crc32(body).to_bytes(4, "little") + body


def whole_of(data: bytes) -> bytes:
    """Return an excerpt as a block, with time 0, empty topics and values, and dense offsets for missing columns.

    Other bytes are returned as they are. The block is yet to be checked by `Block.parse`. Raises `JournalCorruptError`.
    """
    if data[: len(_EXCERPT_MAGIC)] != _EXCERPT_MAGIC:
        return data
    try:
        return _whole(memoryview(data))
    except (ValueError, StructError) as error:
        raise JournalCorruptError(f"an excerpt of the journal is damaged: {error}; fetch it again") from error


def _whole(view: memoryview) -> bytes:
    _, checksum, count, topics, topic_bytes, flags, value_bytes, first = BLOCK_HEADER.unpack_from(view)
    if crc32(view[CHECKED_FROM:]) != checksum:
        raise ValueError("its checksum does not match")
    if not 0 < count <= RECORDS_LIMIT:
        raise ValueError(f"{count} records cannot be")
    there = [not flags & _LEFT_OUT[column] for column in _OF_SECTIONS]
    said = section_sizes(count, topics, topic_bytes, flags, value_bytes)
    sizes = [size if is_there else 0 for size, is_there in zip(said, there, strict=True)]
    *places, end = places_of(sizes)
    if end != len(view):
        raise ValueError(f"it has {len(view)} bytes and says {end}")
    nothing = section_sizes(count, topics=1, topic_bytes=0, flags=0, value_bytes=0)
    sections = [
        view[place : place + size] if is_there else bytes(empty)
        for place, size, empty, is_there in zip(places, sizes, nothing, there, strict=True)
    ]
    return join_sections(first, count, 1 if flags & _LEFT_OUT["topic"] else topics, Sections(*sections))
