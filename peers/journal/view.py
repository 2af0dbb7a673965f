"""`View`: the journal's file, open for reading, also while a hub writes it.

Purpose: ranges of offsets, of a filter, as blocks; whatever is returned was checked against its checksum.

Owner: one thread or process. Invariants: one answer is one state of the file; never other bytes than those that were
written: damage is an error that names the place, and what stands before and behind it is read. A state is held for one
answer only: what is held longer keeps the hub's write-ahead log from being used again, and it grows.

Cost: reading whole blocks is a copy and a checksum; a filter costs what agrees with it, and a few microseconds for each
block that is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice, takewhile
from typing import NamedTuple

import apsw

from hub.errors import GoneError, JournalCorruptError, StorageError
from hub.journal.block import Block, select
from hub.journal.wanted import Wanted
from peers.journal.checked import block_row, edge_rows, stored_block, stored_writes
from peers.journal.damage import UNREADABLE, Damage, damage_at, sound_extent
from peers.journal.schema import BlockRow, Write, check_is_file, check_version, stored_id, translated

__all__ = ["LARGE_FACTOR", "Extent", "Fetched", "View"]

_ROWS_LIMIT = 4_096
"""Most blocks that are looked at for one answer: a filter that nothing agrees with must not keep others waiting."""

_READ_BYTES = 64 * 1024 * 1024
"""Most that is read for one answer, for the same reason: about 50 ms."""

LARGE_FACTOR = 4
"""A block that is so many times larger than what is wanted is not given whole. So an answer has at most one more than
so many times what is wanted; but for one record, which is never cut."""

_RECORD_BYTES = 24
"""What a record takes in a block beside its topic and its value."""


class Extent(NamedTuple):
    """How far a journal reaches."""

    first: int
    """The oldest offset that is retained."""
    next: int
    """The offset behind the newest record."""


class Fetched(NamedTuple):
    """The answer to a FETCH: a piece of a range of offsets."""

    start: int
    next: int
    """The offset to read on from."""
    extent: Extent
    blocks: list[bytes]


class View:
    """A journal, open for reading.

    Args:
        path: Path of the file.
        is_rescue: Whether to open it also where its id is damaged; `id` is empty then.

    Raises:
        JournalCorruptError: The file is no journal, or damaged.
        JournalUnavailableError: There is none, or it cannot be read.
    """

    def __init__(self, path: str, *, is_rescue: bool = False) -> None:
        self.path = path
        check_is_file(path)
        with translated(path):
            self._connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
            try:
                self._connection.set_busy_timeout(1000)
                check_version(self._connection, path)
                self.id = self._stored_id(is_rescue=is_rescue)
            except BaseException:
                self._connection.close()
                raise

    def _stored_id(self, *, is_rescue: bool) -> bytes:
        try:
            return stored_id(self._connection, self.path)
        except (JournalCorruptError, *UNREADABLE):
            if not is_rescue:
                raise
            return b""

    def close(self) -> None:
        """Close the file."""
        with suppress(apsw.Error):
            self._connection.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See one state of the file for as long as the block lasts.

        Raises:
            JournalCorruptError, JournalUnavailableError: It cannot be read.
        """
        with translated(self.path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                with suppress(apsw.Error):
                    self._connection.execute("COMMIT")

    @property
    def extent(self) -> Extent:
        """How far the journal reaches now; at the least, where its ends are damaged."""
        return self._known_extent()[0]

    def _known_extent(self) -> tuple[Extent, JournalCorruptError | None]:
        """Return how far the journal reaches, and why that may not be all.

        Raises:
            JournalCorruptError: Nothing tells how far.
            JournalUnavailableError: It cannot be read.
        """
        try:
            with translated(self.path):
                edges = edge_rows(self._connection, self.path)
        except JournalCorruptError as error:
            with translated(self.path):
                known = sound_extent(self._connection)
            if known is None:
                raise
            return Extent(*known), error
        return (Extent(edges[0].first, edges[1].next) if edges is not None else Extent(0, 0)), None

    @property
    def writes(self) -> list[Write]:
        """Return the last batch of each writer."""
        with translated(self.path):
            return stored_writes(self._connection, self.path)

    def offset_at(self, time_us: int) -> int:
        """Return the offset of the first record that is not older than `time_us`; the end if all are.

        Where the clock was set back, records behind it may be older again.

        Raises:
            JournalCorruptError, JournalUnavailableError: It cannot be read.
        """
        with self.snapshot():
            return self._offset_at(time_us)

    def _offset_at(self, time_us: int) -> int:
        found = self._connection.execute(
            "SELECT min(first) FROM blocks INDEXED BY blocks_by_time WHERE latest_us >= ?", (time_us,)
        ).get
        if found is None:
            return self._end_before(time_us)
        with closing(self.rows(max(0, found - 1))) as rows:
            near = list(islice(takewhile(lambda row: row.first <= found, rows), 2))
        if not near or near[0].first > max(found - 1, self.extent.first):  # the one before it is missing
            raise self._damaged_times()
        late = [row for row in near if row.latest_us >= time_us]
        times = self.block(near[-1]).times if late and late == near[-1:] else ()
        number = next((number for number, at in enumerate(times) if at >= time_us), None)
        if number is None:
            raise self._damaged_times()
        return near[-1].first + number

    def _end_before(self, time_us: int) -> int:
        """Return the end, where the index of times knows of nothing as late as that."""
        edges = edge_rows(self._connection, self.path)
        if edges is not None and edges[1].latest_us >= time_us:
            raise self._damaged_times()
        return edges[1].next if edges is not None else 0

    def _damaged_times(self) -> JournalCorruptError:
        return JournalCorruptError(f"{self.path}: the index of times is damaged; see `hub journal verify`")

    def fetch(  # noqa: PLR0913 -- what one answer depends on
        self,
        start: int,
        end: int | None,
        prefixes: tuple[str, ...],
        limit_bytes: int,
        *,
        time_us: int | None = None,
        may_read: Callable[[str], bool] | None = None,
    ) -> Fetched:
        """Read from `start` on.

        Args:
            start: First offset wanted.
            end: The offset behind the last wanted; None for all that there is.
            prefixes: Prefixes of the topics wanted.
            limit_bytes: Stop when so much was found. 0: nothing. See `LARGE_FACTOR` for what is over it.
            time_us: Instead of `start`: the first record that is not older.
            may_read: Whether a topic is granted to who reads; None: all are.

        Raises:
            GoneError: `start` is not in the journal.
            JournalCorruptError, JournalUnavailableError: It cannot be read.
        """
        with self.snapshot():
            extent, doubt = self._known_extent()
            if time_us is not None:
                start = self._offset_at(time_us)
            _check_start(start, extent, doubt)
            end = extent.next if end is None else min(end, extent.next)
            blocks: list[bytes] = []
            position = start
            if limit_bytes and start < end:
                position = self._collect(blocks, start, end, Wanted(prefixes, may_read), limit_bytes)
            return Fetched(start, position, extent, blocks)

    def _collect(self, blocks: list[bytes], start: int, end: int, wanted: Wanted, limit_bytes: int) -> int:
        """Append what is wanted; return where to go on: also where that is damaged, if something stands before it."""
        position = start
        size = looked_at = number = 0
        try:
            with closing(self.rows(start)) as rows:
                for row in rows:
                    if row.first > position:
                        break
                    if wanted.may_hold(row.topics):
                        found = self._selected(row, start, end, wanted)
                        if len(found) > LARGE_FACTOR * limit_bytes:
                            return self._cut(blocks, found, position, min(row.next, end), limit_bytes)
                        if found:
                            blocks.append(found)
                        size += len(found)
                        looked_at += row.size_bytes
                    position = min(row.next, end)
                    number += 1
                    if position >= end or size >= limit_bytes or looked_at >= _READ_BYTES or number == _ROWS_LIMIT:
                        return position
            raise self._damaged_index(position)
        except StorageError:
            if position == start:
                raise
        return position

    def _selected(self, row: BlockRow, start: int, end: int, wanted: Wanted) -> bytes:
        block = self.block(row)
        data = bytes(block.data)
        marks = wanted.marks(block.topics)
        if 0 in marks:
            return select(data, start, end, marks)
        return data if start <= row.first and row.next <= end else select(data, start, end)

    @staticmethod
    def _cut(blocks: list[bytes], found: bytes, position: int, following: int, limit_bytes: int) -> int:
        """Append the beginning of a large block, if nothing stands before it; return where to go on."""
        if blocks:
            return position
        rest = _offset_within(Block.parse(found, verify=False), limit_bytes)
        if rest is None:
            blocks.append(found)
            return following
        blocks.append(select(found, 0, rest))
        return rest

    def rows(self, start: int = 0) -> Generator[BlockRow]:
        """Yield what is known of each block, from the one with offset `start` on, checked.

        One state of the file is seen until the last is yielded, or the generator is closed.

        Raises:
            JournalCorruptError: A row is damaged, or does not follow the one before it.
            JournalUnavailableError: It cannot be read.
        """
        expected = None
        with translated(self.path):
            rows = self._connection.execute(
                "SELECT * FROM blocks WHERE first >= coalesce((SELECT max(first) FROM blocks WHERE first <= ?), 0)"
                " ORDER BY first",
                (start,),
            )
            try:
                for values in rows:
                    row = block_row(values, self.path)
                    if row.first != expected and expected is not None:
                        raise self._damaged_index(expected)
                    expected = row.next
                    if expected > start:  # else the one with that offset is missing, or it is the end
                        yield row
            finally:
                rows.close()

    def _damaged_index(self, position: int) -> JournalCorruptError:
        return JournalCorruptError(f"{self.path}: the index is damaged at offset {position}; see `hub journal verify`")

    def damage_at(self, position: int) -> Damage | None:
        """Return what is wrong where `position` should be, and how far; None if it can be read.

        Raises:
            JournalUnavailableError: It cannot be read, for another reason than damage.
        """
        with translated(self.path):
            return damage_at(self._connection, position)

    def block(self, row: BlockRow) -> Block:
        """Read a block, checked. For rows of the same state of the file, see `snapshot`.

        Raises:
            JournalCorruptError: It is not what was written.
            JournalUnavailableError: It cannot be read.
        """
        with translated(self.path):
            return stored_block(self._connection, row, self.path)


def _check_start(start: int, extent: Extent, doubt: JournalCorruptError | None) -> None:
    if start < extent.first:
        text = f"offset {start} was deleted; the oldest that is kept is {extent.first}"
        raise GoneError(text, extent.first)
    if start > extent.next:
        if doubt is not None:
            raise doubt
        text = f"offset {start} is behind the end of the journal, which is {extent.next}"
        raise GoneError(text, extent.first)


def _offset_within(block: Block, limit_bytes: int) -> int | None:
    """Return the offset of the first record that is over the limit, but never of the very first; None if none is."""
    sizes = [len(topic.encode()) + _RECORD_BYTES for topic in block.topics]
    size = start = 0
    for number, (topic_no, end) in enumerate(zip(block.topic_nos, block.value_ends[1:], strict=True)):
        size += sizes[topic_no] + end - start
        start = end
        if number and size > limit_bytes:
            return block.offsets[number] if block.offsets is not None else block.first + number
    return None
