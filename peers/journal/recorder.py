"""`Recorder`: the journal's handler in the core. It never drops; publishers are not read while it is behind.

```
core ─ offer ... end_read ─▶ send(batches) ─▶ Entry ─▶ writer thread
connections ◀─ is_behind, wait_room ─┘  ▲         committed ─▶ confirmations, waiting FETCHes, room
                                        └ failed: nothing is recorded until a probe, once a second, succeeds
```

Offsets are assigned here, in the order in which the core offers messages. If the folder cannot be written, messages are
routed and not recorded: confirmations become errors, and the missing messages are counted. Each failure begins a new
epoch: the writer discards earlier entries, and offsets go on without a gap.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, NamedTuple

import structlog

from hub.core import Core
from hub.errors import CloseCode, RejectedError, StorageError
from hub.handlers.counters import Histogram
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.journal.segment import Write
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.origin import Origin
from hub.statistics.events import Event
from hub.topics import RESERVED
from peers.journal.writer import Entry, Probe, Progress

JOURNAL_TOPIC = RESERVED + "journal"

CONFIRM_S_BOUNDS: Final = (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Seconds: a commit is due every 10 ms, and a hanging disk takes seconds."""

_PROBE_S = 1.0  # pause between probes of a journal that could not be written, seconds
Answer = Callable[[int | RejectedError], None]  # called with the offset of the first message, or an error


OnMarked = Callable[[Origin, int], Answer]
"""Called with origin and messages of a batch that has a mark; returns the callback for its commit."""


OnNews = Callable[[int, int, Collection[str] | None], object]
"""Called with the first offset of a commit, the offset behind its last, and its topics (None: unknown)."""


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
        self._clock_us = clock_us or (lambda: time.time_ns() // 1000)
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")
        self.at = at  # the last progress of the writer
        self._next = at.next
        self._epoch = 0  # number of failures: identifies callbacks of the writer for older entries
        # How many entries of this epoch were submitted, and how many of them are done with. Both are 0 after a failure.
        self._submitted = self._done = 0
        self.waiting_bytes = 0  # charged for submitted entries that are not done, bytes
        self.recorded_messages_total = 0
        self.lost_messages_total = 0  # messages not recorded; reduced if a probe finds some of them on the disk
        self.pauses_total = 0
        self.confirm_times = Histogram(CONFIRM_S_BOUNDS)
        """Seconds from taking to the disk, of the first messages behind each commit."""
        # The entry that is measured now: its number in this epoch and when it was submitted.
        self._timed: tuple[int, float] | None = None
        # Pending confirmations, in the order of the entries; answered at the commit, or at a failure.
        self._tickets: deque[_Ticket] = deque()
        self._room: dict[Callable[[], None], None] = {}  # callbacks of paused publishers, called once there is room
        # The timer of the last try that was planned; None before the first failure.
        self._probing: asyncio.TimerHandle | None = None
        self._stopped = False
        self._reason = ""
        # Set from a failure until a probe has succeeded; None while the journal is written.
        self.error: StorageError | None = None
        self.on_writes: Callable[[list[Write]], object] = lambda _: None
        """Called with the writers' last batches when the folder can be written again."""
        self.on_news: OnNews = lambda _first, _head, _topics: None
        """Called at each commit, and when the journal fails or recovers."""
        self.on_marked: OnMarked | None = None
        self.taken = 0  # messages taken since the start: a connection sees by it whether it feeds the journal
        self.is_behind = False
        """True from more than `buffer_bytes` waiting until half of that is left: publishers should not be read."""
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
                self._tell_marked(batches, self.on_marked)
            return
        now_us, epoch = self._clock_us(), self._epoch
        for batch in batches:
            self._put(Entry(epoch, now_us, batch.frames))
        if self.on_marked is not None:
            self._tell_marked(batches, self.on_marked)
        self._next += messages
        if self._timed is None:
            self._timed = (self._submitted, time.monotonic())
        self.is_behind = self.waiting_bytes > self._buffer_bytes

    def _tell_marked(self, batches: list[Batch], on_marked: OnMarked) -> None:
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

    # Where messages stand.

    def position(self) -> int | None:
        """Return the offset of the next recorded message; None while nothing is recorded."""
        self.handler.write_pending()
        return None if self.error is not None else self._next

    @property
    def committed(self) -> int:
        return self.at.next

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
        return RejectedError(CloseCode.JOURNAL_FAILED, f"not recorded: {self._reason}")

    # Batches of writers.

    def begin_batch(self) -> None:
        """Commit all messages offered until `end_batch` together."""
        self.handler.write_pending()
        self._put_mark(Entry(self._epoch, 0, b"", opens=1))

    def end_batch(self, write: Write | None) -> None:
        """End and commit the batch; `write` is stored with it."""
        self.handler.write_pending()
        self._put_mark(Entry(self._epoch, 0, b"", opens=-1, write=write))

    def _put_mark(self, mark: Entry) -> None:
        if self.error is None:
            self._put(mark)

    @property
    def epoch(self) -> int:
        """Changes with each failure."""
        return self._epoch

    # Back-pressure.

    def wait_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` once there is room again."""
        self.pauses_total += 1
        self._room[resume] = None

    def forget_room(self, resume: Callable[[], None]) -> None:
        self._room.pop(resume, None)

    def _give_room(self) -> None:
        self.is_behind = False
        room, self._room = self._room, {}
        for resume in room:
            resume()

    # Called by the writer in its thread.

    def on_committed(self, progress: Progress) -> None:
        self._bring(lambda: self._committed_now(progress))

    def on_failed(self, error: StorageError, next_offset: int) -> None:
        """Nothing from `next_offset` on was committed, or will be."""
        self._bring(lambda: self._failed_now(error, next_offset))

    def on_recovered(self, epoch: int, progress: Progress, writes: list[Write]) -> None:
        self._bring(lambda: self._recovered_now(epoch, progress, writes))

    def _bring(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call)

    # The same, in the loop.

    def _committed_now(self, progress: Progress) -> None:
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

    def _failed_now(self, error: StorageError, next_offset: int) -> None:
        self.handler.write_pending()
        news = self.error is None
        self._epoch += 1
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
            self._probing = self._loop.call_later(_PROBE_S, lambda: self._submit(Probe(self._epoch)))
        if news:
            self._log.error("the journal cannot be written; messages go on, but are not recorded", reason=self._reason)
            self._core.system_events.announce(
                Event(JOURNAL_TOPIC, {"state": "failed", "reason": self._reason, "offset": next_offset})
            )

    def _recovered_now(self, epoch: int, progress: Progress, writes: list[Write]) -> None:
        if epoch != self._epoch:
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
        value = {"state": "recovered", "offset": progress.next, "lost": self.lost_messages_total}
        self._core.system_events.announce(Event(JOURNAL_TOPIC, value))

    def _forget_entries(self) -> None:
        self._submitted = self._done = self.waiting_bytes = 0
        self._timed = None

    # The end.

    def stop(self) -> None:
        """Take no more messages; those taken are on their way to the writer."""
        self._stopped = True
        self.handler.write_pending()
        if self._probing is not None:
            self._probing.cancel()
        self._core.detach(self.handler, "the hub stops")
