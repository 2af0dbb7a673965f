"""`Store`: the journal's file, open for writing. One at a time has it.

```
add(parts) ... commit()   one transaction:  small blocks at the end ──merged once they make a full one──▶ block
                                            what is too old or too much goes, whole blocks at a time
```

What one commit brings becomes one block or more, readable at once. Small ones pile up to a tail of at most
`TAIL_BLOCKS` blocks; when they make a full block together they are replaced by it, so that in the end all blocks are
large, and each record was written twice at most.

Owner: one thread (`peers.journal.writer`). Invariants: a commit is all or nothing, and offsets are dense: what failed
has taken none; when `commit` has returned, records survive a crash of the process, with `sync="full"` also one of
the machine.

Not here: when to commit (`peers.journal.writer`), reading (`peers.journal.view`).
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby, pairwise
from typing import NamedTuple

import apsw

from hub.errors import JournalCorruptError, JournalUnavailableError
from hub.journal.block import Block, merge, pack
from hub.journal.listing import listing, merged
from peers.journal.schema import APPLICATION_ID, FORMAT, PAGE_BYTES, SCHEMA, BlockRow, check_format, translated

__all__ = ["BLOCK_BYTES", "BLOCK_RECORDS", "TAIL_BLOCKS", "Retention", "Store", "Write"]

BLOCK_RECORDS = 8_192
"""Records of a full block. Reading is quickest with 1,000 to 16,000; see docs/performance.md."""

BLOCK_BYTES = 1024 * 1024
"""Values of a full block, bytes."""

TAIL_BLOCKS = 128
"""Most blocks of a tail. More would make readers of the newest records slow, fewer would merge more often."""

_DELETED_PER_COMMIT = 64
"""Most blocks that retention deletes in one commit, so that a commit does not take long."""

_WAL_BYTES = 64 * 1024 * 1024
"""The write-ahead log is moved into the file when it has grown so far, and is cut back to it."""

_PROBE_BYTES = 4 * 1024 * 1024
"""Written, and taken back, to see whether there is room again: a few full blocks, with what goes around them."""


class Retention(NamedTuple):
    """What is kept."""

    bytes: int
    age_us: int


class Write(NamedTuple):
    """The last batch that a writer has committed."""

    query: str
    batch: int
    first: int
    next: int


class Store:
    """A journal, open for writing.

    Args:
        path: Of the file; made if it is absent.
        full_sync: Whether a commit waits for the disk.
        retention: What is kept.

    Raises:
        JournalCorruptError: The file is no journal, or damaged where it is looked at.
        JournalUnavailableError: It cannot be opened, or another hub has it.
    """

    def __init__(self, path: str, *, full_sync: bool, retention: Retention) -> None:
        self.path = path
        self._retention = retention
        self._full_sync = full_sync
        self._before: tuple[int, int, int, list[tuple[BlockRow, bytes]]] | None = None  # of the open transaction
        self._lock = _lock(path)
        try:
            with translated(path):
                self._connection = _connect(path, full_sync=full_sync)
                self.id = check_format(self._connection, path)
                self._load()
        except BaseException:
            os.close(self._lock)
            raise

    def _load(self) -> None:
        execute = self._connection.execute
        first, size = execute("SELECT min(first), coalesce(sum(bytes), 0) FROM blocks").get
        newest = execute("SELECT * FROM blocks ORDER BY first DESC LIMIT ?", (TAIL_BLOCKS,)).fetchall()
        rows = [BlockRow(*row) for row in reversed(newest)]
        self.first: int = first or 0
        self.next: int = rows[-1].next if rows else 0
        self.size_bytes: int = size
        self._tail: list[tuple[BlockRow, bytes]] = []
        for row in reversed(rows):
            if not _is_small(row):
                break
            self._tail.insert(0, (row, self._block(row)))
        if rows and not self._tail:
            self._block(rows[-1])  # the newest block is looked at in any case

    def _block(self, row: BlockRow) -> bytes:
        """Read a block again.

        Raises:
            JournalCorruptError: It is damaged.
        """
        if row.crc != row.expected_crc:
            raise JournalCorruptError(f"{self.path}: the row of the block at offset {row.first} is damaged")
        found = self._connection.execute("SELECT block FROM data WHERE first = ?", (row.first,)).get
        block = Block.parse(found or b"")
        if (block.first, block.next) != (row.first, row.next):
            raise JournalCorruptError(f"{self.path}: the block at offset {row.first} is another one")
        return bytes(block.data)

    @property
    def writes(self) -> list[Write]:
        """The last batch of each writer."""
        with translated(self.path):
            return [Write(*row) for row in self._connection.execute("SELECT query, batch, first, next FROM writes")]

    def add(self, parts: list[tuple[int, bytes]]) -> None:
        """Write records into the open transaction; begins one if there is none.

        Args:
            parts: When they came, µs since 1970, and whole MESSAGES frames.

        Raises:
            JournalCorruptError, JournalUnavailableError: Nothing of the transaction stands.
        """
        in_order = all(one[0] <= following[0] for one, following in pairwise(parts))
        blocks = pack(parts, self.next, BLOCK_RECORDS, BLOCK_BYTES)
        fresh = [(_row(block, in_order=in_order), block) for block in blocks]
        with self._attempt():
            self._insert(fresh)
        for row, block in fresh:
            self.next = row.next
            self.size_bytes += row.size_bytes
            self._tail.append((row, block if _is_small(row) else b""))

    def commit(self, writes: Iterable[Write] = (), *, now_us: int) -> None:
        """Commit what was added, and what is told by it.

        Args:
            writes: Batches of writers that it completes.
            now_us: For retention.

        Raises:
            JournalCorruptError, JournalUnavailableError: Nothing of the transaction stands.
        """
        with self._attempt():
            execute = self._connection.execute
            for write in writes:
                execute("INSERT OR REPLACE INTO writes(query, batch, first, next) VALUES (?, ?, ?, ?)", write)
            self._settle()
            self._retire(now_us)
            execute("COMMIT")
        self._before = None

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        """Work within the transaction; if that fails, nothing of it has happened."""
        with translated(self.path):
            if self._before is None:
                self._connection.execute("BEGIN IMMEDIATE")
                self._before = (self.first, self.next, self.size_bytes, list(self._tail))
            try:
                yield
            except BaseException:
                with suppress(apsw.Error):
                    self._connection.execute("ROLLBACK")
                self.first, self.next, self.size_bytes, self._tail = self._before
                self._before = None
                raise

    def _settle(self) -> None:
        """Merge small blocks that make a full one together, or that a large one follows."""
        tail = self._tail
        start = len(tail)
        while start and _is_small(tail[start - 1][0]):
            start -= 1
        settled = [run for run in _small_runs(tail[:start]) if len(run) > 1]
        rest = tail[start:]
        if len(rest) > 1 and _is_full(rest):
            settled.append(rest)
            rest = []
        for run in settled:
            merged_run = _joined(run)
            self._delete([row.first for row, _ in run])
            self._insert(merged_run)
            self.size_bytes += sum(row.size_bytes for row, _ in merged_run) - sum(row.size_bytes for row, _ in run)
            if not rest and run is settled[-1] and run[-1][0] is tail[-1][0] and _is_small(merged_run[-1][0]):
                rest = merged_run[-1:]
        self._tail = rest

    def _insert(self, blocks: Iterable[tuple[BlockRow, bytes]]) -> None:
        execute = self._connection.execute
        for row, block in blocks:
            execute("INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            execute("INSERT INTO data VALUES (?, ?)", (row.first, block))

    def _delete(self, firsts: Sequence[int]) -> None:
        execute = self._connection.execute
        for first in firsts:
            execute("DELETE FROM blocks WHERE first = ?", (first,))
            execute("DELETE FROM data WHERE first = ?", (first,))

    def _retire(self, now_us: int) -> None:
        """Delete the oldest blocks that are too old or too much, never the newest one."""
        if not self._is_due(now_us):
            return
        oldest = self._connection.execute("SELECT * FROM blocks ORDER BY first LIMIT ?", (_DELETED_PER_COMMIT,))
        gone: list[int] = []
        for row in [BlockRow(*values) for values in oldest]:
            kept = self.size_bytes <= self._retention.bytes and row.latest_us >= now_us - self._retention.age_us
            if kept or row.next == self.next:
                break
            gone.append(row.first)
            self.first = row.next
            self.size_bytes -= row.size_bytes
        self._delete(gone)
        self._tail = [one for one in self._tail if one[0].first >= self.first]

    def _is_due(self, now_us: int) -> bool:
        """Whether something is too old or too much."""
        if self.size_bytes > self._retention.bytes:
            return True
        oldest = self._connection.execute("SELECT latest_us FROM blocks ORDER BY first LIMIT 1").get
        return oldest is not None and oldest < now_us - self._retention.age_us

    def probe(self) -> None:
        """See whether the file can be written, after it could not.

        Raises:
            JournalCorruptError, JournalUnavailableError: It cannot.
        """
        with translated(self.path):
            with suppress(apsw.Error):
                self._connection.close()
            self._before = None
            self._connection = _connect(self.path, full_sync=self._full_sync)
            execute = self._connection.execute
            execute("INSERT OR REPLACE INTO meta VALUES ('probe', zeroblob(?))", (_PROBE_BYTES,))
            execute("DELETE FROM meta WHERE name = 'probe'")
            self._load()

    def close(self) -> None:
        """Close the file. What was appended stays."""
        with suppress(apsw.Error):
            self._connection.close()
        os.close(self._lock)


def _lock(path: str) -> int:
    """Take the journal for this process.

    Raises:
        JournalUnavailableError: Another has it, or there is no such folder.
    """
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise JournalUnavailableError(f"{path}: {error.strerror}; does its folder exist, and may we write?") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise JournalUnavailableError(f"{path}: another hub has this journal open; give each its own file") from error
    return lock


def _connect(path: str, *, full_sync: bool) -> apsw.Connection:
    """Open the database, or make it."""
    connection = apsw.Connection(path)
    connection.set_busy_timeout(1000)
    connection.pragma("synchronous", "FULL" if full_sync else "NORMAL")
    if not connection.pragma("page_count"):
        connection.pragma("page_size", PAGE_BYTES)
        connection.pragma("journal_mode", "WAL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(SCHEMA)
        connection.execute("INSERT INTO meta VALUES ('id', ?)", (secrets.token_bytes(16),))
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", FORMAT)
        connection.execute("COMMIT")
    connection.pragma("wal_autocheckpoint", _WAL_BYTES // PAGE_BYTES)
    connection.pragma("journal_size_limit", _WAL_BYTES)
    return connection


def _row(data: bytes, *, in_order: bool) -> BlockRow:
    """Describe a block.

    Args:
        data: The block.
        in_order: Whether its times only grow: then the first and the last say it all, and none is looked at.
    """
    block = Block.parse(data, verify=False)
    times = block.times
    earliest, latest = (times[0], times[-1]) if in_order else (min(times), max(times))
    return BlockRow(block.first, block.next, earliest, latest, len(data), listing(block.topics)).sealed()


def _is_small(row: BlockRow) -> bool:
    """Whether a block is less than half of a full one."""
    return row.next - row.first < BLOCK_RECORDS // 2 and row.size_bytes < BLOCK_BYTES // 2


def _is_full(small: list[tuple[BlockRow, bytes]]) -> bool:
    """Whether small blocks make a full one together, or are too many."""
    return (
        len(small) >= TAIL_BLOCKS
        or sum(row.next - row.first for row, _ in small) >= BLOCK_RECORDS
        or sum(row.size_bytes for row, _ in small) >= BLOCK_BYTES
    )


def _small_runs(blocks: list[tuple[BlockRow, bytes]]) -> Iterator[list[tuple[BlockRow, bytes]]]:
    """Yield each run of small blocks."""
    for small, run in groupby(blocks, key=lambda one: _is_small(one[0])):
        if small:
            yield list(run)


def _joined(run: list[tuple[BlockRow, bytes]]) -> list[tuple[BlockRow, bytes]]:
    """Merge neighbours, so that each block is as full as the limits allow."""
    joined: list[tuple[BlockRow, bytes]] = []
    waiting: list[tuple[BlockRow, bytes]] = []
    records = size = 0
    for row, block in run:
        if waiting and (records + row.next - row.first > BLOCK_RECORDS or size + row.size_bytes > BLOCK_BYTES):
            joined.append(_merged(waiting))
            waiting, records, size = [], 0, 0
        waiting.append((row, block))
        records += row.next - row.first
        size += row.size_bytes
    joined.append(_merged(waiting))
    return joined


def _merged(some: list[tuple[BlockRow, bytes]]) -> tuple[BlockRow, bytes]:
    if len(some) == 1:
        return some[0]
    rows = [row for row, _ in some]
    block = merge([block for _, block in some])
    row = BlockRow(
        rows[0].first,
        rows[-1].next,
        min(row.earliest_us for row in rows),
        max(row.latest_us for row in rows),
        len(block),
        merged([row.topics for row in rows]),
    )
    return row.sealed(), block
