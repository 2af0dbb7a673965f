"""A segment: a file of a journal, as bytes. No file is opened here.

```
[header 64] [entry MARK] [entry BLOCK] [entry BLOCK] [entry MARK] ... [entry FOOTER] [trailer 24]

header   0  4s  magic HJS1                     all little-endian; an entry begins at a multiple of 8
         4  u32 crc32 of the bytes 8 to 64
         8  u32 version, 1;  12 u32 0
        16  16s id of the journal
        32  i64 first, the offset of the first record;  40 i64 made_us, µs since 1970 UTC;  48 16s 0

entry    0  4s  magic HJE1
         4  u32 crc32 of the bytes 8 to 64, and of the listing
         8  u8  kind: 1 BLOCK, 2 MARK, 3 FOOTER;  9 u8 codec of the payload: 0 none, 1 zstd;  10 u16 0
        12  u32 records of a block;  16 u32 stored_bytes of the payload;  20 u32 raw_bytes before compression
        24  u32 listing_bytes;  28 u32 crc32 of the payload as it is stored
        32  i64 first, next offset (of a mark and a footer both are `next`);  48 i64 earliest_us, latest_us
        64  listing of the topics of a block (`hub.journal.selection`), then the payload

trailer  0  4s  magic HJT1;  4 u32 crc32 of the rest;  8 u64 place of the footer;  16 8s 0
```

A commit is blocks and a mark behind them; blocks without a mark are not committed. A segment begins with a mark that
has the last batch of each writer and all epochs. The footer of a sealed segment has a row for each block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from struct import Struct
from typing import Any, NamedTuple, cast
from zlib import crc32

import msgspec

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.layout import OFFSET_LIMIT, RECORDS_LIMIT

_CHECKED_FROM = 8  # headers, heads and trailers are checksummed from there on
EPOCHS_LIMIT = 1_000  # most remembered epochs; the oldest are forgotten. 12 bytes each, in every segment.


class Epoch(NamedTuple):
    """One life of a journal, from when a hub opens it until it is opened again.

    ```
    epoch 7   0 ........................ 200     read up to 200, then power fails: 100 to 199 were not on the disk
    epoch 9   ............ 100 ................  opened again: offsets 100, 101, ... are given to other records
    ```

    A position is an offset and the epoch in which it was read. It holds up to where the next epoch begins.
    """

    number: int  # when it began, s since 1970, or one more than the number of the epoch before
    first: int  # the offset of its first record


def begun(epochs: tuple[Epoch, ...], following: int, now_s: int) -> tuple[Epoch, ...]:
    """Return the epochs of a journal with a new one that begins behind the last record, at `following`."""
    number = max(now_s, epochs[-1].number + 1 if epochs else 1)
    # Those that begin no earlier have no records: a position that ends where they begin ends where the new one begins.
    kept = [one for one in epochs if one.first < following]
    return (*kept[1 - EPOCHS_LIMIT :], Epoch(number, following))


def end_of(epochs: tuple[Epoch, ...], number: int) -> int | None:
    """Return the offset up to which positions of an epoch hold; None if it has not ended."""
    return next((one.first for one in epochs if one.number > number), None)


_HEADER = Struct("<4sIII16sqq16x")
_HEADER_MAGIC = b"HJS1"
_VERSION = 1
HEADER_BYTES = _HEADER.size
ID_BYTES = 16


class Header(NamedTuple):
    """The first 64 bytes."""

    id: bytes
    first: int
    made_us: int

    def encode(self) -> bytes:
        rest = _HEADER.pack(_HEADER_MAGIC, 0, _VERSION, 0, *self)[_CHECKED_FROM:]
        return _HEADER_MAGIC + crc32(rest).to_bytes(4, "little") + rest

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Header:
        if len(data) < HEADER_BYTES or data[:4] != _HEADER_MAGIC:
            raise JournalCorruptError("it does not begin as a segment of a journal does")
        _, crc, version, _, *fields = _HEADER.unpack_from(data)
        header = cls(*fields)
        if crc != crc32(data[_CHECKED_FROM:HEADER_BYTES]) or not 0 <= header.first < OFFSET_LIMIT:
            raise JournalCorruptError("the header of the segment is damaged")
        if version != _VERSION:
            raise JournalUnavailableError(f"a segment of format {version}, this version reads format {_VERSION}")
        return header


HEAD = Struct("<4sIBBHIIIIIqqqq")
_ENTRY_MAGIC = b"HJE1"
LISTING_LIMIT_BYTES = 8 * 1024 * 1024  # longest listing: at most 64 texts, each as long as a topic may be


class Kind(IntEnum):
    """Kind of an entry."""

    BLOCK = 1
    MARK = 2
    FOOTER = 3


_KINDS = frozenset(Kind)


class Head(NamedTuple):
    """The head of an entry; it has its own checksum, so that a reader skips payloads."""

    kind: Kind
    codec: int
    records: int
    stored_bytes: int
    raw_bytes: int
    crc: int  # of the payload as it is stored
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
        return padded(self.payload_from + self.stored_bytes)


def padded(size: int) -> int:
    return size + -size % 8


def encode_entry(head: Head, payload: bytes) -> bytes:
    """Return an entry; its checksums and its stored length are computed here."""
    return b"".join(entry_parts(head, payload, crc32(payload)))


def entry_parts(head: Head, payload: bytes, crc: int) -> list[bytes]:
    """Return an entry in parts, so that a large payload is not copied; `crc` is the payload's checksum."""
    sizes = (head.records, len(payload), head.raw_bytes, len(head.listing), crc)
    rest = HEAD.pack(
        _ENTRY_MAGIC, 0, head.kind, head.codec, 0, *sizes, head.first, head.next, head.earliest_us, head.latest_us
    )
    checked = rest[_CHECKED_FROM:] + head.listing
    start = _ENTRY_MAGIC + crc32(checked).to_bytes(4, "little") + checked
    return [start + bytes(-len(start) % 8), payload, bytes(-len(payload) % 8)]


def read_head(data: bytes | memoryview, start: int = 0) -> Head:
    """Read the head of the entry at `start`; its payload need not be there. Raises `JournalCorruptError`."""
    view = memoryview(data)[start:]
    if len(view) < HEAD.size:
        raise JournalCorruptError("an entry is cut off")
    magic, crc, kind, codec, nothing, records, stored, raw, listing_bytes, payload_crc, *places = HEAD.unpack_from(view)
    if magic != _ENTRY_MAGIC:
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


def payload_of(head: Head, stored: bytes | memoryview) -> bytes | memoryview:
    """Return the stored payload, from the bytes from `payload_from` on; raises `JournalCorruptError`."""
    payload = stored[: head.stored_bytes]
    if len(payload) < head.stored_bytes:
        raise JournalCorruptError("it is cut off")
    if crc32(payload) != head.crc:
        raise JournalCorruptError("its checksum does not match")
    return payload


class Write(NamedTuple):
    """The last batch that a writer has committed."""

    query: str  # with the user's name and a slash in front, if it has a user
    batch: int
    first: int
    next: int


class Mark(NamedTuple):
    """The end of a commit."""

    synced_bytes: int
    """Length of the segment known to be on the disk when the commit was written. Damage before it came later; what is
    damaged behind it may never have been written."""
    writes: tuple[Write, ...] = ()
    writes_before: int = 0  # number of `writes` in earlier marks of the segment, so that a lost mark is noticed
    epochs: tuple[Epoch, ...] = ()  # all epochs of the journal; empty if they are those of the mark before

    def encode(self) -> bytes:
        return _encode(self)

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Mark:
        try:
            mark: Mark = _decode_mark(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise JournalCorruptError(f"a mark that cannot be: {error}") from error
        return mark


_encode = msgspec.msgpack.Encoder().encode
_decode_mark = msgspec.msgpack.Decoder(Mark).decode


_TIME_LIMIT_US = 2**63  # as in the head of an entry
_TRAILER = Struct("<4sIQ8x")
_TRAILER_MAGIC = b"HJT1"
TRAILER_BYTES = _TRAILER.size


class Row(NamedTuple):
    """The index entry of a block."""

    place: int  # where its entry begins, bytes from the start of the segment
    stored_bytes: int  # length of the entry
    size_bytes: int  # length of the block
    first: int
    next: int
    earliest_us: int
    latest_us: int
    topics: bytes  # the listing of its topics


def row_of(place: int, head: Head) -> Row:
    sizes = head.size_bytes, head.raw_bytes
    return Row(place, *sizes, head.first, head.next, head.earliest_us, head.latest_us, head.listing)


class Footer(NamedTuple):
    """The index of a sealed segment."""

    rows: list[Row]
    writes: list[Write]  # the last batch of each writer, as of the end of the segment
    epochs: tuple[Epoch, ...] = ()


_decode_footer = msgspec.msgpack.Decoder(Footer).decode


def encode_footer(footer: Footer, place: int, following: int) -> bytes:
    """Return footer and trailer of a segment, for this place; `following` is the next offset."""
    rows = footer.rows
    earliest = min((row.earliest_us for row in rows), default=0)
    latest = max((row.latest_us for row in rows), default=0)
    payload = _encode(footer)
    head = Head(Kind.FOOTER, 0, 0, 0, len(payload), 0, following, following, earliest, latest, b"")
    rest = _TRAILER.pack(_TRAILER_MAGIC, 0, place)[_CHECKED_FROM:]
    return encode_entry(head, payload) + _TRAILER_MAGIC + crc32(rest).to_bytes(4, "little") + rest


def footer_place(trailer: bytes) -> int | None:
    """Return where the footer stands; None if these last bytes of a segment are no trailer."""
    if len(trailer) != TRAILER_BYTES or trailer[:4] != _TRAILER_MAGIC:
        return None
    crc, place = _TRAILER.unpack(trailer)[1:]
    return place if crc == crc32(trailer[_CHECKED_FROM:]) else None


def parse_footer(payload: bytes | memoryview, place: int) -> Footer:
    """Read a footer, whose entry stands at `place`; raises `JournalCorruptError`."""
    try:
        footer: Footer = _decode_footer(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise JournalCorruptError(f"a footer that cannot be: {error}") from error
    if not _ascend(footer.rows, place):
        raise JournalCorruptError("the rows of a footer do not follow one another")
    if not all(-_TIME_LIMIT_US <= row.earliest_us <= row.latest_us < _TIME_LIMIT_US for row in footer.rows):
        raise JournalCorruptError("a row of a footer has times that cannot be")
    return footer


def _ascend(rows: Iterable[Row], end: int) -> bool:
    edge = Row(HEADER_BYTES, 0, 0, 0, 0, 0, 0, b"")
    last = Row(end, 0, 0, OFFSET_LIMIT - 1, 0, 0, 0, b"")
    return all(
        one.place + one.stored_bytes <= following.place and one.next <= following.first and one.first <= one.next
        for one, following in pairwise([edge, *rows, last])
    )


class Placed(NamedTuple):
    """An entry, and where it stands, bytes from the start of the segment."""

    place: int
    head: Head


class Recovered(NamedTuple):
    """The committed content of a segment."""

    size_bytes: int  # where the last commit ends
    blocks: list[Placed]
    next: int
    writes: list[Write]  # the writers' batches, the oldest first; some may come twice
    lacks_writes: bool  # whether some of them are damaged
    marks: list[int]  # where its marks stand, bytes from the start of the segment
    epochs: tuple[Epoch, ...] = ()  # from the last mark that has them; empty if those are damaged


class _Commit(NamedTuple):
    blocks: list[Placed]
    mark: Mark | None
    head: Head
    end: int
    is_sound: bool
    start: int


def recover(data: bytes | memoryview, first: int, before: Sequence[Write] | None = None) -> Recovered:
    """Find all commits of a segment that was not sealed.

    ```
    [header][block][block][mark]  [block][mark]  [block][bl          cut off: the last commit is incomplete
    [header][block][?????][mark]  [block][mark]                      damaged before what was on the disk: stays
    [header][block][mark]  [????][mark]                              damaged behind it: never written, cut off
            └ known to be on the disk ┘
    ```

    A killed process leaves a segment that is cut off; after a power loss pages may be missing before others. Both are
    cut off at the last sound commit. Damage in a part that was on the disk before (a later mark says how far) stays, so
    that nothing behind it is lost, and a reader gets an error there.

    `first` is the offset in its header. `before` is the last batches of the writers in the footer of the segment before
    it, which replace a damaged first mark; None if unknown.

    Raises:
        JournalCorruptError: A mark whose checksum is right is none.
    """
    commits = list(_commits(memoryview(data)))
    synced_bytes = max((one.mark.synced_bytes for one in commits if one.mark is not None), default=0)
    blocks: list[Placed] = []
    has_start = bool(commits) and commits[0].is_sound and commits[0].mark is not None
    writes: list[Write] = list(before or ()) if not has_start else []
    lacks_writes = not has_start and before is None
    marks: list[int] = []
    epochs: tuple[Epoch, ...] = ()
    end, following = HEADER_BYTES, first
    for commit in commits:
        if commit.mark is None or (not commit.is_sound and commit.start >= synced_bytes):
            break  # a footer, or an incomplete commit
        blocks += commit.blocks
        end, following = commit.end, commit.head.next
        lacks_writes |= commit.mark.writes_before != len(writes)
        writes += commit.mark.writes
        epochs = commit.mark.epochs or epochs
        marks.append(commit.end - commit.head.size_bytes)
    return Recovered(end, blocks, following, writes, lacks_writes, marks, epochs)


def _commits(view: memoryview) -> Iterator[_Commit]:
    """Yield the entries up to each mark or footer, sound or not."""
    place = start = HEADER_BYTES
    blocks: list[Placed] = []
    is_sound = True
    while place < len(view):
        head = _head_at(view, place)
        if head is None:
            is_sound = False
            place = _next_entry(view, place)
            continue
        try:
            payload = payload_of(head, view[place + head.payload_from :])
        except JournalCorruptError:
            payload, is_sound = None, False
        if head.kind is Kind.BLOCK:
            blocks.append(Placed(place, head))
        elif payload is not None:
            mark = Mark.parse(payload) if head.kind is Kind.MARK else None
            yield _Commit(blocks, mark, head, place + head.size_bytes, is_sound, start)
            blocks, is_sound, start = [], True, place + head.size_bytes
        place += head.size_bytes


def _head_at(view: memoryview, place: int) -> Head | None:
    """Return the head at `place`; None if there is no complete entry."""
    try:
        head = read_head(view, place)
    except JournalCorruptError:
        return None
    return head if place + head.size_bytes <= len(view) else None


def _next_entry(view: memoryview, place: int) -> int:
    find: Callable[[bytes, int], int] = cast("Any", view.obj).find  # bytes have it, and mapped files
    while True:
        place = find(_ENTRY_MAGIC, place + 1)
        if place < 0:
            return len(view)
        if place == padded(place):
            try:
                read_head(view, place)
            except JournalCorruptError:
                continue
            return place
