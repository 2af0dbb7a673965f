"""A tier: its manifest, Parquet files that were damaged, and what a file says of itself.

Checksums of what this project reads by itself are set right: they keep damage out, not malice, and what lies behind
them is to be met. That of the end of a file is not: Arrow, which reads it then, ends the process at some ends that no
writer makes. So who can write manifest and files can end whoever reads them.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from zlib import crc32

import msgspec
import pyarrow as pa

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.block import Block, Record
from hub.journal.manifest import Entry, Manifest, encode_manifest, parse_manifest
from hub.journal.wanted import Wanted
from peers.journal.tier import parquet
from peers.journal.tier.parquet import FileMaker, Opened, blocks_of
from tests.fuzz.target import Target
from tests.journal.tier.made import blocks

__all__ = ["TIER_TARGETS"]

_JOURNAL = bytes(range(16))

_RANGES = ((100, 64), (170, 32))
"""First offset, and number of records, of the stripes of the file."""

_WANTED = (Wanted([""]), Wanted(["/t/1"]), Wanted(["/none"]))

_MAGIC = b"PAR1"


def _run_manifest(data: bytes) -> None:
    """Read a manifest, and one that has these entries."""
    sound = encode_manifest(_JOURNAL, ())
    made = sound.replace(b'"crc":%d,"entries":[]' % crc32(b"[]"), b'"crc":%d,"entries":%s' % (crc32(data), data))
    for text in (data, made):
        try:
            entries = parse_manifest(text, _JOURNAL)
        except (JournalCorruptError, JournalUnavailableError):
            continue
        assert parse_manifest(encode_manifest(_JOURNAL, entries), _JOURNAL) == entries
        for entry in entries:
            for wanted in _WANTED:
                entry.may_hold(wanted)
        with suppress(JournalCorruptError):
            manifest = Manifest(entries)
            for entry in manifest.entries:
                assert manifest.entries[manifest.place_of(entry.first)] == entry


@cache
def _file() -> tuple[bytes, Entry]:
    """A file of two stripes, a hole between them."""
    maker = FileMaker(_JOURNAL, _RANGES[0][0])
    for first, count in _RANGES:
        if first > maker.next:
            maker.pass_over(first, "hurt")
        for block in blocks(count, first):
            maker.add(block)
    data, entry = maker.finish()
    return bytes(data), entry


def _tail() -> bytes:
    data, entry = _file()
    return data[-entry.tail_bytes :]


def _outline() -> bytes:
    """What stands in the end under the name of this project."""
    return parquet.pq.read_metadata(pa.BufferReader(_tail())).metadata[b"topichub"]


def _with_outline(outline: bytes) -> bytes:
    """Return the end of the file with another outline in it."""
    sound = _outline()
    footer = _tail()[:-8].replace(_varint(len(sound)) + sound, _varint(len(outline)) + outline)
    return footer + len(footer).to_bytes(4, "little") + _MAGIC


def _varint(number: int) -> bytes:
    """Return a number as Thrift has it."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def _run_file(data: bytes) -> None:
    """Open and read a file that was damaged: what comes is what was written, or an error that says so."""
    sound, entry = _file()
    _read(data, entry)
    with suppress(JournalCorruptError, OSError):
        found = parquet.entry_from(data, (entry.first, entry.next), _JOURNAL)
        assert (found.records, found.topics, found.holes) == (entry.records, entry.topics, entry.holes)
    body = sound[: -entry.tail_bytes]
    _read(data[: len(body)].ljust(len(body), b"\0") + _tail(), entry)


def _run_outline(data: bytes) -> None:
    """Open and read a file that says this of itself."""
    sound, entry = _file()
    tail = _with_outline(data)
    whole = sound[: -entry.tail_bytes] + tail
    said = msgspec.structs.replace(entry, size_bytes=len(whole), tail_bytes=len(tail), tail_crc=crc32(tail))
    _read(whole, said)


def _read(whole: bytes, entry: Entry) -> None:
    sound, known = _file()
    with suppress(JournalCorruptError, OSError):
        opened = Opened(pa.BufferReader(whole), entry, _JOURNAL)
        assert whole[-entry.tail_bytes :] == sound[-known.tail_bytes :] or entry != known
        for number in range(len(opened.stripes)):
            for wanted in _WANTED:
                _read_stripe(opened, number, wanted)
        opened.check()


def _read_stripe(opened: Opened, number: int, wanted: Wanted) -> None:
    groups = opened.groups(number, wanted)
    if not groups:
        return
    with suppress(JournalCorruptError, OSError):
        opened.table(number, groups, ("offset", "topic"))
    with suppress(JournalCorruptError, OSError):
        for block in blocks_of(opened.table(number, groups)):
            for record in Block.parse(block, verify=False).records():
                assert record in _records()


@cache
def _records() -> frozenset[Record]:
    """What was written."""
    return frozenset(record for first, count in _RANGES for block in blocks(count, first) for record in block.records())


def _entries() -> list[Entry]:
    _, entry = _file()
    more = msgspec.structs.replace(
        entry, first=entry.next, next=entry.next + 10, records=10, holes=(), are_topics_whole=False
    )
    return [entry, more]


def _manifest_seeds() -> list[bytes]:
    entries = _entries()
    return [encode_manifest(_JOURNAL, entries), msgspec.json.encode(entries[:1]), msgspec.json.encode(entries)]


TIER_TARGETS = (
    Target(
        "tier_manifest",
        _run_manifest,
        _manifest_seeds,
        [b'"holes":[', b'"topics":[["', b'"first":', b"-1", b"9223372036854775807", b"1e400", b"null", b"\\ud800"],
    ),
    Target("tier_file", _run_file, lambda: [_file()[0]], [_MAGIC, b"\x28\xb5\x2f\xfd", b"topichub"], runs=1_000),
    Target(
        "tier_outline",
        _run_outline,
        lambda: [_outline()],
        [b"[", b"],[", b"[]", b"0", b"-1", b"9223372036854775807", b"[100,132,["],
        runs=1_000,
    ),
)
