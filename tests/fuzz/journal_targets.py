"""The journal: blocks in both twins, segments and what recovery makes of them, a folder with one in it, and a tier.

The compiled twin checks no bounds by itself (`boundscheck=False`), so what `read_layout` lets through must be safe to
work on. Checksums of what this project reads by itself are set right: they keep damage out, not malice, and what lies
behind them is to be met. That of the end of a Parquet file is not: Arrow, which reads it then, ends the process at some
ends that no writer makes. So who can write manifest and files can end whoever reads them.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hub.errors import GoneError, JournalCorruptError, JournalUnavailableError, StorageError
from hub.journal import packing
from hub.journal.block import Block, Record
from hub.journal.layout import CHECKED_FROM, COLUMNS, Column, excerpt_of, whole_of
from hub.journal.manifest import Entry, Manifest, encode_manifest, parse_manifest
from hub.journal.segment import (
    HEAD,
    HEADER_BYTES,
    TRAILER_BYTES,
    Footer,
    Mark,
    Row,
    Write,
    encode_entry,
    encode_footer,
    footer_place,
    parse_footer,
    payload_of,
    read_head,
    recover,
)
from hub.journal.segment import Kind as EntryKind
from hub.journal.selection import Selection
from hub.labels.envelope import Envelope
from hub.messages.batch import Batch
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, FLAG_TAGGED, KIND_MESSAGES, encode_frame
from peers.journal.folder import segment_path
from peers.journal.store import Retention, Store
from peers.journal.tier import parquet
from peers.journal.tier.parquet import FileMaker, Opened, blocks_of
from peers.journal.view import View
from tests.fuzz.target import Target
from tests.hub.journal.twins import PURE, block_entry, mark_entry, segment
from tests.journal.tier.made import blocks as tier_blocks

try:
    from hub.journal import _packing as COMPILED  # noqa: N812 -- stands for a namespace
except ImportError:
    COMPILED = PURE  # type: ignore[assignment]


def _parts() -> list[tuple[int, bytes]]:
    plain = b"".join(Batch.of(f"/t/{number % 3}", [number, {"a": "b" * number}]).frames for number in range(9))
    odd = encode_frame(KIND_MESSAGES, BATCH_COUNT.pack(3) + b"\xc1\xc1", key=b"/odd", flags=FLAG_BATCH)
    json = encode_frame(KIND_MESSAGES, b"[1]", key="/ä".encode(), flags=2)
    tagged = encode_frame(KIND_MESSAGES, b"\x01", key=Envelope("/a", ("l",)).encode(), flags=FLAG_TAGGED)
    return [(5, plain), (6, odd + json), (7, tagged), (-8, Batch.of("", [None]).frames)]


def blocks() -> list[bytes]:
    parts = _parts()
    small = packing.pack(parts[:1], 0, 4)
    mixed = packing.pack(parts, 2**61)[0]
    topics = Block.parse(mixed).topics
    sparse = packing.select(mixed, 0, 2**62, bytes(number % 2 for number in range(len(topics))))
    return [mixed, sparse, *small]


def _sealed(data: bytes) -> bytes:
    return data[:4] + crc32(data[CHECKED_FROM:]).to_bytes(4, "little") + data[CHECKED_FROM:]


def _same(act: Callable[[Any], object]) -> Any:
    made = []
    for twin in (PURE, COMPILED):
        try:
            made.append(_plain(act(twin)))
        except (ValueError, IndexError):  # what they document
            made.append(None)
    assert made[0] == made[1], "the twins disagree"
    return made[0]


def _plain(made: object) -> object:
    return tuple(made) if isinstance(made, tuple) else made


def _run_blocks(data: bytes) -> None:
    how, block = data[:4].ljust(4, b"\0"), data[4:]
    if len(block) >= CHECKED_FROM:
        block = _sealed(block)
    found = _same(lambda twin: tuple(twin.read_layout(block)))
    _same(lambda twin: twin.whole_checksum(block))
    try:
        parsed = Block.parse(block)
        list(parsed.records())
    except JournalCorruptError:
        parsed = None
    if found is None:
        assert parsed is None
    if parsed is not None and len(set(parsed.topics)) == len(parsed.topics):  # else frames are cut in other places
        _same(lambda twin: twin.to_frames(block, 1 + how[0] * 8))
    records = parsed.count if parsed is not None else 8
    first = parsed.first if parsed is not None else 0
    start, end = first + how[1] * records // 200, first + how[2] * records // 200
    topics = found[1] if found is not None else how[3]
    wanted = bytes(how[3] >> number % 8 & 1 for number in range(topics))
    for choice in (None, wanted, wanted[1:]):
        selected = _same(lambda twin: twin.select(block, start, end, choice))  # noqa: B023 -- called at once
        if selected and parsed is not None:
            Block.parse(selected)
    if parsed is not None and parsed.offsets is None:
        follows = packing.pack(_parts(), parsed.next)[0]
        merged = _same(lambda twin: twin.merge([block, follows]))
        if merged:
            assert Block.parse(merged).count == parsed.count + Block.parse(follows).count
    _same(lambda twin: twin.merge([block, block]))


def _run_excerpt(data: bytes) -> None:
    if len(data) >= CHECKED_FROM:
        data = _sealed(data)
    try:
        block = Block.parse(whole_of(data))
    except JournalCorruptError:
        return
    list(block.records())
    for column in COLUMNS:
        assert Block.parse(whole_of(excerpt_of(bytes(block.data), (column,)))).count == block.count


def _run_pack(data: bytes) -> None:
    how, frames = data[:3].ljust(3, b"\0"), data[3:]
    half = len(frames) * how[2] // 255
    parts = [(how[2] - 128, frames[:half]), (2**62, frames[half:])]
    packed = _same(lambda twin: twin.pack(parts, how[0] * 2**54, 1 + how[1] % 64, 1 + how[1] * 64))
    for block in packed or ():
        _same(lambda twin: twin.read_layout(block))  # noqa: B023 -- called at once
        _same(lambda twin: twin.to_frames(block))  # noqa: B023 -- called at once


def _run_columns(data: bytes) -> None:
    how, columns = data[:8].ljust(8, b"\0"), data[8:]
    sizes = struct.unpack("<4H", how)
    cuts: Sequence[int] = [size % (len(columns) + 1) for size in sizes]
    topics, texts = columns[: cuts[0]], columns[cuts[0] : cuts[0] + cuts[1]]
    values, bodies = columns[: cuts[2]], columns[cuts[2] :]
    start, count = sizes[3] % 16, sizes[3] >> 4 & 31
    _same(lambda twin: twin.frames_of_columns(topics, texts or None, values, bodies or None, start, count))


def _block_seeds() -> list[bytes]:
    return [bytes(how) + block for block in blocks() for how in ((0, 0, 200, 255), (9, 50, 150, 0x55))]


def _excerpt_seeds() -> list[bytes]:
    wanted: list[tuple[Column, ...]] = [(), ("offset", "topic"), ("time", "value")]
    return [excerpt_of(block, columns) for block in blocks() for columns in wanted]


def _column_seeds() -> list[bytes]:
    ends = struct.pack("<4i", 0, 2, 4, 4)
    return [struct.pack("<4H", 16, 4, 16, 48) + ends + b"/a/b" + b"\x01\x02\xa1x"]


_ENTRY_MAGIC = b"HJE1"
_FIRST = 100  # the offset that the segment begins with that is put into a folder


def _sealed_entry(entry: bytes) -> bytes:
    if len(entry) < HEAD.size:
        return entry
    listing_bytes = int.from_bytes(entry[24:28], "little")
    start = HEAD.size + listing_bytes + -(HEAD.size + listing_bytes) % 8
    payload = entry[start : start + int.from_bytes(entry[16:20], "little")]
    entry = entry[:28] + crc32(payload).to_bytes(4, "little") + entry[32:]
    crc = crc32(entry[8 : HEAD.size + listing_bytes])
    return _ENTRY_MAGIC + crc.to_bytes(4, "little") + entry[8:]


def _sealed_all(data: bytes) -> bytes:
    data = data[:4] + crc32(data[8:HEADER_BYTES]).to_bytes(4, "little") + data[8:]
    places = [place for place in range(HEADER_BYTES, len(data), 8) if data[place : place + 4] == _ENTRY_MAGIC]
    pieces = [_sealed_entry(data[start:end]) for start, end in pairwise([*places, len(data)])]
    return b"".join([data[: places[0]], *pieces]) if places else data


def _run_entry(data: bytes) -> None:
    for entry in (data, _sealed_entry(data)):
        try:
            head = read_head(entry)
            payload = bytes(payload_of(head, entry[head.payload_from :]))
        except JournalCorruptError:
            continue
        assert read_head(encode_entry(head, payload)) == head
        if head.kind is EntryKind.MARK:
            with suppress(JournalCorruptError):
                assert Mark.parse(Mark.parse(payload).encode()) == Mark.parse(payload)


def _run_footer(data: bytes) -> None:
    assert footer_place(data[-TRAILER_BYTES:]) is None or len(data) >= TRAILER_BYTES
    place = int.from_bytes(data[:2], "little")
    with suppress(JournalCorruptError):
        footer = parse_footer(data[2:], place)
        following = footer.rows[-1].next if footer.rows else 0
        encode_footer(footer, place, following)


def _run_recovery(data: bytes) -> None:
    data = _sealed_all(data)
    try:
        found = recover(data, _FIRST, None)
    except JournalCorruptError:
        return
    assert HEADER_BYTES <= found.size_bytes <= max(HEADER_BYTES, len(data))
    places = [placed.place for placed in found.blocks]
    assert places == sorted(set(places))
    assert all(place < found.size_bytes for place in [*places, *found.marks])
    again = recover(data[: found.size_bytes], _FIRST, None)
    assert again.size_bytes <= found.size_bytes
    assert again.blocks == found.blocks[: len(again.blocks)]


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp())


def _run_folder(data: bytes) -> None:
    path = _folder() / "journal"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    Path(segment_path(str(path), _FIRST)).write_bytes(_sealed_all(data))
    with suppress(StorageError, GoneError), closing(View(str(path))) as view:
        for row in view.rows():
            with suppress(StorageError):
                view.block(row)
        view.fetch(view.extent.first, None, ("/t/1",), 1 << 20)
        list(view.writes)
    with suppress(StorageError), closing(_opened(path)) as store:
        following = store.next
        store.add([(5, b"")])
        store.commit(now_us=5)
        assert store.next == following


def _opened(path: Path) -> Store:
    return Store(str(path), full_sync=False, retention=Retention(1 << 50, 1 << 60))


def _segments() -> Iterator[bytes]:
    for synced in ((), (10_000, 10_000, 10_000)):
        data, ends = segment([3, 2], [1], [4], first=_FIRST, synced=synced)
        yield data
        yield data[: ends[2] + 20]
        yield data + _sound_footer(len(data))


def _rows() -> list[Row]:
    return [Row(64, 200, 150, 100, 103, 5, 6, b""), Row(264, 100, 90, 103, 104, 5, 6, b"/t/1")]


def _sound_footer(place: int) -> bytes:
    return encode_footer(Footer(_rows(), [Write("q", 1, 0, 4)]), place, 104)


def _footer_seeds() -> list[bytes]:
    entry = _sound_footer(400)
    head = read_head(entry)
    return [(400).to_bytes(2, "little") + bytes(payload_of(head, entry[head.payload_from :]))]


_JOURNAL = bytes(range(16))
_RANGES = ((100, 64), (170, 32))  # first offset, and number of records, of the stripes of the file


_WANTED = (Selection([""]), Selection(["/t/1"]), Selection(["/none"]))
_MAGIC = b"PAR1"


def _run_manifest(data: bytes) -> None:
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
    maker = FileMaker(_JOURNAL, _RANGES[0][0])
    for first, count in _RANGES:
        if first > maker.next:
            maker.pass_over(first, "hurt")
        for block in tier_blocks(count, first):
            maker.add(block)
    data, entry = maker.finish()
    return bytes(data), entry


def _tail() -> bytes:
    data, entry = _file()
    return data[-entry.tail_bytes :]


def _outline() -> bytes:
    return pq.read_metadata(pa.BufferReader(_tail())).metadata[b"topichub"][8:]


def _with_outline(outline: bytes) -> bytes:
    sound, made = (b"%08x" % crc32(text) + text for text in (_outline(), outline))
    footer = _tail()[:-8].replace(_varint(len(sound)) + sound, _varint(len(made)) + made)
    return footer + len(footer).to_bytes(4, "little") + _MAGIC


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def _run_file(data: bytes) -> None:
    sound, entry = _file()
    _read(data, entry)
    with suppress(JournalCorruptError, OSError):
        found = parquet.entry_from(data, (entry.first, entry.next), _JOURNAL)
        assert (found.records, found.topics, found.holes) == (entry.records, entry.topics, entry.holes)
    body = sound[: -entry.tail_bytes]
    _read(data[: len(body)].ljust(len(body), b"\0") + _tail(), entry)


def _run_outline(data: bytes) -> None:
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


def _read_stripe(opened: Opened, number: int, wanted: Selection) -> None:
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
    return frozenset(
        record for first, count in _RANGES for block in tier_blocks(count, first) for record in block.records()
    )


def _entries() -> list[Entry]:
    _, entry = _file()
    more = msgspec.structs.replace(
        entry, first=entry.next, next=entry.next + 10, records=10, holes=(), are_topics_whole=False
    )
    return [entry, more]


def _manifest_seeds() -> list[bytes]:
    entries = _entries()
    return [encode_manifest(_JOURNAL, entries), msgspec.json.encode(entries[:1]), msgspec.json.encode(entries)]


TARGETS = (
    Target("blocks", _run_blocks, _block_seeds, [struct.pack("<i", -1), struct.pack("<q", 2**62), b"HJB1"]),
    Target("excerpt", _run_excerpt, _excerpt_seeds, [struct.pack("<i", -1), struct.pack("<q", 2**62), b"HJX1"]),
    Target("pack", _run_pack, lambda: [b"\0\x09\x80" + b"".join(frames for _, frames in _parts())]),
    Target("columns", _run_columns, _column_seeds, [struct.pack("<i", -1), struct.pack("<i", 2**31 - 1)]),
    Target("entry", _run_entry, lambda: [block_entry(7, 3), mark_entry(9, 5, [Write("q", 1, 2, 3)])], [_ENTRY_MAGIC]),
    Target("footer", _run_footer, _footer_seeds, [b"HJT1", b"\xc0", b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff"]),
    Target("recovery", _run_recovery, lambda: [*_segments()], [_ENTRY_MAGIC, b"HJS1", mark_entry(105)]),
    Target("journal_folder", _run_folder, lambda: [*_segments()], [_ENTRY_MAGIC, b"HJS1", mark_entry(105)], runs=200),
    Target(
        "tier_manifest",
        _run_manifest,
        _manifest_seeds,
        [b'"holes":[', b'"topics":[["', b'"first":', b"-1", b"9223372036854775807", b"1e400", b"null", b"\\ud800"],
        runs=1_000,
    ),
    Target("tier_file", _run_file, lambda: [_file()[0]], [_MAGIC, b"\x28\xb5\x2f\xfd", b"topichub"], runs=100),
    Target(
        "tier_outline",
        _run_outline,
        lambda: [_outline()],
        [b"[", b"],[", b"[]", b"0", b"-1", b"9223372036854775807", b"[100,132,["],
        runs=400,
    ),
)
