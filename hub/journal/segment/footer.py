"""`Footer`: what a sealed segment holds, so that a reader need not pass through it.

```
... [block][mark] [entry FOOTER: msgpack of rows, topics, writes, epochs] [trailer]
                   ▲                                                       24 bytes: HJT1, checksum, place of that entry
                   └───────────────────────────────────────────────────────┘
```

A row a block, with its place. Topics with how many records each has, exactly as long as they are at most
`TOPICS_LIMIT`, else in short as in a listing. The head of the entry has the range of offsets and of times of all.

Pure. Invariants: rows ascend, and are within the segment. Cost: 1 µs a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from struct import Struct
from typing import NamedTuple
from zlib import crc32

import msgspec

from hub.errors import JournalCorruptError
from hub.journal.epoch import Epoch
from hub.journal.segment.entry import Head, Kind, encode
from hub.journal.segment.header import HEADER_BYTES
from hub.journal.segment.mark import Write

__all__ = [
    "TOPICS_LIMIT",
    "TRAILER_BYTES",
    "Footer",
    "Row",
    "encode_footer",
    "footer_place",
    "parse_footer",
    "row_of",
]

TOPICS_LIMIT = 4_096
"""Most topics that a footer counts by themselves: a site has some hundreds; each takes about 30 bytes."""

_TRAILER = Struct("<4sIQ8x")

TRAILER_BYTES = _TRAILER.size

_MAGIC = b"HJT1"

_CHECKED_FROM = 8


class Row(NamedTuple):
    """What is known of a block without reading it."""

    place: int
    """Where its entry begins, bytes from the start of the segment."""
    stored_bytes: int
    """Length of the entry."""
    size_bytes: int
    """Length of the block."""
    first: int
    next: int
    earliest_us: int
    latest_us: int
    topics: bytes
    """The listing of its topics."""


def row_of(place: int, head: Head) -> Row:
    """Return what the head of a block's entry says of it."""
    sizes = head.size_bytes, head.raw_bytes
    return Row(place, *sizes, head.first, head.next, head.earliest_us, head.latest_us, head.listing)


class Footer(NamedTuple):
    """What a sealed segment holds."""

    rows: list[Row]
    topics: list[tuple[str, int]]
    """Topics, or where they are too many what they begin with, and how many records each has."""
    are_topics_whole: bool
    writes: list[Write]
    """The last batch of each writer, as of the end of the segment."""
    epochs: tuple[Epoch, ...] = ()
    """The epochs of the journal, as of there."""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Footer)


def encode_footer(footer: Footer, place: int, following: int) -> bytes:
    """Return the end of a segment.

    Args:
        footer: What the segment holds.
        place: Where this will stand.
        following: The offset behind the last record.
    """
    rows = footer.rows
    earliest = min((row.earliest_us for row in rows), default=0)
    latest = max((row.latest_us for row in rows), default=0)
    payload = _ENCODER.encode(footer)
    head = Head(Kind.FOOTER, 0, 0, 0, len(payload), 0, following, following, earliest, latest, b"")
    rest = _TRAILER.pack(_MAGIC, 0, place)[_CHECKED_FROM:]
    return encode(head, payload) + _MAGIC + crc32(rest).to_bytes(4, "little") + rest


def footer_place(trailer: bytes) -> int | None:
    """Return where the footer stands; None if these last bytes of a segment are no trailer."""
    if len(trailer) != TRAILER_BYTES or trailer[:4] != _MAGIC:
        return None
    crc, place = _TRAILER.unpack(trailer)[1:]
    return place if crc == crc32(trailer[_CHECKED_FROM:]) else None


def parse_footer(payload: bytes | memoryview, place: int) -> Footer:
    """Read a footer.

    Args:
        payload: What its entry holds.
        place: Where its entry stands.

    Raises:
        JournalCorruptError: It is none, or cannot be.
    """
    try:
        footer: Footer = _DECODER.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise JournalCorruptError(f"a footer that cannot be: {error}") from error
    if not _ascend(footer.rows, place):
        raise JournalCorruptError("the rows of a footer do not follow one another")
    return footer


def _ascend(rows: Iterable[Row], end: int) -> bool:
    edge = Row(HEADER_BYTES, 0, 0, 0, 0, 0, 0, b"")
    last = Row(end, 0, 0, 2**63, 0, 0, 0, b"")
    return all(
        one.place + one.stored_bytes <= following.place and one.next <= following.first and one.first <= one.next
        for one, following in pairwise([edge, *rows, last])
    )
