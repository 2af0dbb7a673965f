"""An excerpt: a block without the columns that its reader has not requested.

```
block     header  times  offsets  topic_nos  value_ends  topic_ends  encodings  text  values
                  time   offset   topic      value       topic       value      topic value      columns
excerpt   header  the sections of the requested columns, as they stand in the block
```

The header is that of a block with the magic HJX1, and flags for missing columns: 4 `offset`, 8 `time`, 16 `topic`,
32 `value`; the lengths of their sections are 0. An excerpt travels; it is not stored.
"""

from __future__ import annotations

from collections.abc import Collection
from struct import error as StructError  # noqa: N812 -- a class
from typing import Final
from zlib import crc32

from hub.errors import JournalCorruptError
from hub.journal.layout import (
    BLOCK_HEADER,
    CHECKED_FROM,
    ENCODINGS,
    RECORDS_LIMIT,
    SPARSE,
    Column,
    Sections,
    join_sections,
    places_of,
    section_sizes,
)

_MAGIC: Final = b"HJX1"

_LEFT_OUT: Final[dict[Column, int]] = {"offset": 4, "time": 8, "topic": 16, "value": 32}
"""Flags of missing columns."""

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
    header = BLOCK_HEADER.pack(_MAGIC, 0, count, topics, topic_bytes, flags | left_out, value_bytes, first)
    body = b"".join([header[CHECKED_FROM:], *kept])
    return _MAGIC + crc32(body).to_bytes(4, "little") + body


def whole_of(data: bytes) -> bytes:
    """Return an excerpt as a block, with time 0, empty topics and values, and dense offsets for missing columns.

    Other bytes are returned as they are. The block is yet to be checked by `Block.parse`. Raises `JournalCorruptError`.
    """
    if data[: len(_MAGIC)] != _MAGIC:
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
