"""`Manifest`: the files of a tier.

It is JSON with a checksum, so that people and other tools read it. Entries ascend and do not overlap. An entry with few
topics takes 15 µs and 0.5 KiB.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter
from zlib import crc32

import msgspec

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.layout import OFFSET_LIMIT
from hub.journal.selection import Selection

_DIGITS = 20  # names sort as their numbers do: offsets have 19 digits at most
_FORMAT_NAME = "hub tier "
_FORMAT = f"{_FORMAT_NAME}1"


class Hole(msgspec.Struct, frozen=True):
    """Offsets that a file lacks, because they could not be read when it was made."""

    first: int
    next: int
    cause: str


class Entry(msgspec.Struct, frozen=True):
    """A file."""

    first: int
    next: int  # the offset behind its last record or hole
    records: int
    earliest_us: int  # time of its earliest record, µs since 1970 UTC; 0 without records
    latest_us: int
    size_bytes: int
    raw_bytes: int  # uncompressed length of its values
    sha256: str
    tail_bytes: int  # length of its footer
    tail_crc: int
    topics: tuple[tuple[str, int], ...]  # topics, or their beginnings if they are too many; their records
    are_topics_whole: bool
    holes: tuple[Hole, ...] = ()

    @property
    def name(self) -> str:
        return range_name(self.first, self.next)

    def may_hold(self, wanted: Selection) -> bool:
        """Return whether it may hold a wanted topic; a hole may have held any."""
        texts = [topic for topic, _ in self.topics]
        if wanted.is_all or self.holes:
            return True
        return any(map(wanted.holds, texts)) if self.are_topics_whole else wanted.may_hold_any(texts)


class _Text(msgspec.Struct, frozen=True):
    format: str
    journal: str
    crc: int
    entries: msgspec.Raw


_encode = msgspec.json.Encoder().encode
_decode_text = msgspec.json.Decoder(_Text).decode
_decode_entries = msgspec.json.Decoder(tuple[Entry, ...]).decode


def range_name(first: int, following: int) -> str:
    """Return the name of a range of offsets; names sort as ranges do."""
    return f"{first:0{_DIGITS}}-{following:0{_DIGITS}}"


def range_of(name: str) -> tuple[int, int] | None:
    first, _, following = name.partition("-")
    if not all(len(part) == _DIGITS and part.isdecimal() and part.isascii() for part in (first, following)):
        return None
    return int(first), int(following)


def encode_manifest(journal: bytes, entries: Iterable[Entry]) -> bytes:
    """Return the manifest of a journal with these files."""
    told = _encode(tuple(entries))
    return _encode(_Text(_FORMAT, journal.hex(), crc32(told), msgspec.Raw(told))) + b"\n"


def parse_manifest(data: bytes, journal: bytes) -> tuple[Entry, ...]:
    """Read the manifest of a journal; raises `JournalCorruptError` or, for a version, `JournalUnavailableError`."""
    try:
        read = _decode_text(data)
        if not read.format.startswith(_FORMAT_NAME) or not read.format[len(_FORMAT_NAME) :].isdecimal():
            raise JournalCorruptError(f"a manifest of format {read.format!r}, which no version writes")
        if read.format != _FORMAT:
            raise JournalUnavailableError(f"a manifest of format {read.format!r}, this version reads {_FORMAT!r}")
        if read.crc != crc32(read.entries):
            raise JournalCorruptError("the checksum of the manifest does not match")
        entries = _decode_entries(read.entries)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise JournalCorruptError(f"a manifest that cannot be: {error}") from error
    if read.journal != journal.hex():
        raise JournalCorruptError(f"a manifest of the journal {read.journal}, not of {journal.hex()}")
    for entry in entries:
        _check(entry)
    return entries


def _check(entry: Entry) -> None:
    edges = [entry.first, *(edge for hole in entry.holes for edge in (hole.first, hole.next)), entry.next]
    missing = sum(hole.next - hole.first for hole in entry.holes)
    ascends = all(one <= other for one, other in pairwise(edges))
    if not ascends or not 0 <= entry.first < entry.next < OFFSET_LIMIT:
        raise JournalCorruptError(f"offsets {entry.first} to {entry.next} of a manifest cannot be")
    if entry.records != entry.next - entry.first - missing or min(entry.size_bytes, entry.tail_bytes) < 0:
        raise JournalCorruptError(f"{entry.records} records from {entry.first} to {entry.next} of a manifest cannot be")


class Manifest:
    """The files of a tier; raises `JournalCorruptError` if they overlap."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = sorted(entries, key=attrgetter("first"))  # in the order of their offsets
        for one, following in pairwise(self.entries):
            if one.next > following.first:
                raise JournalCorruptError(f"the files {one.name} and {following.name} overlap")

    @property
    def first(self) -> int | None:
        return self.entries[0].first if self.entries else None

    @property
    def next(self) -> int | None:
        return self.entries[-1].next if self.entries else None

    def place_of(self, offset: int) -> int:
        return bisect_right(self.entries, offset, key=attrgetter("next"))
