"""`View`: the journal's file, open for reading, also while a hub writes it.

Purpose: ranges of offsets, of a filter, as blocks; whatever is returned was checked against its checksum.

Owner: one thread or process. Invariants: one answer is one state of the file; never other bytes than those that were
written: damage is an error that names the place.

Cost: reading whole blocks is a copy and a checksum; a filter costs what agrees with it, and a few microseconds for each
block that is passed over.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import apsw

from hub.errors import GoneError, JournalCorruptError, JournalUnavailableError
from hub.journal.block import Block, select
from hub.journal.listing import may_hold
from peers.journal.schema import BlockRow, check_format, translated

__all__ = ["Extent", "Fetched", "View"]

_ROWS_LIMIT = 4_096
"""Most blocks that are looked at for one answer: a filter that nothing agrees with must not keep others waiting."""


class Extent(NamedTuple):
    """How far a journal reaches."""

    first: int
    """The oldest offset that is retained."""
    next: int
    """The one behind the newest."""


class Fetched(NamedTuple):
    """A piece of a range."""

    start: int
    next: int
    """Where to read on."""
    extent: Extent
    blocks: list[bytes]


class View:
    """A journal, open for reading.

    Args:
        path: Of the file.

    Raises:
        JournalCorruptError: The file is no journal, or damaged.
        JournalUnavailableError: There is none, or it cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        if not Path(path).exists():
            raise JournalUnavailableError(f"{path}: there is no such journal")
        with translated(path):
            self._connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
            self._connection.set_busy_timeout(1000)
            self.id = check_format(self._connection, path)

    def close(self) -> None:
        """Close the file."""
        with suppress(apsw.Error):
            self._connection.close()

    @property
    def extent(self) -> Extent:
        """How far the journal reaches now."""
        with translated(self.path):
            values = self._connection.execute(
                "SELECT (SELECT first FROM blocks ORDER BY first LIMIT 1),"
                " (SELECT next FROM blocks ORDER BY first DESC LIMIT 1)"
            ).get
        return Extent(*(value or 0 for value in values))

    def offset_at(self, time_us: int) -> int:
        """Return the offset of the first record that is not older than `time_us`; the end if all are.

        Where the clock was set back, records behind it may be older again.
        """
        with translated(self.path):
            found = self._connection.execute("SELECT min(first) FROM blocks WHERE latest_us >= ?", (time_us,)).get
        if found is None:
            return self.extent.next
        row = self._row_at(found)
        block = self._block(row)
        number = next((number for number, at in enumerate(block.times) if at >= time_us), block.count)
        return block.first + number

    def fetch(self, start: int, end: int | None, prefixes: tuple[str, ...], limit_bytes: int) -> Fetched:
        """Read from `start` on.

        Args:
            start: First offset wanted.
            end: The one behind the last wanted; None for all that there is.
            prefixes: Of the topics wanted.
            limit_bytes: Stop when so much was found; at least one block is returned if there is any. 0: nothing.

        Raises:
            GoneError: `start` is not in the journal.
            JournalCorruptError, JournalUnavailableError: It cannot be read.
        """
        with translated(self.path):
            self._connection.execute("BEGIN")
            try:
                return self._fetch(start, end, prefixes, limit_bytes)
            finally:
                with suppress(apsw.Error):
                    self._connection.execute("COMMIT")

    def _fetch(self, start: int, end: int | None, prefixes: tuple[str, ...], limit_bytes: int) -> Fetched:
        extent = self.extent
        self._check_start(start, extent)
        end = extent.next if end is None else min(end, extent.next)
        blocks: list[bytes] = []
        position, size = start, 0
        if limit_bytes and start < end:
            with closing(self.rows(start)) as rows:
                for number, row in enumerate(rows):
                    if number == _ROWS_LIMIT or size >= limit_bytes or row.first >= end:
                        break
                    if may_hold(row.topics, prefixes):
                        found = self._selected(row, start, end, prefixes)
                        if found:
                            blocks.append(found)
                            size += len(found)
                    position = min(row.next, end)
        return Fetched(start, position, extent, blocks)

    def _check_start(self, start: int, extent: Extent) -> None:
        if start < extent.first:
            text = f"offset {start} was deleted; the oldest that is kept is {extent.first}"
            raise GoneError(text, extent.first)
        if start > extent.next:
            text = f"offset {start} is behind the end of the journal, which is {extent.next}"
            raise GoneError(text, extent.first)

    def _selected(self, row: BlockRow, start: int, end: int, prefixes: tuple[str, ...]) -> bytes:
        block = self._block(row)
        wanted = bytes(topic.startswith(prefixes) for topic in block.topics)
        if 0 not in wanted:
            if start <= row.first and row.next <= end:
                return bytes(block.data)
            return select(bytes(block.data), start, end, None)
        return select(bytes(block.data), start, end, wanted)

    def rows(self, start: int = 0) -> Generator[BlockRow]:
        """Yield what is known of each block, from the one with offset `start` on, checked.

        Raises:
            JournalCorruptError: A row is damaged, or does not follow the one before it.
        """
        expected = None
        with translated(self.path):
            found = self._connection.execute("SELECT max(first) FROM blocks WHERE first <= ?", (start,)).get
            rows = self._connection.execute("SELECT * FROM blocks WHERE first >= ? ORDER BY first", (found or 0,))
            for values in rows:
                row = BlockRow(*values)
                if row.crc != row.expected_crc or (expected is not None and row.first != expected):
                    raise JournalCorruptError(f"{self.path}: the index is damaged at offset {expected or row.first}")
                expected = row.next
                yield row

    def block(self, row: BlockRow) -> Block:
        """Read a block, checked.

        Raises:
            JournalCorruptError: It is not what was written.
        """
        with translated(self.path):
            return self._block(row)

    def _row_at(self, first: int) -> BlockRow:
        with translated(self.path), closing(self.rows(first)) as rows:
            return next(rows)

    def _block(self, row: BlockRow) -> Block:
        found = self._connection.execute("SELECT block FROM data WHERE first = ?", (row.first,)).get
        if found is None:
            raise JournalCorruptError(f"{self.path}: the block at offset {row.first} is missing")
        try:
            block = Block.parse(found)
        except JournalCorruptError as error:
            raise JournalCorruptError(f"{self.path}: the block at offset {row.first} is damaged: {error}") from error
        if (block.first, block.next) != (row.first, row.next):
            raise JournalCorruptError(f"{self.path}: the block at offset {row.first} is another one")
        return block
