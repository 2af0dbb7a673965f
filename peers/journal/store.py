"""`Store`: the journal's folder, open for writing by one process.

```
add(parts) ... commit()    [block][block][mark]  one append to the newest segment
```

Records are committed once the mark behind them is in the segment; opening the folder reads only the newest segment and
cuts off entries without a mark. A commit is all or nothing, and offsets are dense. After `commit`, records survive a
crash of the process, with `full_sync` also a power loss. Full or old segments are sealed; retention deletes whole
segments. One thread uses it (`peers.journal.recorder`).
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from hub.errors import JournalCorruptError, JournalUnavailableError, StorageError
from hub.journal.segment import ID_BYTES, Epoch, Footer, Header, Mark, Write, begun
from peers.journal.active import Active, Commit, Parts, is_untidy, mark_entry, newest, write_again
from peers.journal.folder import MAKING, Folder, firsts, segment_path, translated
from peers.journal.segment import Compressor, latest_us

WRITERS_LIMIT = 10_000
"""Writers whose last batch is stored. A Spark query keeps its name as long as its checkpoint; beyond the limit, the
writer with the oldest commit is forgotten."""

_HELD_BYTES = 4 * 1024 * 1024  # most bytes that wait in memory for a commit; more are written ahead
_PROBE_BYTES = 4 * 1024 * 1024  # written, and deleted, to see whether there is room again: a few full blocks
_SHARES = 8  # least number of segments in a journal of full size
_SYNC_S = 1.0  # how often commits are synced if they do not wait for the disk, seconds


class Retention(NamedTuple):
    """How much is kept, and for how long."""

    bytes: int
    age_us: int
    behind_bytes: int = 0  # records that are not in the tier yet are kept up to this size; 0 without a tier


class Segmenting(NamedTuple):
    """When a segment is sealed."""

    bytes: int = 256 * 1024 * 1024  # its size: after a crash the newest one is read, 0.2 s for so much
    age_us: int = 3_600_000_000  # age of its first commit
    blocks: int = 4_096  # number of blocks: 40 s at 100 commits a second. After a crash each takes 20 µs.

    def within(self, retention: Retention) -> Segmenting:
        """Return limits such that a segment is a small share of the kept records, since whole ones are deleted."""
        share_bytes, share_us = retention.bytes // _SHARES + 1, retention.age_us // _SHARES + 1
        return self._replace(bytes=min(self.bytes, share_bytes), age_us=min(self.age_us, share_us))


class _Sealed(NamedTuple):
    first: int
    size_bytes: int


class Store:
    """A journal, open for writing; with `full_sync` a commit waits for the disk. Raises `StorageError`."""

    def __init__(
        self,
        path: str,
        *,
        full_sync: bool,
        retention: Retention,
        segmenting: Segmenting | None = None,
        compresses: bool = True,
    ) -> None:
        self.path = str(Path(path).resolve())
        self.copied = 0  # everything before this offset is in the tier; set by the tiering in another thread
        self._full_sync = full_sync
        self._compressor = Compressor(is_on=compresses)
        self._retention = retention
        self._segmenting = (segmenting or Segmenting()).within(retention)
        self.epochs: tuple[Epoch, ...] = ()  # the epochs, the last of which began when the journal was opened
        self._has_epochs = False  # whether the journal has the last of them: it gets that with the first commit of each
        self._open: Commit | None = None
        self._writes: dict[str, Write] = {}  # the last batch of each writer, by its name; the oldest commit first
        self._begun_us = 0  # when the first record of the newest segment was committed, µs since 1970
        self._noted = 0  # how many batches of writers the marks of the newest segment have
        self._synced_s = time.monotonic()  # time of the last sync, s of the monotonic clock
        # The oldest sealed segment, and the time of its latest record, as they were looked up last.
        self._oldest = -1, 0
        self._is_overdue = False  # true while a segment should have been sealed, or deleted, and could not be
        # How much of the newest segment a mark in it says is on the disk, or did so when the journal was opened.
        self._told_bytes = 0
        self._closed = False
        self._folder = Folder(self.path)
        try:
            with translated(self.path):
                self._read()
        except BaseException:
            self._folder.release()
            raise

    def _read(self) -> None:
        places = firsts(self.path)
        if not places:
            self._sealed: list[_Sealed] = []
            self._begin_epoch((), 0)
            self._begin(Header(secrets.token_bytes(ID_BYTES), 0, time.time_ns() // 1000))
        else:
            self._sealed = [_Sealed(first, _size_of(self.path, first)) for first in places[:-1]]
            self._take_up(places[-1], self._sealed[-1].first if self._sealed else None)
        self.id = self._active.header.id
        self.next = self._active.next
        self._told_bytes = self._active.size_bytes

    def _take_up(self, first: int, before: int | None) -> None:
        found = newest(self.path, first, before)
        self._remember(found.writes)
        self._begin_epoch(found.epochs, found.next)
        if not found.is_final:
            self._active = Active.open(self.path, found.header, found.size_bytes, found.rows)
            self._noted = len(found.writes)
            self._begun_us = found.rows[0].earliest_us if found.rows else 0
        elif found.next == first:
            raise JournalCorruptError(f"{segment_path(self.path, first)}: it cannot be read at all; move it away")
        else:
            self._sealed.append(_Sealed(first, _size_of(self.path, first)))
            self._begin(Header(found.header.id, found.next, time.time_ns() // 1000))

    def _begin_epoch(self, found: tuple[Epoch, ...], following: int) -> None:
        """Begin an epoch when the journal is opened, but not when it is reopened after a failure."""
        self.epochs = self.epochs or begun(found, following, time.time_ns() // 1_000_000_000)
        self._has_epochs = found == self.epochs

    def _begin(self, header: Header) -> None:
        """Begin a segment with the writers' last batches; if that fails, nothing has changed."""
        mark = mark_entry(Mark(0, tuple(self._writes.values()), epochs=self.epochs), header.first)
        self._active = Active.create(self.path, header, mark)
        self._noted = len(self._writes)
        self._has_epochs = True
        self._folder.sync()

    def _remember(self, writes: Iterable[Write]) -> None:
        for write in writes:
            self._writes.pop(write.query, None)
            self._writes[write.query] = write
        for query in list(islice(self._writes, max(0, len(self._writes) - WRITERS_LIMIT))):
            del self._writes[query]

    @property
    def writes(self) -> list[Write]:
        return list(self._writes.values())

    @property
    def first(self) -> int:
        return self._sealed[0].first if self._sealed else self._active.header.first

    @property
    def size_bytes(self) -> int:
        return sum([one.size_bytes for one in self._sealed]) + self._active.size_bytes

    def add(self, parts: Parts, *, in_haste: bool = False) -> None:
        """Add records to the open commit; `in_haste` skips compression. Any error undoes the commit."""
        with self._attempt() as commit:
            commit.add(parts, in_haste=in_haste)
            self.next = commit.next
            if commit.entries_bytes >= _HELD_BYTES:
                self._active.write(commit.take())

    def commit(self, writes: Iterable[Write] = (), *, now_us: int) -> Collection[str]:
        """Commit the added records and the writers' batches; return the topics. An error undoes all."""
        with self._attempt() as commit:
            if self._is_overdue:
                self._look_after(now_us)
            noted = tuple(writes)
            if commit.rows or noted:
                told = () if self._has_epochs else self.epochs
                commit.end(Mark(self._active.synced_bytes, noted, self._noted, told))
                self._active.write(commit.take())
                if self._full_sync or told:  # else the number might be given again, where a clock was set back
                    self._active.sync()
            if not self._folder.is_in_place or not self._active.is_in_place:
                raise self._gone()
        self._active.commit(commit.rows)
        self._has_epochs |= bool(commit.rows or noted)
        self._noted += len(noted)
        if commit.rows and len(self._active.rows) == len(commit.rows):
            self._begun_us = now_us
        self._remember(noted)
        self._open = None
        try:
            self._look_after(now_us)
        except OSError:  # the commit stands; the next one retries this first
            self._is_overdue = True
        return commit.topics

    def _gone(self) -> JournalUnavailableError:
        text = f"{self.path}: deleted or moved while the hub had it open; put it back, or restart the hub"
        return JournalUnavailableError(text)

    @contextmanager
    def _attempt(self) -> Iterator[Commit]:
        """Work on the open commit; a failure undoes all of it."""
        if self._open is None:
            self._open = Commit(self._active.end_bytes, self.next, self._compressor)
        try:
            with translated(self.path):
                yield self._open
        except BaseException:
            self.roll_back()
            raise

    def roll_back(self) -> None:
        if self._open is None:
            return
        self._open = None
        self._active.cut_back()
        self.next = self._active.next

    def _look_after(self, now_us: int) -> None:
        """Seal a full segment, delete by retention, sync when due. A failure is retried."""
        if self._is_full(now_us):
            self._seal(now_us)
        while self._sealed and (self._is_too_much() or self._is_old(now_us)) and not self._is_awaited():
            os.unlink(segment_path(self.path, self._sealed[0].first))  # noqa: PTH108
            self._sealed.pop(0)
        if self._active.synced_bytes < self._active.size_bytes and time.monotonic() - self._synced_s >= _SYNC_S:
            self._active.sync()
            self._synced_s = time.monotonic()
        self._is_overdue = False

    def _is_full(self, now_us: int) -> bool:
        if not self._active.rows:
            return False
        is_long = self._active.size_bytes >= self._segmenting.bytes
        is_long |= len(self._active.rows) >= self._segmenting.blocks
        return is_long or now_us - self._begun_us >= self._segmenting.age_us

    def _seal(self, now_us: int) -> None:
        """Seal the newest segment and begin the next one; if that fails, nothing has changed."""
        old = self._active
        first = old.header.first
        old.seal(Footer(old.rows, self.writes, self.epochs))
        try:
            self._begin(Header(self.id, old.next, now_us))
        except OSError:
            old.unseal()
            raise
        self._sealed.append(_Sealed(first, old.size_bytes))
        old.close()
        if is_untidy(old.rows):
            with suppress(OSError, StorageError):  # it stays as it is
                self._sealed[-1] = _Sealed(first, write_again(self.path, first, self._compressor))

    def _is_too_much(self) -> bool:
        """Return whether to delete; the newest records stay in any case."""
        return self.size_bytes > self._retention.bytes and len(self._sealed) + bool(self._active.rows) > 1

    def _is_awaited(self) -> bool:
        end = self._sealed[1].first if len(self._sealed) > 1 else self._active.header.first
        return end > self.copied and self.size_bytes <= self._retention.behind_bytes

    def _is_old(self, now_us: int) -> bool:
        first = self._sealed[0].first
        if self._oldest[0] != first:
            self._oldest = first, latest_us(self.path, first)
        return self._oldest[1] < now_us - self._retention.age_us

    def probe(self) -> None:
        """Reopen the folder after a failure, and test that it can be written; raises `StorageError`.

        A failed commit may turn out to be on the disk after all; then `next` and `writes` include it.
        """
        self.roll_back()
        known_id, known_next = self.id, self.next
        try:
            with translated(self.path):
                self._reopen(known_id, known_next)
                probe = Path(f"{self.path}/probe.seg{MAKING}")
                try:
                    probe.write_bytes(bytes(_PROBE_BYTES))
                finally:
                    with suppress(OSError):
                        probe.unlink()
        except BaseException:
            self.id, self.next = known_id, known_next
            raise

    def _reopen(self, known_id: bytes, known_next: int) -> None:
        """Lock the folder again if it was replaced, and find its end."""
        if not Path(self.path).is_dir() or not firsts(self.path):
            raise self._gone()
        held = self._folder
        if not held.is_in_place:
            self._folder = Folder(self.path)
            held.release()
        self._active.close()
        self._writes = {}
        self._read()
        if self.id != known_id or self.next < known_next:
            text = f"{self.path}: not the journal that it was; restore it, or restart the hub to use this one"
            raise JournalCorruptError(text)

    def close(self) -> None:
        """Sync and close the folder; a last mark says that all is on the disk."""
        if self._closed:
            return
        self._closed = True
        self.roll_back()
        active = self._active
        with suppress(OSError):
            active.sync()
            if active.size_bytes > self._told_bytes:
                active.write([mark_entry(Mark(active.synced_bytes, (), self._noted), active.next)])
        active.close()
        self._folder.release()


def _size_of(path: str, first: int) -> int:
    return os.stat(segment_path(path, first)).st_size  # noqa: PTH116
