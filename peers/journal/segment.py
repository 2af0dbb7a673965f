"""`Segment`: one segment of a journal, open for reading, also while it grows; and the compression of blocks.

Rows come from the footer of a sealed segment, otherwise from the heads of the entries up to the last mark; `refresh`
continues there. Only committed records are shown, and blocks are verified. A deleted segment stays readable while it
is open.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from enum import IntEnum
from operator import attrgetter, eq

from hub.errors import JournalCorruptError, JournalUnavailableError, StorageError
from hub.journal.block import Block
from hub.journal.segment import (
    HEAD,
    HEADER_BYTES,
    LISTING_LIMIT_BYTES,
    TRAILER_BYTES,
    Footer,
    Head,
    Header,
    Kind,
    Mark,
    Row,
    Write,
    footer_place,
    parse_footer,
    payload_of,
    read_head,
    recover,
    row_of,
)
from peers.journal.folder import segment_path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 1  # measured: within 3 % as small as levels 2 and 3, and faster by a seventh and a quarter
_LEAST_BYTES = 512  # shorter blocks are stored uncompressed: commits of a message or two, rewritten later
_WORTHWHILE = 7 / 8  # blocks that do not get smaller than this share are stored uncompressed
_PASSED_OVER = 15  # blocks stored uncompressed behind one that was not worth compressing
_LOOK_BYTES = 4_096  # read at once to find a head; most listings fit
_TRY_AGAIN_BYTES = 4 * 1024 * 1024
"""How much a growing segment must grow before damage at its end, which may be an entry being written, is looked at
again: that reads the whole file."""


class Codec(IntEnum):
    """Storage of an entry's payload; the number is on the disk."""

    NONE = 0
    ZSTD = 1


class Compressor:
    """Compresses blocks while that pays: JSON and msgpack shrink to an eighth, at 0.7 GB/s."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._zstd = zstd.ZstdCompressor(level=_LEVEL)
        self._passed_over = 0  # so many blocks are left to be stored as they are

    def encoded(self, data: bytes, *, in_haste: bool = False) -> tuple[Codec, bytes]:
        if not self._is_on or in_haste or len(data) < _LEAST_BYTES:
            return Codec.NONE, data
        if self._passed_over:
            self._passed_over -= 1
            return Codec.NONE, data
        compressed = self._zstd.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)
        if len(compressed) > _WORTHWHILE * len(data):
            self._passed_over = _PASSED_OVER
            return Codec.NONE, data
        return Codec.ZSTD, compressed


def decoded(payload: bytes, codec: int, raw_bytes: int) -> bytes:
    """Return a block of `raw_bytes`, decompressed; raises `JournalCorruptError`, or `JournalUnavailableError`."""
    if codec == Codec.NONE:
        block = payload
    elif codec == Codec.ZSTD:
        decompressor = zstd.ZstdDecompressor()
        try:
            block = decompressor.decompress(payload, raw_bytes)
        except zstd.ZstdError as error:
            raise JournalCorruptError(f"a block that was not compressed so: {error}") from error
        if not decompressor.eof or decompressor.unused_data:
            raise JournalCorruptError("a block that is longer than its size")
    else:
        raise JournalUnavailableError(f"a block stored with codec {codec}: not known to this version")
    if len(block) != raw_bytes:
        raise JournalCorruptError(f"a block of {len(block)} bytes that should have {raw_bytes}")
    return block


class Segment:
    """A segment, open for reading. Raises `JournalUnavailableError` for another version, or `OSError`."""

    def __init__(self, folder: str, first: int) -> None:
        self.path = segment_path(folder, first)
        self.first = first
        self.rows: list[Row] = []  # its committed blocks
        self.next = first
        self.flaw = ""  # damage beside its blocks; empty if there is none
        self.is_sealed = False
        self.footer: Footer | None = None
        self._place = HEADER_BYTES  # where the last commit that was seen ends
        self._tried_bytes = 0  # damage is looked into once the segment is so long
        self._marks: list[int] = []  # where the marks stand that were seen
        self._lacks_writes = False
        self.header: Header | None = None  # None if it is damaged
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._read_header()
            self.refresh()
        except BaseException:
            os.close(self._descriptor)
            raise

    def _read_header(self) -> None:
        try:
            self.header = header = Header.parse(os.pread(self._descriptor, HEADER_BYTES, 0))
            if header.first != self.first:
                self.flaw = f"its header says that it begins at {header.first}, its name {self.first}"
        except JournalCorruptError as error:
            self.flaw = str(error)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def is_in_place(self) -> bool:
        """Whether the file still has its name: it may be deleted or rewritten."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))  # noqa: PTH116 -- often
        except FileNotFoundError:
            return False

    def refresh(self) -> None:
        """Read what was committed since the last call; raises `OSError`."""
        if self.is_sealed:
            return
        size = os.fstat(self._descriptor).st_size
        place = footer_place(os.pread(self._descriptor, TRAILER_BYTES, max(0, size - TRAILER_BYTES)))
        if place is not None:
            self._read_footer(place)
        elif size > self._place:
            self._pass_on(size)

    def _read_footer(self, place: int) -> None:
        self.is_sealed = True
        try:
            head = self._head(place)
            self.footer = parse_footer(self._payload(place, head), place)
        except JournalCorruptError as error:
            self.flaw = f"its footer is damaged: {error}"
            self._recover()
            return
        self.rows, self.next = self.footer.rows, head.next

    def _pass_on(self, size: int) -> None:
        """Read heads up to the last mark; entries behind it may be taken back."""
        place = self._place
        waiting: list[Row] = []
        while place + HEAD.size <= size:
            try:
                head = self._head(place)
            except JournalCorruptError as error:
                self._pass_over(str(error), size)
                return
            if place + head.size_bytes > size:
                return
            if head.kind is Kind.BLOCK:
                waiting.append(row_of(place, head))
            if head.kind is Kind.MARK:
                self.rows += waiting
                waiting = []
                self._marks.append(place)
                self.next, self._place = head.next, place + head.size_bytes
            place += head.size_bytes

    def _pass_over(self, flaw: str, size: int) -> None:
        """Skip damage, or an entry that is being written."""
        if size < self._tried_bytes:
            return
        self._tried_bytes = size + _TRY_AGAIN_BYTES
        before = self._place
        self._recover()
        if self._place > before:
            self.flaw = flaw

    def _recover(self) -> None:
        """Find the blocks without a footer, also behind damage."""
        data = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        found = recover(data, self.first)
        self.rows = [row_of(*placed) for placed in found.blocks]
        self.next, self._place, self._marks = found.next, found.size_bytes, found.marks
        self._lacks_writes = found.lacks_writes

    def _head(self, place: int) -> Head:
        data = os.pread(self._descriptor, _LOOK_BYTES, place)
        listing_bytes = HEAD.unpack_from(data)[8] if len(data) >= HEAD.size else 0
        if len(data) < HEAD.size + listing_bytes <= HEAD.size + LISTING_LIMIT_BYTES:
            data = os.pread(self._descriptor, HEAD.size + listing_bytes, place)
        return read_head(data)

    def _payload(self, place: int, head: Head) -> bytes | memoryview:
        return payload_of(head, os.pread(self._descriptor, head.stored_bytes, place + head.payload_from))

    def row_at(self, offset: int) -> int:
        """Return the index in `rows` of the first block that ends behind an offset; their number if none does."""
        return bisect_right(self.rows, offset, key=attrgetter("next"))

    def block(self, row: Row) -> Block:
        """Read and verify a block; raises `JournalCorruptError` without the place, or `OSError`."""
        data = os.pread(self._descriptor, row.stored_bytes, row.place)
        try:
            head = read_head(data)
            payload = bytes(payload_of(head, memoryview(data)[head.payload_from :]))
            block = Block.parse(decoded(payload, head.codec, head.raw_bytes), verify=False)
        except JournalCorruptError as error:
            raise JournalCorruptError(f"the block is damaged: {error.__cause__ or error}") from error
        if (block.first, block.next) != (row.first, row.next):
            raise JournalCorruptError(f"another block is there, with offsets {block.first} to {block.next - 1}")
        return block

    @property
    def latest_us(self) -> int:
        return max((row.latest_us for row in self.rows), default=0)

    @property
    def is_whole(self) -> bool:
        edges = [self.first, *(row.next for row in self.rows)]
        return edges[-1] == self.next and all(map(eq, edges, (row.first for row in self.rows)))

    def writes(self) -> list[Write]:
        """Return the writers' last batches, the oldest first; some may come twice. Raises `JournalCorruptError`."""
        if self.footer is not None:
            return self.footer.writes
        if self._lacks_writes:
            raise JournalCorruptError(
                f"{self.path}: the list of committed batches is damaged; see `hub journal verify`"
            )
        return [write for place in self._marks for write in Mark.parse(self._payload(place, self._head(place))).writes]


def latest_us(folder: str, first: int) -> int:
    """Return the time of a segment's latest record, µs since 1970; 0 if unknown. Raises `OSError`."""
    try:
        segment = Segment(folder, first)
    except StorageError:
        return 0
    try:
        return segment.latest_us
    finally:
        segment.close()
