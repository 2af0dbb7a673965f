"""Segments of a journal: entries, footers, what recovery makes of a segment, and a folder with it in it.

Checksums are set right in what is made: they keep damage out, not malice, and what lies behind them is to be met.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from zlib import crc32

from hub.errors import GoneError, JournalCorruptError, StorageError
from hub.journal.segment import (
    HEAD,
    HEADER_BYTES,
    TRAILER_BYTES,
    Footer,
    Kind,
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
from peers.journal.folder import segment_path
from peers.journal.segment import Compressor, decoded
from peers.journal.store import Retention, Store
from peers.journal.view import View
from tests.fuzz.target import Target
from tests.hub.journal.segments import block_entry, mark_entry, segment

__all__ = ["SEGMENT_TARGETS"]

_MAGIC = b"HJE1"

_FIRST = 100
"""The offset that the segment begins with that is put into a folder."""


def _sealed(entry: bytes) -> bytes:
    """Set the checksums of an entry right, as far as it is there."""
    if len(entry) < HEAD.size:
        return entry
    listing_bytes = int.from_bytes(entry[24:28], "little")
    start = HEAD.size + listing_bytes + -(HEAD.size + listing_bytes) % 8
    payload = entry[start : start + int.from_bytes(entry[16:20], "little")]
    entry = entry[:28] + crc32(payload).to_bytes(4, "little") + entry[32:]
    crc = crc32(entry[8 : HEAD.size + listing_bytes])
    return _MAGIC + crc.to_bytes(4, "little") + entry[8:]


def _sealed_all(data: bytes) -> bytes:
    """Set the checksums right of the header, and of all that look like entries."""
    data = data[:4] + crc32(data[8:HEADER_BYTES]).to_bytes(4, "little") + data[8:]
    places = [place for place in range(HEADER_BYTES, len(data), 8) if data[place : place + 4] == _MAGIC]
    pieces = [_sealed(data[start:end]) for start, end in pairwise([*places, len(data)])]
    return b"".join([data[: places[0]], *pieces]) if places else data


def _run_entry(data: bytes) -> None:
    for entry in (data, _sealed(data)):
        try:
            head = read_head(entry)
            payload = bytes(payload_of(head, entry[head.payload_from :]))
        except JournalCorruptError:
            continue
        assert read_head(encode_entry(head, payload)) == head
        if head.kind is Kind.MARK:
            with suppress(JournalCorruptError):
                assert Mark.parse(Mark.parse(payload).encode()) == Mark.parse(payload)


def _run_stored(data: bytes) -> None:
    codec, raw_bytes, payload = data[0] if data else 0, int.from_bytes(data[1:3], "little"), data[3:]
    with suppress(StorageError):
        assert len(decoded(payload, codec, raw_bytes)) == raw_bytes


def _stored_seeds() -> list[bytes]:
    block = bytes(range(100)) * 20
    codec, payload = Compressor(is_on=True).encoded(block)
    return [bytes([codec]) + len(block).to_bytes(2, "little") + payload, b"\0\3\0abc"]


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
    """Read and go on in a folder whose newest segment is that."""
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
        yield data + _footer(len(data))


def _rows() -> list[Row]:
    return [Row(64, 200, 150, 100, 103, 5, 6, b""), Row(264, 100, 90, 103, 104, 5, 6, b"/t/1")]


def _footer(place: int) -> bytes:
    return encode_footer(Footer(_rows(), [Write("q", 1, 0, 4)]), place, 104)


def _footer_seeds() -> list[bytes]:
    entry = _footer(400)
    head = read_head(entry)
    return [(400).to_bytes(2, "little") + bytes(payload_of(head, entry[head.payload_from :]))]


SEGMENT_TARGETS = (
    Target("entry", _run_entry, lambda: [block_entry(7, 3), mark_entry(9, 5, [Write("q", 1, 2, 3)])], [_MAGIC]),
    Target("stored", _run_stored, _stored_seeds, [b"\x28\xb5\x2f\xfd"]),
    Target("footer", _run_footer, _footer_seeds, [b"HJT1", b"\xc0", b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff"]),
    Target("recovery", _run_recovery, lambda: [*_segments()], [_MAGIC, b"HJS1", mark_entry(105)]),
    Target("journal_folder", _run_folder, lambda: [*_segments()], [_MAGIC, b"HJS1", mark_entry(105)], runs=300),
)
