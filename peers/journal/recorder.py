"""`Recorder`, the journal's handler in the core, and `Writer`, the one thread that writes the journal.

```
core ─ offer ... end_read ─▶ Recorder ─▶ [entry, entry, ...] ─ every commit_s ─▶ Writer ─▶ Store
connections ◀─ is_behind, wait_room ─┘  ▲                     committed ─▶ confirmations, waiting FETCHes, room
                                        └ failed: nothing is recorded until a probe, once a second, succeeds
```

The recorder never drops; publishers are not read while it is behind. It assigns offsets in the order in which the core
offers messages. If the folder cannot be written, messages are routed and not recorded: confirmations become errors, and
the missing messages are counted. Each failure begins a new epoch of entries: the writer discards earlier ones.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, NamedTuple

import structlog

from hub.core import Core
from hub.errors import CloseCode, JournalUnavailableError, RejectedError, StorageError
from hub.handlers.counters import Histogram
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.journal.segment import Write
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.frame import Origin
from hub.routing.routes import Route
from hub.statistics.events import Event
from hub.topics import RESERVED
from peers.journal.store import Store

JOURNAL_TOPIC = RESERVED + "journal"
CONFIRM_S_BOUNDS: Final = (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Seconds: a commit is due every 10 ms, and a hanging disk takes seconds."""

_PROBE_S = 1.0  # pause between probes of a journal that could not be written, seconds
GROUP_BYTES = 4 * 1024 * 1024  # of one commit: about 10 ms of work, so that no commit is long
HASTE_BYTES = 2 * GROUP_BYTES  # more is not compressed: the writer is behind, and must not hold back publishers
ENTRY_OVERHEAD_BYTES = 512  # charged for an entry beside its frames: its objects, its batch, and a waiting confirmation
_IDLE_S = 5.0  # how often retention runs while nothing is published, seconds

Answer = Callable[[int | RejectedError], None]  # called with the offset of the first message, or an error

OnMarked = Callable[[Origin, int], Answer]  # called with a batch that has a mark; returns what is called at its commit
OnNews = Callable[[int, int, Collection[str] | None], object]  # first offset, offset behind the last, topics or None


class Entry(NamedTuple):
    """Messages to be written, or the begin or end of a writer's batch."""

    epoch: int
    time_us: int
    frames: bytes
    opens: int = 0  # 1 at the begin of a batch, -1 at its end: everything between them is one commit
    write: Write | None = None  # at the end of a batch: stored with it

    @property
    def size_bytes(self) -> int:
        return len(self.frames) + ENTRY_OVERHEAD_BYTES


class Probe(NamedTuple):
    """Asks for a test whether the folder can be written again; from now on entries of this epoch are taken."""

    epoch: int


class Progress(NamedTuple):
    """The result of a commit, and the state of the journal with it."""

    first: int
    next: int  # everything before it is committed
    size_bytes: int
    entries: int = 0  # entries finished since the last time
    entries_bytes: int = 0  # their memory while they waited, bytes
    topics: Collection[str] | None = None  # topics committed since the last time; None if unknown


class _Ticket(NamedTuple):
    entry: int  # number of the entry in this epoch that must be committed
    first: int
    answer: Answer


class Recorder:
    """The handler of the journal, for topics with these prefixes.

    `submit` hands an entry to the writer; `at` is where the journal stands now.
    """

    def __init__(  # noqa: PLR0913 -- one owner of all this
        self,
        core: Core,
        topics: tuple[str, ...],
        submit: Callable[[Entry | Probe], None],
        *,
        buffer_bytes: int,
        at: Progress,
        clock_us: Callable[[], int] | None = None,
    ) -> None:
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._buffer_bytes = buffer_bytes
        self._submit = submit
        self._clock_us = clock_us or _clock_us
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")
        self.at = at  # the last progress of the writer
        self._next = at.next
        self.epoch = 0  # number of failures: identifies callbacks of the writer for older entries
        self._submitted = self._done = 0  # entries of this epoch
        self.waiting_bytes = 0  # charged for submitted entries that are not done, bytes
        self.recorded_messages_total = 0
        self.lost_messages_total = 0  # messages not recorded; reduced if a probe finds some of them on the disk
        self.pauses_total = 0
        # Seconds from taking to the disk, of the first messages behind each commit.
        self.confirm_times = Histogram(CONFIRM_S_BOUNDS)
        # The entry that is measured now: its number in this epoch and when it was submitted.
        self._timed: tuple[int, float] | None = None
        # Pending confirmations, in the order of the entries; answered at the commit, or at a failure.
        self._tickets: deque[_Ticket] = deque()
        self._room: dict[Callable[[], None], None] = {}  # callbacks of paused publishers, called once there is room
        self._probing: asyncio.TimerHandle | None = None  # the timer of the last probe; None before the first failure
        self._stopped = False
        self._reason = ""
        self.error: StorageError | None = None  # set from a failure until a probe has succeeded
        # Called with the writers' last batches when the folder can be written again.
        self.on_writes: Callable[[list[Write]], object] = lambda _: None
        # Called at each commit, and when the journal fails or recovers.
        self.on_news: OnNews = lambda _first, _head, _topics: None
        self.on_marked: OnMarked | None = None
        self.taken = 0  # messages since the start: a connection sees by it whether it feeds the journal
        # True from more than `buffer_bytes` waiting until half of that is left: publishers should not be read.
        self.is_behind = False
        limits = QueueLimits()  # never used: this handler never pauses
        self.handler = Handler(self, role=Role.LOCAL, limits=limits, name="journal", address="local")
        core.attach(self.handler)
        core.subscribe(self.handler, topics)

    # As the outlet of its handler.

    def send(self, batches: list[Batch]) -> None:
        messages = sum([batch.messages for batch in batches])
        self.taken += messages
        if self.error is not None:
            self.lost_messages_total += messages
            if self.on_marked is not None:
                self._report_marked(batches, self.on_marked)
            return
        now_us, epoch = self._clock_us(), self.epoch
        for batch in batches:
            self._put(Entry(epoch, now_us, batch.frames))
        if self.on_marked is not None:
            self._report_marked(batches, self.on_marked)
        self._next += messages
        if self._timed is None:
            self._timed = (self._submitted, time.monotonic())
        self.is_behind = self.waiting_bytes > self._buffer_bytes

    def _report_marked(self, batches: list[Batch], on_marked: OnMarked) -> None:
        """Report the marked ones of the batches just taken, the first of which is at the next offset."""
        first = self._next
        for batch in batches:
            origin = batch.origin
            if origin is not None and origin.mark:
                answer = on_marked(origin, batch.messages)
                if self.error is None:
                    self._tickets.append(_Ticket(self._submitted, first, answer))
                else:
                    answer(self.refusal())
            first += batch.messages

    def send_gap(self, lost_messages: int) -> None: ...

    def close(self, code: int, text: str) -> None: ...

    def _put(self, entry: Entry) -> None:
        self._submitted += 1
        self.waiting_bytes += entry.size_bytes
        self._submit(entry)

    def position(self) -> int | None:
        """Return the offset of the next recorded message; None while nothing is recorded."""
        self.handler.write_pending()
        return None if self.error is not None else self._next

    @property
    def committed(self) -> int:
        return self.at.next

    def records(self, route: Route) -> bool:
        return self.handler in route.handlers

    def answer_at_commit(self, messages: int, answer: Answer) -> None:
        """Answer once the last `messages` offered messages are committed, or have failed."""
        position = self.position()
        if position is None:
            answer(self.refusal())
        elif self._done == self._submitted:
            answer(position - messages)
        else:
            self._tickets.append(_Ticket(self._submitted, position - messages, answer))

    def refusal(self) -> RejectedError:
        """Return why messages are not recorded now, or were not when recording failed last."""
        return RejectedError(CloseCode.JOURNAL_FAILED, f"not recorded: {self._reason}")

    def begin_batch(self) -> None:
        """Commit all messages offered until `end_batch` together."""
        self._put_mark(1, None)

    def end_batch(self, write: Write | None) -> None:
        """End and commit the batch; `write` is stored with it."""
        self._put_mark(-1, write)

    def _put_mark(self, opens: int, write: Write | None) -> None:
        self.handler.write_pending()
        if self.error is None:
            self._put(Entry(self.epoch, 0, b"", opens, write))

    def wait_room(self, resume: Callable[[], None]) -> None:
        self.pauses_total += 1
        self._room[resume] = None

    def forget_room(self, resume: Callable[[], None]) -> None:
        self._room.pop(resume, None)

    def _give_room(self) -> None:
        self.is_behind = False
        room, self._room = self._room, {}
        for resume in room:
            resume()

    # Called by the writer in its thread, carried out in the loop.

    def on_committed(self, progress: Progress) -> None:
        self._bring(lambda: self._committed(progress))

    def on_failed(self, error: StorageError, next_offset: int) -> None:
        """Nothing from `next_offset` on was committed, or will be."""
        self._bring(lambda: self._failed(error, next_offset))

    def on_recovered(self, epoch: int, progress: Progress, writes: list[Write]) -> None:
        self._bring(lambda: self._recovered(epoch, progress, writes))

    def _bring(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call)

    def _committed(self, progress: Progress) -> None:
        first = self.at.next
        self.recorded_messages_total += progress.next - first
        self.at = progress._replace(topics=None)  # which may be many
        self._done += progress.entries
        self.waiting_bytes -= progress.entries_bytes
        if self._timed is not None and self._timed[0] <= self._done:
            self.confirm_times.observe(time.monotonic() - self._timed[1])
            self._timed = None
        tickets = self._tickets
        while tickets and tickets[0].entry <= self._done:
            ticket = tickets.popleft()
            ticket.answer(ticket.first)
        self.on_news(first, progress.next, progress.topics)
        if self.is_behind and self.waiting_bytes <= self._buffer_bytes // 2:
            self._give_room()

    def _failed(self, error: StorageError, next_offset: int) -> None:
        self.handler.write_pending()
        is_first = self.error is None
        self.epoch += 1
        self.error, self._reason = error, str(error)
        self.lost_messages_total += self._next - next_offset
        self._next = next_offset
        self.at = self.at._replace(next=next_offset)
        self._forget_entries()
        tickets, self._tickets = self._tickets, deque()
        for ticket in tickets:
            ticket.answer(self.refusal())
        self.on_news(next_offset, next_offset, None)
        self._give_room()
        if not self._stopped:
            self._probing = self._loop.call_later(_PROBE_S, lambda: self._submit(Probe(self.epoch)))
        if is_first:
            self._log.error(
                "the journal cannot be written; messages are delivered, but not recorded", reason=self._reason
            )
            self._announce({"state": "failed", "reason": self._reason, "offset": next_offset})

    def _recovered(self, epoch: int, progress: Progress, writes: list[Write]) -> None:
        if epoch != self.epoch:
            return
        self.handler.write_pending()
        self.error = None
        found = progress.next - self._next  # of a commit that had failed, and is there after all
        self.recorded_messages_total += found
        self.lost_messages_total -= found
        self._next = progress.next
        self.at = progress
        self._forget_entries()
        self.on_writes(writes)
        self.on_news(progress.next, progress.next, None)
        self._log.warning("the journal is written again", offset=progress.next, lost_messages=self.lost_messages_total)
        self._announce({"state": "recovered", "offset": progress.next, "lost": self.lost_messages_total})

    def _forget_entries(self) -> None:
        self._submitted = self._done = self.waiting_bytes = 0
        self._timed = None

    def _announce(self, value: dict[str, object]) -> None:
        self._core.system_events.announce(Event(JOURNAL_TOPIC, value))

    def stop(self) -> None:
        self._stopped = True
        self.handler.write_pending()
        if self._probing is not None:
            self._probing.cancel()
        self._core.detach(self.handler, "the hub stops")


def _clock_us() -> int:
    return time.time_ns() // 1000


class Writer:
    """The thread that writes the journal, and alone uses its store; entries are collected for `commit_s`.

    Entries are committed in their order, each once. A failure discards all entries of its epoch. A writer's batch ends
    its transaction, so that overlapping batches do not block all others. It is a thread and no process, since disk,
    zstd and checksum work without the interpreter's lock.
    """

    def __init__(self, store: Store, commit_s: float, clock_us: Callable[[], int] | None = None) -> None:
        self._store = store
        self._listener: Recorder
        self._commit_s = commit_s
        self._clock_us = clock_us or _clock_us
        self._entries: deque[Entry | Probe] = deque()  # the loop appends, the thread takes
        # Set by `submit` and `stop`; cleared by the thread before it reads the entries.
        self._something = threading.Event()
        self._stopping = False
        self._epoch = 0  # entries of other epochs are discarded; a probe begins the next one
        self._failed = False  # true from a failure until a probe has succeeded: entries are thrown away meanwhile
        # Batches of writers that are open in the transaction: it is committed once all have ended.
        self._open_batches = 0
        self._writes: list[Write] = []  # to be stored with the open transaction
        self._done = self._done_bytes = 0  # entries of the open transaction, and their memory
        self._went_on_bytes = 0  # written since nothing waited
        self._thread = threading.Thread(target=self._run, name="journal writer", daemon=True)

    def start(self, listener: Recorder) -> None:
        self._listener = listener
        self._thread.start()

    def submit(self, entry: Entry | Probe) -> None:
        self._entries.append(entry)
        if not self._something.is_set():  # a lock less for most
            self._something.set()

    def stop(self) -> None:
        self._stopping = True
        self._something.set()
        self._thread.join()
        self._store.close()

    # In the thread.

    def _run(self) -> None:
        began_s = 0.0
        while True:
            if not self._something.wait(_IDLE_S):
                self._attempt(self._retain)
                continue
            wait_s = began_s + self._commit_s - time.monotonic()
            if wait_s > 0 and not self._stopping:
                time.sleep(wait_s)
            began_s = time.monotonic()
            self._something.clear()
            self._went_on_bytes = 0
            while self._entries:
                self._attempt(self._turn)
            if self._stopping and not self._entries:
                return

    def _attempt(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as cause:  # noqa: BLE001 -- the thread must go on
            error = cause
            if not isinstance(error, StorageError):
                structlog.get_logger("peers").exception("a bug of the journal, please report it")
                error = JournalUnavailableError(f"a bug of the journal, please report it: {error!r}")
            self._store.roll_back()
            self._failed = True
            self._open_batches = self._done = self._done_bytes = 0
            self._writes = []
            self._listener.on_failed(error, self._store.next)

    def _turn(self) -> None:
        if isinstance(self._entries[0], Probe):
            self._probe(self._entries.popleft().epoch)
            return
        group = self._take()
        if not self._failed and group[0].epoch == self._epoch:  # else the recorder has counted them
            self._write(group)

    def _take(self) -> list[Entry]:
        """Take entries of one epoch from the queue, as many as are written at once."""
        group: list[Entry] = []
        size = 0
        open_batches = self._open_batches
        entries = self._entries
        while entries and size < GROUP_BYTES:
            entry = entries[0]
            if isinstance(entry, Probe) or (group and entry.epoch != group[0].epoch):
                break
            entries.popleft()
            group.append(entry)
            size += entry.size_bytes
            open_batches += entry.opens
            if entry.opens < 0 and not open_batches:
                break
        return group

    def _write(self, group: list[Entry]) -> None:
        store = self._store
        self._open_batches += sum(entry.opens for entry in group)
        self._writes += [entry.write for entry in group if entry.write]
        self._done += len(group)
        size_bytes = sum(entry.size_bytes for entry in group)
        self._done_bytes += size_bytes
        in_haste = self._went_on_bytes >= HASTE_BYTES
        self._went_on_bytes += size_bytes
        parts = [(entry.time_us, entry.frames) for entry in group if entry.frames]
        if parts:
            store.add(parts, in_haste=in_haste)
        if self._open_batches:
            return
        topics = store.commit(self._writes, now_us=self._clock_us())
        progress = Progress(store.first, store.next, store.size_bytes, self._done, self._done_bytes, topics)
        self._done = self._done_bytes = 0
        self._writes = []
        self._listener.on_committed(progress)

    def _retain(self) -> None:
        if self._failed or self._open_batches:
            return
        store = self._store
        first = store.first
        store.commit(now_us=self._clock_us())
        if store.first != first:
            self._listener.on_committed(Progress(store.first, store.next, store.size_bytes, topics=()))

    def _probe(self, epoch: int) -> None:
        store = self._store
        store.probe()
        self._failed = False
        self._epoch = epoch
        self._listener.on_recovered(epoch, Progress(store.first, store.next, store.size_bytes), store.writes)
