"""The newest segment of a journal, to which commits are appended.

```
[header][mark] ... [block][mark] | [block][block]
                                 ▲               ▲
                        size_bytes               end_bytes: written ahead of its commit
```

Entries behind `size_bytes` are not committed: recovery cuts them off.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

from hub.errors import JournalCorruptError, StorageError
from hub.journal.block import Block, merge, pack, whole_checksum
from hub.journal.segment import (
    HEADER_BYTES,
    TRAILER_BYTES,
    Epoch,
    Footer,
    Head,
    Header,
    Kind,
    Mark,
    Recovered,
    Row,
    Write,
    encode_entry,
    encode_footer,
    entry_parts,
    footer_place,
    parse_footer,
    payload_of,
    read_head,
    recover,
    row_of,
)
from hub.journal.selection import listing
from peers.journal.folder import identity, making, segment_path, stands, sync_data, write_all
from peers.journal.segment import Codec, Compressor, Segment

BLOCK_RECORDS = 8_192  # records of a full block. Reading was fastest with 1,000 to 16,000 when measured.
BLOCK_BYTES = 1024 * 1024  # bytes of values of a full block
Parts = list[tuple[int, bytes]]  # times, µs since 1970, and whole MESSAGES frames


class Commit:
    """A commit in the making: entries of a segment, the first of which will stand at `place`."""

    def __init__(self, place: int, following: int, compressor: Compressor) -> None:
        self._compressor = compressor
        self.next = following
        self.rows: list[Row] = []
        self.topics: set[str] = set()
        self.entries: list[bytes] = []  # parts that are not written to the file yet
        self.entries_bytes = 0
        self.place = place

    def add(self, parts: Parts, *, in_haste: bool = False) -> None:
        """Add records; `in_haste` skips compression. Some may have been added if it raises."""
        in_order = all(one[0] <= following[0] for one, following in pairwise(parts))
        for piece in _pieces(parts):
            for block in pack(piece, self.next, BLOCK_RECORDS, BLOCK_BYTES):
                self.add_block(block, in_order=in_order, in_haste=in_haste)

    def add_block(self, data: bytes, *, in_order: bool = False, in_haste: bool = False) -> None:
        """Add a block that begins where the last one ends; `in_order`: its times ascend."""
        block = Block.parse(data, verify=False)
        if block.first != self.next:
            raise ValueError(f"a block that begins at {block.first}, the one before it ends at {self.next}")
        times = block.times
        earliest, latest = (times[0], times[-1]) if in_order else (min(times), max(times))
        listed = listing(block.topics)
        codec, payload = self._compressor.encoded(data, in_haste=in_haste)
        head = Head(Kind.BLOCK, codec, block.count, 0, len(data), 0, block.first, block.next, earliest, latest, listed)
        crc = whole_checksum(data) if codec == Codec.NONE else crc32(payload)
        entry = entry_parts(head, payload, crc)
        size_bytes = sum(map(len, entry))
        self.rows.append(Row(self.place, size_bytes, len(data), block.first, block.next, earliest, latest, listed))
        self.topics.update(block.topics)
        self.next = block.next
        self._put(entry, size_bytes)

    def end(self, mark: Mark) -> None:
        entry = mark_entry(mark, self.next)
        self._put([entry], len(entry))

    def _put(self, parts: list[bytes], size_bytes: int) -> None:
        self.entries += parts
        self.entries_bytes += size_bytes
        self.place += size_bytes

    def take(self) -> list[bytes]:
        entries, self.entries, self.entries_bytes = self.entries, [], 0
        return entries


def mark_entry(mark: Mark, following: int) -> bytes:
    """Return a mark as an entry of a segment; `following` is the offset behind the last record before it."""
    payload = mark.encode()
    return encode_entry(Head(Kind.MARK, 0, 0, 0, len(payload), 0, following, following, 0, 0, b""), payload)


def _pieces(parts: Parts) -> Iterator[Parts]:
    """Yield about a block's worth at a time: packing several at once is half as fast, because of the cache."""
    piece: Parts = []
    size = 0
    for part in parts:
        piece.append(part)
        size += len(part[1])
        if size >= BLOCK_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


class Newest(NamedTuple):
    """The content of the newest segment."""

    header: Header
    size_bytes: int
    rows: list[Row]
    writes: list[Write]
    epochs: tuple[Epoch, ...]
    next: int
    is_final: bool  # it is sealed, or damaged inside: nothing may be appended


def newest(folder: str, first: int, before: int | None) -> Newest:
    """Read the segment at `first`; `before`: where the one before begins. Raises `JournalCorruptError`, `OSError`."""
    path = segment_path(folder, first)
    with open(path, "rb") as file:  # noqa: PTH123
        size = os.fstat(file.fileno()).st_size
        if size < HEADER_BYTES:
            raise JournalCorruptError(f"{path}: it is cut off; see `hub journal verify`")
        # It is unmapped with the last view of it: one may stand in the traceback of an error.
        view = memoryview(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ))
    try:
        header = Header.parse(view)
        if header.first != first:
            raise JournalCorruptError(f"it begins at {header.first}, its name says {first}")
        footer = _footer_of(folder, first)
        if footer is not None:
            following = footer.rows[-1].next if footer.rows else first
            return Newest(header, size, footer.rows, footer.writes, footer.epochs, following, is_final=True)
        last = None if before is None else _footer_of(folder, before)
        found = recover(view, first, None if last is None else last.writes)
        if found.lacks_writes:
            raise JournalCorruptError("the list of committed batches is damaged")
        epochs = last.epochs if not found.epochs and last is not None else found.epochs
        rows = [row_of(*placed) for placed in found.blocks]
        is_sound = _are_sound(view, first, found)
        return Newest(header, found.size_bytes, rows, found.writes, epochs, found.next, is_final=not is_sound)
    except StorageError as error:
        raise type(error)(f"{path}: {error}; see `hub journal verify`") from error


def _footer_of(folder: str, first: int) -> Footer | None:
    """Return the footer of a sealed segment, reading only the end of the file; None without a sound one."""
    with open(segment_path(folder, first), "rb") as file:  # noqa: PTH123
        file.seek(max(0, file.seek(0, os.SEEK_END) - TRAILER_BYTES))
        place = footer_place(file.read())
        if place is None:
            return None
        file.seek(place)
        entry = memoryview(file.read())
    try:
        head = read_head(entry)
        return parse_footer(payload_of(head, entry[head.payload_from :]), place)
    except JournalCorruptError:
        return None


def _are_sound(view: memoryview, first: int, found: Recovered) -> bool:
    """Return whether all blocks are there and sound."""
    expected = first
    for place, head in found.blocks:
        if head.first != expected:
            return False
        expected = head.next
        try:
            payload_of(head, view[place + head.payload_from :])
        except JournalCorruptError:
            return False
    return expected == found.next


class Active:
    """The newest segment, open for writing."""

    def __init__(self, descriptor: int, path: str, header: Header, size_bytes: int, rows: list[Row]) -> None:
        self.path = path
        self.header = header
        self.size_bytes = size_bytes
        self.end_bytes = size_bytes  # where the next entry goes; entries behind `size_bytes` are not committed
        self.synced_bytes = 0  # length that is known to be on the disk
        self.rows = rows  # the committed blocks
        self._descriptor = descriptor
        self._unsealed_bytes = size_bytes  # where the last commit ends, before a footer was written
        self._id = identity(os.fstat(descriptor))

    @classmethod
    def create(cls, folder: str, header: Header, entries: bytes) -> Active:
        """Create a segment. The file gets its name once it is complete and on the disk. Raises `OSError`."""
        path = segment_path(folder, header.first)
        data = header.encode() + entries
        with making(path) as descriptor:
            write_all([data], partial(os.pwritev, descriptor))
            active = cls(descriptor, path, header, len(data), [])
        active.synced_bytes = len(data)
        return active

    @classmethod
    def open(cls, folder: str, header: Header, size_bytes: int, rows: list[Row]) -> Active:
        """Open an existing segment and cut off uncommitted entries; raises `OSError`."""
        path = segment_path(folder, header.first)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size > size_bytes:
                os.ftruncate(descriptor, size_bytes)
            active = cls(descriptor, path, header, size_bytes, rows)
            active.sync()
        except BaseException:
            os.close(descriptor)
            raise
        return active

    @property
    def is_in_place(self) -> bool:
        return stands(self.path, self._id)

    @property
    def next(self) -> int:
        return self.rows[-1].next if self.rows else self.header.first

    def write(self, entries: list[bytes]) -> None:
        """Write entries, which are not committed before `commit`. Raises `OSError`."""
        end_bytes = self.end_bytes
        self.end_bytes += write_all(entries, lambda parts, at: os.pwritev(self._descriptor, parts, end_bytes + at))

    def commit(self, rows: list[Row]) -> None:
        """Mark the written entries, which hold these blocks and a mark, as committed."""
        self.size_bytes = self.end_bytes
        self.rows += rows

    def cut_back(self) -> None:
        self.end_bytes = self.size_bytes
        with suppress(OSError):
            os.ftruncate(self._descriptor, self.size_bytes)

    def sync(self) -> None:
        """Wait until the file is on the disk; after an `OSError` parts of it may be lost."""
        end_bytes = self.end_bytes
        sync_data(self._descriptor)
        self.synced_bytes = max(self.synced_bytes, end_bytes)

    def seal(self, footer: Footer) -> None:
        """Write and sync the footer; if that fails, the segment is as before."""
        try:
            self.write([encode_footer(footer, self.size_bytes, self.next)])
            self.sync()
        except OSError:
            self.cut_back()
            raise
        self._unsealed_bytes, self.size_bytes = self.size_bytes, self.end_bytes

    def unseal(self) -> None:
        self.size_bytes = self._unsealed_bytes
        self.cut_back()

    def close(self) -> None:
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1


# Sealed segments with small blocks are written again, with full ones: single messages take more
# for the heads of its blocks than for the messages. Under load nothing is written twice.

_FULL_SHARE = 2  # a block is small if it is less than this part of a full one
_SMALL_LIMIT = 16  # fewer small blocks than this are not worth rewriting a segment
_TIDIED_BYTES = 32 * 1024 * 1024  # larger ones stop the writer for more than 0.2 s, and have blocks of 80 records


def is_untidy(rows: Sequence[Row]) -> bool:
    records, size_bytes = BLOCK_RECORDS // _FULL_SHARE, BLOCK_BYTES // _FULL_SHARE
    small = sum(row.next - row.first < records and row.size_bytes < size_bytes for row in rows)
    return small > _SMALL_LIMIT and sum([row.size_bytes for row in rows]) <= _TIDIED_BYTES


def write_again(folder: str, first: int, compressor: Compressor) -> int:
    """Rewrite a sealed segment with its blocks merged; return its new length. A failure changes nothing."""
    segment = Segment(folder, first)
    try:
        if segment.header is None or segment.footer is None or not segment.is_whole:
            raise JournalCorruptError(f"{segment.path}: {segment.flaw or 'a block is missing'}")
        footer = segment.footer
        with making(segment.path) as descriptor, open(descriptor, "wb", closefd=False) as file:
            file.write(segment.header.encode())
            commit = Commit(HEADER_BYTES, first, compressor)
            for block in _merged(segment):
                commit.add_block(block)
                file.writelines(commit.take())
            # All of it is on the disk before the file has its name; so later damage is visible.
            commit.end(Mark(commit.place, tuple(footer.writes), epochs=footer.epochs))
            file.writelines(commit.take())
            file.write(encode_footer(footer._replace(rows=commit.rows), commit.place, commit.next))
            size_bytes = file.tell()
    finally:
        segment.close()
    os.close(descriptor)
    return size_bytes


def _merged(segment: Segment) -> Iterator[bytes]:
    """Yield the blocks of a segment, neighbours merged up to the size of a full block."""
    waiting: list[bytes] = []
    records = size = 0
    for row in segment.rows:
        count = row.next - row.first
        if waiting and (records + count > BLOCK_RECORDS or size + row.size_bytes > BLOCK_BYTES):
            yield merge(waiting)
            waiting, records, size = [], 0, 0
        waiting.append(bytes(segment.block(row).data))
        records += count
        size += row.size_bytes
    if waiting:
        yield merge(waiting)
