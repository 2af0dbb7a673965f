"""`Store`: the journal's file, open for writing. One process at a time has it.

```
add(parts) ... commit()   one transaction:  small blocks at the end ──merged once they make a full one──▶ block
                                            what is too old or too much goes, whole blocks at a time
```

What one commit brings becomes one block or more, readable at once. Small ones pile up to a tail of at most
`TAIL_BLOCKS` blocks; when they make a full block together they are replaced by it, so that in the end blocks are large.
Under load each record is written twice at most; what trickles in by single messages is written again with every
`TAIL_BLOCKS` commits until it makes half a block.

Owner: one thread (`peers.journal.writer`). Invariants: a commit is all or nothing, and offsets are dense: what failed
has taken none; when `commit` has returned, records survive a crash of the process, with `sync="full"` also one of
the machine.

Not here: when to commit (`peers.journal.writer`), what is merged (`peers.journal.merging`), reading
(`peers.journal.view`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import apsw

from hub.errors import JournalCorruptError
from hub.journal.block import Block, pack
from hub.journal.listing import listing
from peers.journal.checked import block_row, edge_rows, stored_block, stored_writes
from peers.journal.merging import BLOCK_BYTES, BLOCK_RECORDS, TAIL_BLOCKS, Stored, is_small, plan
from peers.journal.opening import Lock, connect, create
from peers.journal.schema import BlockRow, Write, check_format, translated

__all__ = ["WRITERS_LIMIT", "Retention", "Store"]

WRITERS_LIMIT = 10_000
"""Writers whose last batch is remembered. A Spark query keeps its name for as long as it keeps its checkpoint; of more
of them, those whose last commit is the oldest are forgotten."""

_DELETED_PER_COMMIT = 64
"""Most blocks that retention deletes in one commit, so that a commit does not take long."""

_PROBE_BYTES = 4 * 1024 * 1024
"""Written, and taken back, to see whether there is room again: a few full blocks, with what goes around them."""


class Retention(NamedTuple):
    """How much is kept, and for how long."""

    bytes: int
    age_us: int


class _Before(NamedTuple):
    """What is restored when a transaction fails."""

    first: int
    next: int
    size_bytes: int
    tail: list[Stored]


class Store:
    """A journal, open for writing.

    Args:
        path: Path of the file, which is made if it is absent.
        full_sync: Whether a commit waits for the disk.
        retention: How much is kept, and for how long.

    Raises:
        JournalCorruptError: The file is no journal, or damaged where it is looked at.
        JournalUnavailableError: It cannot be opened, or another hub has it.
    """

    first: int
    """The oldest offset that is retained."""
    next: int
    """The offset that the next record gets, also within an open transaction."""
    size_bytes: int
    """Size of all blocks, bytes."""
    writes: list[Write]
    """The last batch of each writer, as it was when the file was opened; the oldest commit first."""

    def __init__(self, path: str, *, full_sync: bool, retention: Retention) -> None:
        self.path = str(Path(path).resolve())
        self._retention = retention
        self._full_sync = full_sync
        # The state before the open transaction; None where none is open.
        self._before: _Before | None = None
        # The blocks at the end that wait to be merged with what comes.
        self._tail: list[Stored] = []
        # True once `close` was called.
        self._closed = False
        self._lock = Lock.take(self.path)
        try:
            with translated(self.path):
                self._connection = create(self.path, full_sync=full_sync)
                try:
                    self._read()
                except BaseException:
                    self._connection.close()
                    raise
        except BaseException:
            self._lock.release()
            raise

    def _read(self) -> None:
        """Read how far the file reaches. The newest block is looked at in any case."""
        connection, path = self._connection, self.path
        self.id = check_format(connection, path)
        edges = edge_rows(connection, path)
        self.first, self.next = (edges[0].first, edges[1].next) if edges is not None else (0, 0)
        self.size_bytes = connection.execute("SELECT coalesce(sum(bytes), 0) FROM blocks").get
        self.writes = stored_writes(connection, path)
        newest = connection.execute("SELECT * FROM blocks ORDER BY first DESC LIMIT ?", (TAIL_BLOCKS,)).fetchall()
        self._tail = []
        for values in newest:
            row = block_row(values, path)
            block = stored_block(connection, row, path)
            if not is_small(row):
                break
            self._tail.insert(0, (row, bytes(block.data)))

    def add(self, parts: list[tuple[int, bytes]]) -> None:
        """Write records into the open transaction; begin one if there is none.

        Args:
            parts: When they came, µs since 1970, and whole MESSAGES frames.

        Raises:
            JournalCorruptError, JournalUnavailableError: Nothing of the transaction stands.
            ValueError: They are no such frames; nothing of the transaction stands, either.
        """
        in_order = all(one[0] <= following[0] for one, following in pairwise(parts))
        with self._attempt():
            for piece in _pieces(parts):
                self._add_blocks(pack(piece, self.next, BLOCK_RECORDS, BLOCK_BYTES), in_order=in_order)

    def _add_blocks(self, blocks: list[bytes], *, in_order: bool) -> None:
        fresh = [(_row(block, in_order=in_order), block) for block in blocks]
        self._insert(fresh)
        for row, block in fresh:
            self.next = row.next
            self.size_bytes += row.size_bytes
            self._tail.append((row, block if is_small(row) else b""))

    def commit(self, writes: Iterable[Write] = (), *, now_us: int) -> None:
        """Commit what was added, and what writers have completed with it.

        Args:
            writes: Batches of writers that it completes.
            now_us: The time, for retention.

        Raises:
            JournalCorruptError, JournalUnavailableError: Nothing of the transaction stands; or it stands in a file that
                nobody finds any more.
        """
        with self._attempt():
            self._note(list(writes))
            self._settle()
            self._retire(now_us)
            self._connection.execute("COMMIT")
            self._lock.check()
        self._before = None

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        """Work within the transaction; if that fails, nothing of it has happened."""
        with translated(self.path):
            if self._before is None:
                self._connection.execute("BEGIN IMMEDIATE")
                self._before = _Before(self.first, self.next, self.size_bytes, list(self._tail))
            try:
                yield
            except BaseException:
                self.roll_back()
                raise

    def roll_back(self) -> None:
        """Forget the open transaction, if there is one."""
        if self._before is None:
            return
        with suppress(apsw.Error):  # it may have been rolled back already
            self._connection.execute("ROLLBACK")
        self.first, self.next, self.size_bytes, self._tail = self._before
        self._before = None

    def _note(self, writes: Sequence[Write]) -> None:
        """Remember what writers have committed."""
        execute = self._connection.execute
        for write in writes:
            execute("INSERT OR REPLACE INTO writes VALUES (?, ?, ?, ?, ?)", (*write, write.crc))
        if writes:
            execute(
                "DELETE FROM writes WHERE query IN (SELECT query FROM writes ORDER BY next DESC LIMIT -1 OFFSET ?)",
                (WRITERS_LIMIT,),
            )

    def _settle(self) -> None:
        """Merge small blocks where it is time to."""
        if len(self._tail) <= 1:
            return
        replaced, self._tail = plan(self._tail)
        for old, new in replaced:
            self._delete([row.first for row, _ in old])
            self._insert(new)
            self.size_bytes += sum(row.size_bytes for row, _ in new) - sum(row.size_bytes for row, _ in old)

    def _insert(self, blocks: Iterable[Stored]) -> None:
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
        for row in [block_row(values, self.path) for values in oldest]:
            kept = self.size_bytes <= self._retention.bytes and row.latest_us >= now_us - self._retention.age_us
            if kept or row.next == self.next:
                break
            gone.append(row.first)
            self.first = row.next
            self.size_bytes -= row.size_bytes
        self._delete(gone)
        self._tail = [one for one in self._tail if one[0].first >= self.first]

    def _is_due(self, now_us: int) -> bool:
        """Return whether something is too old or too much."""
        if self.size_bytes > self._retention.bytes:
            return True
        oldest = self._connection.execute("SELECT latest_us FROM blocks ORDER BY first LIMIT 1").get
        return oldest is not None and oldest < now_us - self._retention.age_us

    def probe(self) -> None:
        """Find out whether the file can be written, after it could not: open it anew, and write.

        What a failed commit has left may turn out to be there after all; then `next` and `writes` say so.

        Raises:
            JournalCorruptError: It is damaged, or another journal, or an older state of this one.
            JournalUnavailableError: It cannot be written.
        """
        self.roll_back()
        before = self.id, self.first, self.next
        held = self._lock
        if held.is_elsewhere:  # its log still stands here, and must not be read as that of another file
            raise held.gone()
        try:
            with translated(self.path):
                with suppress(apsw.Error):
                    self._connection.close()
                if not held.is_in_place:  # a copy may have been put there
                    self._lock = Lock.take(self.path, make=False)
                self._connection = connect(self.path, full_sync=self._full_sync)
                self._read()
                self._check_same(before[0], before[2])
                self._write_something()
        except BaseException:
            self.id, self.first, self.next = before
            if self._lock is not held:
                with suppress(apsw.Error):
                    self._connection.close()  # first: see `peers.journal.opening`
                self._lock.release()
                self._lock = held
            raise
        if self._lock is not held:
            held.release()

    def _check_same(self, journal_id: bytes, next_offset: int) -> None:
        if self.id != journal_id or self.next < next_offset:
            text = f"{self.path}: not the journal that it was; restore it, or restart the hub to use this one"
            raise JournalCorruptError(text)

    def _write_something(self) -> None:
        execute = self._connection.execute
        execute("INSERT OR REPLACE INTO meta VALUES ('probe', zeroblob(?))", (_PROBE_BYTES,))
        execute("DELETE FROM meta WHERE name = 'probe'")

    def close(self) -> None:
        """Close the file. What was committed stays; all of it is in the one file if nobody reads it now."""
        if self._closed:
            return
        self._closed = True
        with suppress(apsw.Error):
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        with suppress(apsw.Error):
            self._connection.close()
        self._lock.release()


def _pieces(parts: list[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Yield about a block's worth at a time: packing several at once is half as quick, for lack of cache."""
    piece: list[tuple[int, bytes]] = []
    size = 0
    for part in parts:
        piece.append(part)
        size += len(part[1])
        if size >= BLOCK_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


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
