"""Parts: how a block is stored by groups of topics, so that whoever wants one topic reads the part that has it.

```
 0  u32  crc32 of the directory from byte 4 on           all little-endian
 4  u32  length of the directory
 8  u32  parts
12  u32  checksum of the block that they make
16  i64  first             offset of its first record
24  of the order, and of each part:  u32 stored_bytes  u32 raw_bytes  u32 crc32 as it is stored  u32 codec
         u32 listing_bytes
    the listings of their topics, one behind the other; the order has none
    the order, and the parts, one behind the other
```

This is the payload of an entry. The order says of each record which part has it (`hub.journal.weaving`), each part is a
block. The directory, the order and each part have checksums of their own, so that a part can be read alone.

Pure. Invariants: what `parse_directory` returns lies within the payload. Cost: 0.6 µs a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from hub.errors import JournalCorruptError
from hub.journal.layout import OFFSET_LIMIT, RECORDS_LIMIT
from hub.journal.weaving import PARTS_LIMIT

__all__ = ["DIRECTORY_HEAD_BYTES", "Directory", "Part", "directory_bytes", "encode_parts", "parse_directory"]

_HEAD = Struct("<IIIIq")

DIRECTORY_HEAD_BYTES = _HEAD.size

_PART = Struct("<IIIII")

_CHECKED_FROM = 4


class Part(NamedTuple):
    """The order, or a part of a block."""

    place: int
    """Where it begins, bytes from the start of the payload."""
    stored_bytes: int
    raw_bytes: int
    crc: int
    """Checksum of it as it is stored."""
    codec: int
    listing: bytes
    """Its topics, in short (`hub.journal.listing`); empty for the order."""


class Directory(NamedTuple):
    """What a block in parts consists of."""

    first: int
    """The offset of its first record."""
    checksum: int
    """That of the block which the parts make."""
    order: Part
    parts: list[Part]


def encode_parts(first: int, checksum: int, stored: Sequence[tuple[int, int, bytes, bytes]]) -> bytes:
    """Return a payload.

    Args:
        first: The offset of the first record.
        checksum: That of the block which the parts make.
        stored: Of the order, and then of each part: its codec, its length before it was stored, its listing, and the
            part as it is stored.
    """
    table = [
        _PART.pack(len(data), raw_bytes, crc32(data), codec, len(listing)) for codec, raw_bytes, listing, data in stored
    ]
    listed = b"".join([*table, *[one[2] for one in stored]])
    head = _HEAD.pack(0, _HEAD.size + len(listed), len(stored) - 1, checksum, first)
    checked = head[_CHECKED_FROM:] + listed
    return b"".join([crc32(checked).to_bytes(4, "little"), checked, *[one[3] for one in stored]])


def directory_bytes(start: bytes | memoryview) -> int:
    """Return how long a directory is.

    Args:
        start: Its first `DIRECTORY_HEAD_BYTES` or more.

    Raises:
        JournalCorruptError: They are fewer.
    """
    if len(start) < _HEAD.size:
        raise JournalCorruptError("the directory of a block is cut off")
    size: int = _HEAD.unpack_from(start)[1]
    return size


def parse_directory(data: bytes | memoryview, payload_bytes: int) -> Directory:
    """Read a directory.

    Args:
        data: All of it, or more.
        payload_bytes: Length of the payload.

    Raises:
        JournalCorruptError: It is damaged, or cannot be.
    """
    size = directory_bytes(data)
    if not _HEAD.size <= size <= min(len(data), payload_bytes):
        raise JournalCorruptError("the directory of a block is cut off")
    crc, _, count, checksum, first = _HEAD.unpack_from(data)
    if crc != crc32(memoryview(data)[_CHECKED_FROM:size]):
        raise JournalCorruptError("the checksum of a block's directory does not match")
    found = _parts(data, size, count + 1) if 0 < count <= PARTS_LIMIT else []
    end = found[-1].place + found[-1].stored_bytes if found else 0
    if not found or end != payload_bytes or not 0 <= first < OFFSET_LIMIT or found[0].raw_bytes > RECORDS_LIMIT:
        raise JournalCorruptError("the directory of a block does not fit what stands behind it")
    return Directory(first, checksum, found[0], found[1:])


def _parts(data: bytes | memoryview, size: int, count: int) -> list[Part]:
    """Return the order and the parts; none where they do not fill the directory."""
    at = _HEAD.size + count * _PART.size
    if at > size:
        return []
    found: list[Part] = []
    place = size
    listings = bytes(data[at:size])
    at = 0
    for stored, raw, crc, codec, listing_bytes in _PART.iter_unpack(data[_HEAD.size : size - len(listings)]):
        found.append(Part(place, stored, raw, crc, codec, listings[at : at + listing_bytes]))
        at += listing_bytes
        place += stored
    return found if at == len(listings) else []
