"""`Entry`: what a segment consists of behind its header: blocks, marks and one footer.

```
 0  4s   magic HJE1                         all little-endian; an entry begins at a multiple of 8
 4  u32  crc32 of the bytes 8 to 64, and of the listing
 8  u8   kind            1 BLOCK   2 MARK   3 FOOTER
 9  u8   codec           how the payload is stored: 0 as it is, 1 compressed with zstd
10  u16  0
12  u32  records         of a block
16  u32  stored_bytes    length of the payload as it is stored
20  u32  raw_bytes       length of the payload before it was compressed
24  u32  listing_bytes   length of the listing
28  u32  crc32 of the payload as it is stored
32  i64  first           offset of the first record; of a mark and a footer: the same as `next`
40  i64  next            offset behind the last record
48  i64  earliest_us     times of the records
56  i64  latest_us
64  listing              topics of a block, in short (`hub.journal.listing`)
    payload              a block, what a mark says, or the footer
```

The head has a checksum of its own, so that a reader passes from entry to entry without a look at the payloads.

Invariants: what `read_head` returns is sound, and the entry has the size that it says; whether all of it is there, the
caller sees. What a payload holds is not looked at here. Cost: O(1), 1 µs, and the checksum of what is written.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from hub.errors import JournalCorruptError
from hub.journal.layout import OFFSET_LIMIT, RECORDS_LIMIT

__all__ = ["HEAD", "LISTING_LIMIT_BYTES", "Head", "Kind", "encode", "padded", "parts_of", "payload_of", "read_head"]

HEAD = Struct("<4sIBBHIIIIIqqqq")
"""Magic, checksum, kind, codec, nothing, records, stored, raw, listing, checksum of the payload, offsets, times."""

_MAGIC = b"HJE1"

_CHECKED_FROM = 8
"""Place of the first byte of the head that its checksum covers."""

LISTING_LIMIT_BYTES = 8 * 1024 * 1024
"""Longest listing: `hub.journal.listing` has at most 64 texts, each as long as a topic may be at most."""


class Kind(IntEnum):
    """What an entry is."""

    BLOCK = 1
    MARK = 2
    FOOTER = 3


class Head(NamedTuple):
    """What an entry says of itself."""

    kind: Kind
    codec: int
    records: int
    stored_bytes: int
    raw_bytes: int
    crc: int
    """Checksum of the payload as it is stored."""
    first: int
    next: int
    earliest_us: int
    latest_us: int
    listing: bytes

    @property
    def payload_from(self) -> int:
        """Where the payload begins, bytes from the start of the entry."""
        return padded(HEAD.size + len(self.listing))

    @property
    def size_bytes(self) -> int:
        """Length of the entry, with what fills it up to a multiple of 8."""
        return padded(self.payload_from + self.stored_bytes)


def padded(size: int) -> int:
    """Return a length, filled up to a multiple of 8."""
    return size + -size % 8


def encode(head: Head, payload: bytes) -> bytes:
    """Return an entry.

    Args:
        head: What it says of itself; its checksums and its stored length are made here.
        payload: As it is stored.
    """
    return b"".join(parts_of(head, payload, crc32(payload)))


def parts_of(head: Head, payload: bytes, crc: int) -> list[bytes]:
    """Return an entry in parts, so that a large payload is not copied.

    Args:
        head: What it says of itself; its own checksum and its stored length are made here.
        payload: As it is stored; one of the parts.
        crc: Its checksum.
    """
    sizes = (head.records, len(payload), head.raw_bytes, len(head.listing), crc)
    rest = HEAD.pack(
        _MAGIC, 0, head.kind, head.codec, 0, *sizes, head.first, head.next, head.earliest_us, head.latest_us
    )
    checked = rest[_CHECKED_FROM:] + head.listing
    start = _MAGIC + crc32(checked).to_bytes(4, "little") + checked
    return [start + bytes(-len(start) % 8), payload, bytes(-len(payload) % 8)]


def read_head(data: bytes | memoryview, start: int = 0) -> Head:
    """Read what an entry says of itself.

    Args:
        data: Holds the head and the listing.
        start: Where the entry begins.

    Raises:
        JournalCorruptError: There is no entry, or its head is damaged or cut off.
    """
    view = memoryview(data)[start:]
    if len(view) < HEAD.size:
        raise JournalCorruptError("an entry is cut off")
    magic, crc, kind, codec, nothing, records, stored, raw, listing_bytes, payload_crc, *places = HEAD.unpack_from(view)
    if magic != _MAGIC:
        raise JournalCorruptError("no entry begins there")
    end = HEAD.size + listing_bytes
    if listing_bytes > LISTING_LIMIT_BYTES or end > len(view):
        raise JournalCorruptError("the listing of an entry is cut off")
    if crc != crc32(view[_CHECKED_FROM:end]):
        raise JournalCorruptError("the checksum of an entry's head does not match")
    first, following, earliest_us, latest_us = places
    sound = kind in _KINDS and nothing == 0 and 0 <= first <= following < OFFSET_LIMIT and records <= RECORDS_LIMIT
    if not sound or (kind == Kind.BLOCK) != (first < following) or (kind == Kind.BLOCK) != (records > 0):
        raise JournalCorruptError(
            f"an entry of kind {kind} with {records} records from {first} to {following} cannot be"
        )
    listing = bytes(view[HEAD.size : end])
    return Head(Kind(kind), codec, records, stored, raw, payload_crc, first, following, earliest_us, latest_us, listing)


_KINDS = frozenset(Kind)


def payload_of(head: Head, stored: bytes | memoryview) -> bytes | memoryview:
    """Return the payload as it is stored, compared with its checksum.

    Args:
        head: What the entry says of itself.
        stored: All bytes from `payload_from` on, or more.

    Raises:
        JournalCorruptError: It is cut off, or damaged.
    """
    payload = stored[: head.stored_bytes]
    if len(payload) < head.stored_bytes:
        raise JournalCorruptError("it is cut off")
    if crc32(payload) != head.crc:
        raise JournalCorruptError("its checksum does not match")
    return payload
