"""`View`: a journal's folder, open for reading, also while a hub writes it.

It returns ranges of offsets and topics as blocks. An answer is one state of the journal, and only has records as they
were written: damage is an error that names the place, and records around it can be read. Whole blocks cost a copy and a
checksum; a filter costs its matches, and a few µs for each skipped block. One thread or process uses it.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hub.errors import GoneError, JournalCorruptError, JournalUnavailableError, StorageError
from hub.journal.block import Block, select
from hub.journal.segment import Row, Write
from hub.journal.selection import Selection
from peers.journal.folder import check_is_folder, firsts, segment_path, translated
from peers.journal.segment import Segment

_OPEN_LIMIT = 16  # most open sealed segments: each a descriptor, and 0.3 KiB a block
_COARSE_NS = 2_000_000_000  # the folder's time may stay the same for so long: some file systems count seconds
_ROWS_LIMIT = 4_096  # most blocks looked at for one answer: a filter without matches must not keep others waiting
_READ_BYTES = 64 * 1024 * 1024  # most bytes read for one answer, for the same reason: about 50 ms
LARGE_FACTOR = 4
"""A block that is so many times larger than the wanted bytes is not returned whole. So an answer has at most one more
than so many times the wanted bytes, but for one record, which is never cut."""

_KEPT_BLOCKS = 16
"""Cached blocks of which a part was returned: consumers, events over HTTP and other hubs read on 64 to 256 KiB at a
time, and unpacking a block of 4 MiB for each would take 8 ms."""

_KEPT_BYTES = 8 * 1024 * 1024  # a longer block is not cached: one message may be half a GiB
_RECORD_BYTES = 24  # bytes of a record in a block beside its topic and its value


class Damage(NamedTuple):
    """A range of unreadable offsets, and the cause."""

    first: int
    next: int | None  # the offset behind the last of them; None if unknown
    cause: str

    def __str__(self) -> str:
        return f"{offsets_text(self.first, self.next)}: {self.cause}"


def offsets_text(first: int, following: int | None) -> str:
    """Name a range for people; `following` is the offset behind its last, None if unknown."""
    return f"offsets {first} to {'?' if following is None else following - 1}"


class Extent(NamedTuple):
    """The range of offsets of a journal."""

    first: int  # the oldest offset
    next: int  # the offset behind the newest record


class Fetched(NamedTuple):
    """The answer to a FETCH."""

    start: int
    next: int  # the offset to read on from
    extent: Extent
    blocks: list[bytes]


class _Summary(NamedTuple):
    latest_us: int  # of its latest record, µs since 1970; 0 if there is none
    is_whole: bool  # whether no block is missing in it, nor before the next segment
    end: int | None  # where the next segment begins


class View:
    """A journal, open for reading. Raises `StorageError`."""

    def __init__(self, path: str) -> None:
        self.path = path
        check_is_folder(path)
        self.firsts: list[int] = []  # first offsets of all segments, ascending
        # Segments that are open, the one that was used last behind the others.
        self._open: OrderedDict[int, Segment] = OrderedDict()
        self._summaries: dict[int, _Summary] = {}  # of sealed segments, by their first offsets
        self._changed_ns = -1  # when the folder was changed last, as of the last look, ns
        # Blocks of which a part was returned, by row and prefixes; the last used at the end.
        self._kept: OrderedDict[tuple[Row, tuple[str, ...]], Block] = OrderedDict()
        self._is_closed = False
        self.refresh()

    def close(self) -> None:
        self._is_closed = True
        for segment in self._open.values():
            segment.close()
        self._open.clear()

    def refresh(self) -> None:
        """Look for new commits and deleted segments; raises `JournalUnavailableError`."""
        if self._is_closed:
            raise JournalUnavailableError(f"{self.path}: closed")
        with translated(self.path):
            changed_ns = os.stat(self.path).st_mtime_ns  # noqa: PTH116 -- at every answer
            if changed_ns != self._changed_ns or abs(time.time_ns() - changed_ns) < _COARSE_NS:
                self._list()
                self._changed_ns = changed_ns
            self.segment(len(self.firsts) - 1)
            for segment in self._open.values():
                segment.refresh()  # nothing to do where it is sealed

    def _list(self) -> None:
        self.firsts = firsts(self.path)
        if not self.firsts:
            raise JournalUnavailableError(f"{self.path}: its segments are gone")
        for first, segment in list(self._open.items()):
            if not segment.is_in_place:
                self._open.pop(first).close()
        for first in set(self._summaries).difference(self.firsts):
            del self._summaries[first]

    def segment(self, number: int) -> Segment:
        """Return the segment at an index of `firsts`, open; raises `JournalUnavailableError`."""
        first = self.firsts[number]
        segment = self._open.get(first)
        if segment is None:
            with translated(segment_path(self.path, first)):
                segment = self._open[first] = Segment(self.path, first)
            while len(self._open) > _OPEN_LIMIT:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(first)
        return segment

    def _number_of(self, offset: int) -> int:
        return max(0, bisect_right(self.firsts, offset) - 1)

    def end_of(self, number: int) -> int | None:
        return self.firsts[number + 1] if number + 1 < len(self.firsts) else None

    def _summary(self, number: int) -> _Summary:
        first, end = self.firsts[number], self.end_of(number)
        known = self._summaries.get(first)
        if known is not None and known.end == end:
            return known
        segment = self.segment(number)
        is_whole = segment.is_whole and segment.next == (end or segment.next)
        summary = _Summary(segment.latest_us, is_whole, end)
        if segment.is_sealed:
            self._summaries[first] = summary
        return summary

    @property
    def id(self) -> bytes:
        """The id of the journal, from the newest segment with a sound header; empty without one."""
        for number in reversed(range(len(self.firsts))):
            header = self.segment(number).header
            if header is not None:
                return header.id
        return b""

    @property
    def extent(self) -> Extent:
        """Its range as of the last look; a damaged end is not included."""
        return Extent(self.firsts[0], self.segment(len(self.firsts) - 1).next)

    @property
    def writes(self) -> list[Write]:
        with translated(self.path):
            found = self.segment(len(self.firsts) - 1).writes()
        latest: dict[str, Write] = {}
        for write in found:
            latest.pop(write.query, None)
            latest[write.query] = write
        return list(latest.values())

    def offset_at(self, time_us: int) -> int:
        """Return the offset of the first record not older than `time_us`, or the end. Clocks may be set back."""
        self.refresh()
        return self._offset_at(time_us)

    def _offset_at(self, time_us: int) -> int:
        for number, first in enumerate(self.firsts):
            summary = self._summary(number)
            if summary.latest_us < time_us and summary.is_whole:
                continue
            for row in self.rows(first):  # an error where one is missing
                if row.latest_us >= time_us:
                    place = next((n for n, at_us in enumerate(self.block(row).times) if at_us >= time_us), None)
                    if place is None:
                        text = f"offset {row.first}: the block has other times than its head says"
                        raise JournalCorruptError(f"{self.path}: {text}")
                    return row.first + place
        return self.extent.next

    def fetch(  # noqa: PLR0913 -- the fields of a FETCH
        self,
        start: int,
        end: int | None,
        prefixes: tuple[str, ...],
        limit_bytes: int,
        *,
        time_us: int | None = None,
        may_read: Callable[[str], bool] | None = None,
    ) -> Fetched:
        """Read blocks with topics under `prefixes`, from `start` to `end` (None: the end of the journal).

        At most about `limit_bytes` (see `LARGE_FACTOR`); 0: nothing. `time_us` replaces `start` by the first record
        that is not older. `may_read` says whether a topic is granted; None: all are. Raises `GoneError`,
        `StorageError`.
        """
        wanted = Selection(prefixes, may_read)
        self.refresh()
        try:
            return self._fetch(start, end, wanted, limit_bytes, time_us)
        except JournalUnavailableError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            self.refresh()  # a segment was deleted since the look
            return self._fetch(start, end, wanted, limit_bytes, time_us)

    def _fetch(self, start: int, end: int | None, wanted: Selection, limit_bytes: int, time_us: int | None) -> Fetched:
        extent = self.extent
        if time_us is not None:
            start = self._offset_at(time_us)
        if start < extent.first:
            raise GoneError(f"offset {start} was deleted; the oldest that is kept is {extent.first}", extent.first)
        if start > extent.next:
            text = f"offset {start} is behind the end of the journal, which is {extent.next}"
            raise GoneError(text, extent.first)
        end = extent.next if end is None else min(end, extent.next)
        blocks: list[bytes] = []
        position = start
        if limit_bytes and start < end:
            position = self._collect(blocks, start, end, wanted, limit_bytes)
        return Fetched(start, position, extent, blocks)

    def _collect(self, blocks: list[bytes], start: int, end: int, wanted: Selection, limit_bytes: int) -> int:
        """Append wanted blocks and return where to go on; damage raises only if nothing stands before it."""
        position = start
        size = looked_at = number = 0
        try:
            for row in self.rows(start):
                following = min(row.next, end)
                if wanted.may_hold(row.topics):
                    block = self._kept.get((row, wanted.prefixes)) or self.block(row)
                    marks = wanted.marks(block.topics)
                    begin = max(start, row.first)
                    stop = following if 0 in marks else _stop(block, begin, following, limit_bytes)
                    found = _selected(block, begin, stop, marks)
                    if len(found) > LARGE_FACTOR * limit_bytes:
                        self._keep(row, wanted, block)
                        return cut(blocks, found, position, stop, limit_bytes)
                    if stop < following:
                        self._keep(row, wanted, block)
                        if blocks:
                            return position
                        blocks.append(found)
                        return stop
                    if found:
                        blocks.append(found)
                    size += len(found)
                    looked_at += len(block.data)
                position = following
                number += 1
                if position >= end or size >= limit_bytes or looked_at >= _READ_BYTES or number == _ROWS_LIMIT:
                    return position
            raise self._missing(position)
        except StorageError:
            if position == start:
                raise
        return position

    def _keep(self, row: Row, wanted: Selection, block: Block) -> None:
        if len(block.data) > _KEPT_BYTES:
            return
        key = row, wanted.prefixes
        self._kept[key] = block
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT_BLOCKS:
            self._kept.popitem(last=False)

    def rows(self, start: int = 0) -> Iterator[Row]:
        """Yield the row of each block, from the one with offset `start` on; raises as `fetch`."""
        expected = max(start, self.firsts[0])
        for number in range(self._number_of(start), len(self.firsts)):
            for row in self._rows_of(number, expected):
                if row.first > expected:
                    raise self._missing(expected)
                expected = row.next
                yield row

    def _rows_of(self, number: int, start: int) -> list[Row]:
        segment = self.segment(number)
        return segment.rows[segment.row_at(start) :]

    def _missing(self, position: int) -> JournalCorruptError:
        return JournalCorruptError(f"{self.path}: offset {position} is missing; see `hub journal verify`")

    def damage_at(self, position: int) -> Damage | None:
        number = self._number_of(position)
        rows = self._rows_of(number, position)
        if not rows:
            return Damage(position, self.end_of(number), "no block has them")
        if rows[0].first > position:
            return Damage(position, rows[0].first, "no block has them")
        flaw = self.flaw_of(rows[0])
        return Damage(position, rows[0].next, flaw) if flaw else None

    def flaw_of(self, row: Row) -> str:
        try:
            self._block(row)
        except JournalCorruptError as error:
            return str(error)
        return ""

    def block(self, row: Row) -> Block:
        """Read a block, verified; raises `JournalCorruptError` with the place, or `JournalUnavailableError`."""
        try:
            return self._block(row)
        except JournalCorruptError as error:
            text = f"{self.path}: {offsets_text(row.first, row.next)}: {error}; see `hub journal verify`"
            raise JournalCorruptError(text) from error

    def _block(self, row: Row) -> Block:
        segment = self.segment(self._number_of(row.first))
        now = row
        if (number := segment.row_at(row.first)) < len(segment.rows):
            there = segment.rows[number]
            if there.first <= row.first < row.next <= there.next:
                now = there  # a larger one, if its segment was written again since the look
        with translated(self.path):
            block = segment.block(now)
        return block if now == row else Block.parse(select(bytes(block.data), row.first, row.next), verify=False)


def _stop(block: Block, start: int, end: int, limit_bytes: int) -> int:
    """Return where to cut a block, all of whose topics are wanted: `end` if it is not too large.

    It only looks at the ends of values: the rest of a large block is not walked through for each answer.
    """
    low, high = start - block.first, end - block.first  # stored blocks are dense
    ends = block.value_ends

    def before(index: int) -> int:
        """Return how many bytes the records before an index take."""
        return ends[index] + index * _RECORD_BYTES

    if before(high) - before(low) <= LARGE_FACTOR * limit_bytes:
        return end
    fits = bisect_right(range(low, high), before(low) + limit_bytes, key=before) - 1
    return min(start + max(1, fits), end)


def _selected(block: Block, start: int, end: int, marks: bytes) -> bytes:
    is_whole = 0 not in marks and start <= block.first and block.next <= end
    return bytes(block.data) if is_whole else select(bytes(block.data), start, end, marks)


def cut(blocks: list[bytes], found: bytes, position: int, following: int, limit_bytes: int) -> int:
    """Append the beginning of a large block, if nothing stands before it; return where to go on."""
    if blocks:
        return position
    rest = _offset_within(Block.parse(found, verify=False), limit_bytes)
    if rest is None:
        blocks.append(found)
        return following
    blocks.append(select(found, 0, rest))
    return rest


def _offset_within(block: Block, limit_bytes: int) -> int | None:
    """Return the offset of the first record over the limit, but never of the very first; None if none is."""
    sizes = [len(topic.encode()) + _RECORD_BYTES for topic in block.topics]
    size = start = 0
    for number, (topic_no, end) in enumerate(zip(block.topic_nos, block.value_ends[1:], strict=True)):
        size += sizes[topic_no] + end - start
        start = end
        if number and size > limit_bytes:
            return block.offsets[number] if block.offsets is not None else block.first + number
    return None
