"""`Segment`: one segment of a journal, open for reading, also while a hub appends to it.

```
sealed      rows as its footer has them; where that is damaged, as they are found from entry to entry
growing     rows as the heads of entries have them, up to the last mark; `refresh` goes on from there
```

Owner: one thread. Invariants: what it shows was committed; a block was compared with its checksums, and is the one that
its row names. A segment that is deleted meanwhile stays readable for who has it open.

Cost: opening a sealed one two reads and 1 µs a block; of a growing one 10 µs a block, once.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from operator import eq

from hub.errors import JournalCorruptError, StorageError
from hub.journal.block import Block
from hub.journal.segment.entry import HEAD, LISTING_LIMIT_BYTES, Head, Kind, payload_of, read_head
from hub.journal.segment.footer import TRAILER_BYTES, Footer, Row, footer_place, parse_footer, row_of
from hub.journal.segment.header import HEADER_BYTES, Header
from hub.journal.segment.mark import Mark, Write
from hub.journal.segment.recovery import recover
from peers.journal.segments.folder import identity, segment_path
from peers.journal.segments.stored_block import stored_block

__all__ = ["Segment", "latest_us"]

_LOOK_BYTES = 4_096
"""Read at once to find a head, with most listings."""

_TRY_AGAIN_BYTES = 4 * 1024 * 1024
"""How much longer a growing segment must be before damage at its end, which may be what is being written, is looked
into again: that reads all of it."""


class Segment:
    """A segment, open for reading.

    Args:
        folder: Path of the journal.
        first: The offset of its first record, as its name says.
        path: Where it stands, if not there: one that is being made.

    Raises:
        JournalUnavailableError: It is one of another version.
        OSError: It cannot be read.
    """

    def __init__(self, folder: str, first: int, path: str = "") -> None:
        self.path = path or segment_path(folder, first)
        self.first = first
        self.rows: list[Row] = []
        """Its blocks, as far as they are committed."""
        self.next = first
        """The offset behind the last record."""
        self.flaw = ""
        """What is wrong with it beside its blocks; empty if nothing is."""
        self.is_sealed = False
        self.footer: Footer | None = None
        # Where the last commit that was seen ends.
        self._place = HEADER_BYTES
        # Damage is looked into once the segment is so long.
        self._tried_bytes = 0
        # Where the marks stand that were seen.
        self._marks: list[int] = []
        # Whether marks are missing among them.
        self._lacks_writes = False
        self.header: Header | None = None
        """What it begins with; None where that is damaged."""
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._read_header()
            self.refresh()
        except BaseException:
            os.close(self._descriptor)
            raise

    def _read_header(self) -> None:
        try:
            header = Header.parse(os.pread(self._descriptor, HEADER_BYTES, 0))
        except JournalCorruptError as error:
            self.flaw = str(error)
            return
        if header.first != self.first:
            self.flaw = f"its header says that it begins at {header.first}, its name {self.first}"
        self.header = header

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def id(self) -> tuple[int, int]:
        """By what the file is known, whatever its name is."""
        return identity(os.fstat(self._descriptor))

    @property
    def size_bytes(self) -> int:
        """Length of the file."""
        return os.fstat(self._descriptor).st_size

    @property
    def is_in_place(self) -> bool:
        """Return whether the file still stands under its name: it may be deleted, or joined with others."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))  # noqa: PTH116 -- often
        except FileNotFoundError:
            return False

    def refresh(self) -> None:
        """See what was committed since the last look.

        Raises:
            OSError: It cannot be read.
        """
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
            stored = os.pread(self._descriptor, head.stored_bytes, place + head.payload_from)
            self.footer = parse_footer(payload_of(head, stored), place)
        except JournalCorruptError as error:
            self.flaw = f"its footer is damaged: {error}"
            self._recover()
            return
        self.rows, self.next = self.footer.rows, head.next

    def _pass_on(self, size: int) -> None:
        """Go from entry to entry, and take what a mark follows. What none follows may yet be taken back."""
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
        """Go on behind damage, or behind what is being written this moment."""
        if size < self._tried_bytes:
            return
        self._tried_bytes = size + _TRY_AGAIN_BYTES
        before = self._place
        self._recover()
        if self._place > before:
            self.flaw = flaw

    def _recover(self) -> None:
        """Find the blocks without a footer, behind damage too."""
        data = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        found = recover(data, self.first)
        self.rows = [row_of(*placed) for placed in found.blocks]
        self.next, self._place, self._marks = found.next, found.size_bytes, found.marks
        self._lacks_writes = found.lacks_writes

    def _head(self, place: int) -> Head:
        """Read the head of an entry.

        Raises:
            JournalCorruptError: There is none, or it is damaged or cut off.
        """
        data = os.pread(self._descriptor, _LOOK_BYTES, place)
        listing_bytes = HEAD.unpack_from(data)[8] if len(data) >= HEAD.size else 0
        if len(data) < HEAD.size + listing_bytes <= HEAD.size + LISTING_LIMIT_BYTES:
            data = os.pread(self._descriptor, HEAD.size + listing_bytes, place)
        return read_head(data)

    def row_at(self, offset: int) -> int:
        """Return the place in `rows` of the first block that ends behind an offset; their number if none does."""
        return bisect_right(self.rows, offset, key=_next_of)

    def block(self, row: Row) -> Block:
        """Read a block, checked.

        Raises:
            JournalCorruptError: It is not what was written. The text is the cause, without the place.
            JournalUnavailableError: It is stored in a way that this version does not know.
            OSError: It cannot be read.
        """
        return stored_block(self._descriptor, row)

    @property
    def earliest_us(self) -> int:
        """The time of the earliest record, µs since 1970; 0 if there is none."""
        return min((row.earliest_us for row in self.rows), default=0)

    @property
    def latest_us(self) -> int:
        """The time of the latest record, µs since 1970; 0 if there is none."""
        return max((row.latest_us for row in self.rows), default=0)

    @property
    def is_whole(self) -> bool:
        """Whether no block is missing between its first and its last."""
        edges = [self.first, *(row.next for row in self.rows)]
        return edges[-1] == self.next and all(map(eq, edges, (row.first for row in self.rows)))

    def writes(self) -> list[Write]:
        """Return what writers have committed in this segment and before it, the oldest first; some may come twice.

        Raises:
            JournalCorruptError: A mark is damaged.
            OSError: It cannot be read.
        """
        if self.footer is not None:
            return self.footer.writes
        if self._lacks_writes:
            raise JournalCorruptError(f"{self.path}: what writers have committed is damaged; see `hub journal verify`")
        writes: list[Write] = []
        for place in self._marks:
            head = self._head(place)
            stored = os.pread(self._descriptor, head.stored_bytes, place + head.payload_from)
            writes += Mark.parse(payload_of(head, stored)).writes
        return writes


def _next_of(row: Row) -> int:
    return row.next


def latest_us(folder: str, first: int) -> int:
    """Return the time of the latest record of a segment, µs since 1970; 0 where nothing tells it.

    Raises:
        OSError: It cannot be read.
    """
    try:
        segment = Segment(folder, first)
    except StorageError:
        return 0
    try:
        return segment.latest_us
    finally:
        segment.close()
