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

Readers with arrays (Arrow, numpy) take columns as they are; a run of one topic goes out as one slice of the values.
`read_layout` checks all columns, so that a wrong one is found also under a right checksum.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate, islice, pairwise
from operator import ge, gt
from struct import Struct
from typing import Final, Literal, NamedTuple, get_args
from zlib import crc32

if sys.byteorder != "little":  # pragma: no cover -- a column is read as it stands, here and in every reader
    raise ImportError("the journal works on little-endian machines only: its columns are mapped, not decoded")

MAGIC = b"HJB1"

BLOCK_HEADER = Struct("<4sIIIIIQq")

CHECKED_FROM = 8
"""The checksum covers the bytes from here on."""

SPARSE = 0b01
"""Offsets have gaps, and a column of their own."""

ENCODINGS = 0b10
"""Some values are not msgpack: a column says which."""

RECORDS_LIMIT = 65_536
"""Most records in one block: as many as one frame may hold."""

SECTION_LIMIT_BYTES = 2**31 - 1
"""Longest text, and longest values, of one block: ends are signed 32-bit numbers, as in Arrow."""

TOPIC_LIMIT_BYTES = 2**16 - 1
"""Longest topic: the key length of a frame has 16 bits."""

OFFSET_LIMIT = 2**62
"""Offsets are below it, so that sums of two do not overflow."""

Column = Literal["offset", "time", "topic", "value"]
"""The columns that can be requested; see `hub.journal.excerpt`."""

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
    offsets: memoryview | range
    """A range if the block is dense."""
    topic_nos: memoryview
    value_ends: memoryview
    topic_ends: memoryview
    encodings: memoryview | bytes
    """Zeros if the block has no such column."""
    text: memoryview
    values: memoryview

    def topic(self, number: int) -> bytes:
        return bytes(self.text[self.topic_ends[number] : self.topic_ends[number + 1]])

    def value(self, index: int) -> bytes:
        return bytes(self.values[self.value_ends[index] : self.value_ends[index + 1]])


class Records(NamedTuple):
    """The records of a new block, column by column."""

    times: Sequence[int]
    offsets: Sequence[int]
    topic_nos: Sequence[int]
    encodings: Sequence[int]
    topics: Sequence[bytes]
    values: Sequence[bytes]


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
    offsets: bytes | memoryview
    """Empty: the block is dense."""
    topic_nos: bytes | memoryview
    value_ends: bytes | memoryview
    topic_ends: bytes | memoryview
    encodings: bytes | memoryview
    """Empty: all are msgpack."""
    text: bytes | memoryview
    values: bytes | memoryview


def write_block(records: Records) -> bytes:
    """Return a block: dense if offsets have no gaps, without a column of encodings if all are msgpack."""
    count, first = len(records.values), records.offsets[0]
    sparse = records.offsets[-1] - first != count - 1
    sections = Sections(
        array("q", records.times).tobytes(),
        array("q", records.offsets).tobytes() if sparse else b"",
        array("i", records.topic_nos).tobytes(),
        array("i", accumulate(map(len, records.values), initial=0)).tobytes(),
        array("i", accumulate(map(len, records.topics), initial=0)).tobytes(),
        bytes(records.encodings) if any(records.encodings) else b"",
        b"".join(records.topics),
        b"".join(records.values),
    )
    return join_sections(first, count, len(records.topics), sections)


def join_sections(first: int, count: int, topics: int, sections: Sections) -> bytes:
    """Return a block of sections; nothing is checked."""
    views = [memoryview(section).cast("B") for section in sections]
    flags = SPARSE * bool(views[1]) | ENCODINGS * bool(views[5])
    header = BLOCK_HEADER.pack(MAGIC, 0, count, topics, len(views[6]), flags, len(views[7]), first)
    body = b"".join([header[CHECKED_FROM:], *(part for view in views for part in (view, bytes(-len(view) % 8)))])
    return MAGIC + crc32(body).to_bytes(4, "little") + body
