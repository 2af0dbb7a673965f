"""`Store`: the journal's folder, open for writing. One process at a time has it.

```
add(parts) ... commit()    [block][block][mark]  one append to the newest segment
                           a segment that is full or old is sealed, and the next one begun
                           what is too old or too much goes, whole segments at a time
```

What is added becomes blocks, and is written once. It has happened when the mark behind it stands there: what a crash
leaves without one is cut off when the folder is opened. Only the newest segment is looked at then; the others are
sealed. Each begins with a mark that says what every writer has committed last, so that nobody need look further back.

Owner: one thread (`peers.journal.writer`). Invariants: a commit is all or nothing, and offsets are dense: what failed
has taken none; when `commit` has returned, records survive a crash of the process, with `full_sync` also one of the
machine.

Not here: when to commit (`peers.journal.writer`), blocks and entries (`peers.journal.segments.commit`), reading
(`peers.journal.view`).
"""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from hub.errors import JournalCorruptError, JournalUnavailableError, StorageError
from hub.journal.epoch import Epoch, begun
from hub.journal.segment.footer import Row
from hub.journal.segment.header import ID_BYTES, Header
from hub.journal.segment.mark import Mark, Write
from peers.journal.segments.active import Active, newest
from peers.journal.segments.codec import Compressor
from peers.journal.segments.commit import Commit, Parts, footer_of, mark_entry, topic_counts
from peers.journal.segments.folder import Folder, firsts, segment_path, translated
from peers.journal.segments.segment import Segment, latest_us
from peers.journal.segments.tidying import is_untidy, join
from peers.journal.whole_file import MAKING

__all__ = ["WRITERS_LIMIT", "Retention", "Segmenting", "Store"]

WRITERS_LIMIT = 10_000
"""Writers whose last batch is remembered. A Spark query keeps its name for as long as it keeps its checkpoint; of more
of them, those whose last commit is the oldest are forgotten."""

_HELD_BYTES = 4 * 1024 * 1024
"""Most that waits in memory for its commit; what is over it is written ahead."""

_PROBE_BYTES = 4 * 1024 * 1024
"""Written, and taken back, to see whether there is room again: a few full blocks."""

_JOINED_LIMIT = 64
"""Most segments that are joined at once, and so most that a crash can leave covered by another one."""

_COUNTED_AT_ONCE = 8
"""Blocks of those found at the start whose topics are counted with each commit: at most 10 ms."""

_JOINED_BYTES = 8 * 1024 * 1024
"""What segments that are joined have at most: the writer waits for it, 0.3 s where all of it is compressed."""

_SHARES = 8
"""So many segments there are at least, once as much is kept as may be."""

_LIKE_FACTOR = 2
"""A segment is joined with those behind it while it is at most so many times as long as they are together."""

_SYNC_S = 1.0
"""How often what was committed is brought to the disk where a commit does not wait for that, seconds."""


class Retention(NamedTuple):
    """How much is kept, and for how long."""

    bytes: int
    age_us: int
    behind_bytes: int = 0
    """What is not in the tier yet is kept nevertheless, up to so much in all; 0 where there is no tier."""

    @property
    def share(self) -> Retention:
        """The most that one segment may hold: retention deletes whole ones, and is to come close to what it says."""
        return Retention(self.bytes // _SHARES + 1, self.age_us // _SHARES + 1)


class Segmenting(NamedTuple):
    """When a segment is sealed."""

    bytes: int = 256 * 1024 * 1024
    """Once it is so long. After a crash the newest one is read, 0.2 s for so much."""
    age_us: int = 3_600_000_000
    """Once its first record was committed so long ago."""
    blocks: int = 4_096
    """Once it has so many: at 100 commits a second after 40 s. After a crash each takes 20 µs."""

    def within(self, retention: Retention) -> Segmenting:
        """Return limits so small that no segment holds more than its share of what is kept."""
        share = retention.share
        return self._replace(bytes=min(self.bytes, share.bytes), age_us=min(self.age_us, share.age_us))


class _Sealed(NamedTuple):
    """A segment that never changes again."""

    first: int
    size_bytes: int


class Store:
    """A journal, open for writing.

    Args:
        path: Path of the folder, which is made if it is absent.
        full_sync: Whether a commit waits for the disk.
        retention: How much is kept, and for how long.
        segmenting: When a segment is sealed.
        tidies: Whether segments with many small blocks are written again when they are sealed.
        compresses: Whether blocks are compressed.

    Raises:
        JournalCorruptError: The folder is no journal, or nothing says where its newest segment ends.
        JournalUnavailableError: It cannot be opened, or another hub has it.
    """

    def __init__(  # noqa: PLR0913 -- all but two have a default
        self,
        path: str,
        *,
        full_sync: bool,
        retention: Retention,
        segmenting: Segmenting | None = None,
        tidies: bool = True,
        compresses: bool = True,
    ) -> None:
        self.path = str(Path(path).resolve())
        self.copied = 0
        """Everything before this offset is in the tier. Whoever copies sets it, in whatever thread."""
        self._full_sync = full_sync
        self._tidies = tidies
        self._compressor = Compressor(is_on=compresses)
        self._retention = retention
        self._segmenting = (segmenting or Segmenting()).within(retention)
        self.epochs: tuple[Epoch, ...] = ()
        """The epochs of the journal, the last of which began when it was opened; fixed from then on."""
        # Whether the journal has the last of them: it gets that with the first commit of each.
        self._has_epochs = False
        # The commit that is being made; None where none is.
        self._open: Commit | None = None
        # The last batch of each writer, by its name; the oldest commit first.
        self._writes: dict[str, Write] = {}
        # When the first record of the newest segment was committed, µs since 1970.
        self._begun_us = 0
        # How many batches of writers the marks of the newest segment have.
        self._noted = 0
        # How many records each topic has in the newest segment.
        self._topics: Counter[str] = Counter()
        # Blocks of the newest segment whose records are not among them: those that it had when it was opened.
        self._uncounted: list[Row] = []
        # When what was committed was brought to the disk last, s of the monotonic clock.
        self._synced_s = time.monotonic()
        # The oldest sealed segment, and the time of its latest record, as they were looked up last.
        self._oldest = -1, 0
        # True while a segment should have been sealed, or deleted, and could not be.
        self._is_overdue = False
        # How much of the newest segment a mark in it says is on the disk, or did so when the journal was opened.
        self._told_bytes = 0
        # True once `close` was called.
        self._closed = False
        self._folder = Folder(self.path)
        try:
            with translated(self.path):
                self._read()
        except BaseException:
            self._folder.release()
            raise

    @staticmethod
    def make(path: str, journal_id: bytes, first: int) -> None:
        """Make an empty journal with a known id, which begins at an offset: one that is taken over.

        Raises:
            JournalCorruptError, JournalUnavailableError: It cannot be made.
        """
        folder = Folder(path)
        try:
            with translated(path):
                header = Header(journal_id, first, time.time_ns() // 1000)
                Active.create(path, header, mark_entry(Mark(0), first)).close()
        finally:
            folder.release()

    def _read(self) -> None:
        """Find out how far the journal reaches: from the names of its segments, and the newest of them.

        Raises:
            JournalCorruptError, OSError: It cannot be opened.
        """
        places = firsts(self.path)
        if not places:
            self._sealed: list[_Sealed] = []
            self._begin_epoch((), 0)
            self._begin(Header(secrets.token_bytes(ID_BYTES), 0, time.time_ns() // 1000))
        else:
            self._sealed = [_Sealed(first, _size_of(self.path, first)) for first in places[:-1]]
            self._delete_covered()
            self._take_up(places[-1], self._sealed[-1].first if self._sealed else None)
        self.id = self._active.header.id
        self.next = self._active.next
        self._told_bytes = self._active.size_bytes

    def _delete_covered(self) -> None:
        """Delete segments that the one before them covers: a crash came between joining them and this."""
        position = 0
        for one in self._sealed[-_JOINED_LIMIT:]:
            segment = Segment(self.path, one.first)
            segment.close()
            if one.first < position and segment.next <= position:
                os.unlink(segment_path(self.path, one.first))  # noqa: PTH108
                self._sealed.remove(one)
            position = max(position, segment.next)

    def _take_up(self, first: int, before: int | None) -> None:
        """Go on behind the last commit of the newest segment."""
        found = newest(self.path, first, before)
        self._remember(found.writes)
        self._begin_epoch(found.epochs, found.next)
        if not found.is_final:
            self._active = Active.open(self.path, found.header, found.size_bytes, found.rows)
            self._uncounted = list(found.rows)
            self._noted = len(found.writes)
            self._begun_us = found.rows[0].earliest_us if found.rows else 0
        elif found.next == first:
            raise JournalCorruptError(f"{segment_path(self.path, first)}: nothing of it can be read; move it away")
        else:
            self._sealed.append(_Sealed(first, _size_of(self.path, first)))
            self._begin(Header(found.header.id, found.next, time.time_ns() // 1000))

    def _begin_epoch(self, found: tuple[Epoch, ...], following: int) -> None:
        """Begin an epoch, if the journal is opened and not looked at again, as after a failure."""
        self.epochs = self.epochs or begun(found, following, time.time_ns() // 1_000_000_000)
        self._has_epochs = found == self.epochs

    def _begin(self, header: Header) -> None:
        """Begin a segment, with what writers have committed.

        Raises:
            OSError: It cannot be written; nothing has changed.
        """
        mark = mark_entry(Mark(0, tuple(self._writes.values()), epochs=self.epochs), header.first)
        self._active = Active.create(self.path, header, mark)
        self._noted = len(self._writes)
        self._has_epochs = True
        self._folder.sync()
        self._topics, self._uncounted = Counter(), []

    def _remember(self, writes: Iterable[Write]) -> None:
        """Remember what writers have committed."""
        for write in writes:
            self._writes.pop(write.query, None)
            self._writes[write.query] = write
        for query in list(islice(self._writes, max(0, len(self._writes) - WRITERS_LIMIT))):
            del self._writes[query]

    @property
    def writes(self) -> list[Write]:
        """The last batch of each writer; the oldest commit first."""
        return list(self._writes.values())

    @property
    def first(self) -> int:
        """The oldest offset that is retained."""
        return self._sealed[0].first if self._sealed else self._active.header.first

    @property
    def size_bytes(self) -> int:
        """Size of all segments, bytes."""
        return sum([one.size_bytes for one in self._sealed]) + self._active.size_bytes

    # Commits.

    def add(self, parts: Parts, *, in_haste: bool = False) -> None:
        """Add records to the open commit; begin one if there is none.

        Args:
            parts: When they came, µs since 1970, and whole MESSAGES frames.
            in_haste: Whether there is no time to compress them.

        Raises:
            JournalUnavailableError: Nothing of the commit stands.
            ValueError: They are no such frames; nothing of the commit stands, either.
        """
        with self._attempt() as commit:
            commit.add(parts, in_haste=in_haste)
            self.next = commit.next
            if commit.entries_bytes >= _HELD_BYTES:
                self._active.write(commit.take())

    def skip(self, following: int) -> None:
        """Go on at a later offset: what is before it is missing, and told to be. No commit may be open.

        Raises:
            JournalUnavailableError: The segment that begins there cannot be written.
        """
        with translated(self.path):
            self._seal(following, time.time_ns() // 1000)
        self.next = following

    def commit(self, writes: Iterable[Write] = (), *, now_us: int) -> Collection[str]:
        """Commit what was added, and what writers have completed with it.

        Args:
            writes: Batches of writers that it completes.
            now_us: The time, for retention.

        Returns:
            The topics of the records that were committed.

        Raises:
            JournalUnavailableError: Nothing of the commit stands; or it stands in a folder that nobody finds any more.
        """
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
            self._check_in_place()
        self._active.commit(commit.rows)
        self._has_epochs |= bool(commit.rows or noted)
        self._topics.update(commit.topics)
        self._noted += len(noted)
        if commit.rows and len(self._active.rows) == len(commit.rows):
            self._begun_us = now_us
        self._remember(noted)
        self._open = None
        try:
            self._look_after(now_us)
        except OSError:  # what is committed is committed; the next commit tries it again first
            self._is_overdue = True
        return commit.topics

    def _check_in_place(self) -> None:
        """See to it that what is written can be found again.

        Raises:
            JournalUnavailableError: The folder or its newest segment was deleted, moved or replaced.
        """
        if not self._folder.is_in_place or not self._active.is_in_place:
            raise self._gone()

    def _gone(self) -> JournalUnavailableError:
        text = f"{self.path}: deleted or moved while the hub had it open; put it back, or restart the hub"
        return JournalUnavailableError(text)

    @contextmanager
    def _attempt(self) -> Iterator[Commit]:
        """Work on the open commit; if that fails, nothing of it has happened."""
        if self._open is None:
            self._open = Commit(self._active.end_bytes, self.next, self._compressor)
        try:
            with translated(self.path):
                yield self._open
        except BaseException:
            self.roll_back()
            raise

    def roll_back(self) -> None:
        """Forget the open commit, if there is one."""
        if self._open is None:
            return
        self._open = None
        self._active.cut_back()
        self.next = self._active.next

    # Segments.

    def _look_after(self, now_us: int) -> None:
        """Seal what is full, delete what is too old or too much, sync what is due.

        Raises:
            OSError: That failed, and is to be tried again.
        """
        self._count_found(_COUNTED_AT_ONCE)
        if self._is_full(now_us):
            self._seal(self._active.next, now_us)
        self._retire(now_us)
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

    def _seal(self, following: int, now_us: int) -> None:
        """Seal the newest segment, and begin the next one at an offset.

        Raises:
            OSError: It cannot be written; the newest segment is as it was.
        """
        old = self._active
        self._count_found(len(self._uncounted))
        old.seal(footer_of(old.rows, self._topics, self.writes, self.epochs))
        try:
            self._begin(Header(self.id, following, now_us))
        except OSError:
            old.unseal()
            raise
        self._sealed.append(_Sealed(old.header.first, old.size_bytes))
        old.close()
        if self._tidies:
            with suppress(OSError, StorageError):  # it stays as it is
                if is_untidy(old.rows):
                    self._join(self._sealed[-1:])
                run = self._small_run()
                if len(run) > 1:
                    self._join(run)

    def _count_found(self, limit: int) -> None:
        """Count the topics of some blocks that the newest segment had when it was opened, which had no time for it.

        Raises:
            OSError: They cannot be read.
        """
        for _ in range(min(limit, len(self._uncounted))):
            with suppress(StorageError):  # damaged since: who reads it is told
                self._topics.update(topic_counts(self._active.block(self._uncounted[-1])))
            self._uncounted.pop()

    def _small_run(self) -> list[_Sealed]:
        """Return the last sealed segments, as many as are of like size and make no more than one together."""
        run = self._sealed[-1:]
        size_bytes = run[0].size_bytes
        for one in reversed(self._sealed[:-1]):
            is_long = one.size_bytes > _LIKE_FACTOR * size_bytes
            is_long |= one.size_bytes + size_bytes > min(self._segmenting.bytes, _JOINED_BYTES)
            if is_long or len(run) == _JOINED_LIMIT:
                break
            run.insert(0, one)
            size_bytes += one.size_bytes
        return run

    def _join(self, run: list[_Sealed]) -> None:
        """Make one segment of the last sealed ones, or of as many as are not too far apart in time.

        Raises:
            OSError, StorageError: They stay as they are.
        """
        with ExitStack() as stack:
            segments = [Segment(self.path, one.first) for one in run]
            for segment in segments:
                stack.callback(segment.close)
            ends = [segment.next for segment in segments[:-1]]
            if ends != [one.first for one in run[1:]] or not all(segment.is_whole for segment in segments):
                return
            while len(segments) > 1 and segments[-1].latest_us - segments[0].earliest_us > self._retention.share.age_us:
                del segments[0]
            if len(segments) == 1 < len(run):
                return
            size_bytes = join(self.path, segments, self._compressor)
        joined = run[-len(segments) :]
        self._sealed[-len(joined) :] = [_Sealed(joined[0].first, size_bytes)]
        for one in joined[1:]:
            os.unlink(segment_path(self.path, one.first))  # noqa: PTH108

    def _retire(self, now_us: int) -> None:
        """Delete the oldest segments that are too old or too much.

        Raises:
            OSError: One cannot be deleted.
        """
        while self._sealed and (self._is_too_much() or self._is_old(now_us)) and not self._is_awaited():
            os.unlink(segment_path(self.path, self._sealed[0].first))  # noqa: PTH108
            self._sealed.pop(0)

    def _is_too_much(self) -> bool:
        """Return whether less should be kept; the newest records stay, however large they are."""
        return self.size_bytes > self._retention.bytes and len(self._sealed) + bool(self._active.rows) > 1

    def _is_awaited(self) -> bool:
        """Return whether the oldest segment is still to be copied to the tier."""
        end = self._sealed[1].first if len(self._sealed) > 1 else self._active.header.first
        return end > self.copied and self.size_bytes <= self._retention.behind_bytes

    def _is_old(self, now_us: int) -> bool:
        """Return whether the oldest segment holds nothing that is young enough."""
        first = self._sealed[0].first
        if self._oldest[0] != first:
            self._oldest = first, latest_us(self.path, first)
        return self._oldest[1] < now_us - self._retention.age_us

    # After a failure, and the end.

    def probe(self) -> None:
        """Find out whether the folder can be written, after it could not: open it anew, and write.

        What a failed commit has left may turn out to be there after all; then `next` and `writes` say so.

        Raises:
            JournalCorruptError: It is damaged, or another journal, or an older state of this one.
            JournalUnavailableError: It cannot be written.
        """
        self.roll_back()
        known_id, known_next = self.id, self.next
        try:
            with translated(self.path):
                self._reopen()
                self._check_same(known_id, known_next)
                _write_probe(self.path)
        except BaseException:
            self.id, self.next = known_id, known_next
            raise

    def _check_same(self, journal_id: bytes, next_offset: int) -> None:
        """See to it that what stands there is the journal that it was.

        Raises:
            JournalCorruptError: It is another one, or an older state of it.
        """
        if self.id != journal_id or self.next < next_offset:
            text = f"{self.path}: not the journal that it was; restore it, or restart the hub to use this one"
            raise JournalCorruptError(text)

    def _reopen(self) -> None:
        """Take the folder anew if another one was put there, and read how far it reaches.

        Raises:
            JournalCorruptError, JournalUnavailableError, OSError: It cannot be opened.
        """
        if not Path(self.path).is_dir() or not firsts(self.path):
            raise self._gone()
        held = self._folder
        if not held.is_in_place:
            self._folder = Folder(self.path)
            held.release()
        self._active.close()
        self._writes = {}
        self._read()

    def close(self) -> None:
        """Close the folder. What was committed stays, and is on the disk; a last mark says so."""
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


def _write_probe(path: str) -> None:
    """Write something, and take it away again.

    Raises:
        OSError: There is no room.
    """
    probe = f"{path}/probe.seg{MAKING}"
    try:
        with open(probe, "wb") as file:  # noqa: PTH123
            file.write(bytes(_PROBE_BYTES))
    finally:
        with suppress(OSError):
            os.unlink(probe)  # noqa: PTH108


def _size_of(path: str, first: int) -> int:
    return os.stat(segment_path(path, first)).st_size  # noqa: PTH116
