"""`Recorder`: the journal's handler in the core. It never drops: when it is behind, those who feed it are not read.

```
core ─ offer ... end_read ─▶ send(batches) ─▶ Entry ─▶ writer thread
connections ◀─ is_behind, wait_room ─┘  ▲         committed ─▶ confirmations, readers that wait, room
                                        └ failed: nothing is taken until a probe, once a second, has succeeded
```

Offsets are given here, in the order in which the core offers messages, which is the order in which they are written. So
the place of a message between others is known at once, while it is not yet on the disk.

When the file cannot be written (full disk, damage), messages are routed on and not recorded: those whose publishers
asked for confirmation are answered by an error, and all that are missing are counted. Offsets go on without a gap.

Owner: the event loop; `committed`, `failed` and `recovered` come from the writer's thread and are brought over.

Cost: one call a write of its handler, one entry a batch.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import structlog

from hub.batch import Batch
from hub.core import Core
from hub.errors import CloseCode, RejectedError, StorageError
from hub.events import Event
from hub.handler import Handler, Role
from hub.overflow import QueueLimits
from hub.topics import RESERVED
from peers.journal.store import Write
from peers.journal.writer import Entry, Probe

__all__ = ["JOURNAL_TOPIC", "Answer", "Recorder", "RecorderStatistics"]

JOURNAL_TOPIC = RESERVED + "journal"

_PROBE_S = 1.0
"""How often a journal that could not be written is tried again."""

Answer = Callable[[int | RejectedError], None]
"""Gets the offset of the first message, or why there is none."""


class _Ticket(NamedTuple):
    """Somebody waits for the commit of what stands before `next`."""

    first: int
    next: int
    answer: Answer


class RecorderStatistics(NamedTuple):
    """The journal's writing side at one moment."""

    next: int
    """The offset that the next message gets."""
    committed: int
    """Everything before it is on the disk."""
    recorded_messages_total: int
    """Since the hub has started."""
    lost_messages_total: int
    """Not recorded, because the file could not be written."""
    waiting_bytes: int
    """On their way to the disk."""
    pauses_total: int
    """How often somebody's reading was paused for it."""
    error: str
    """Why it does not write now, empty if it does."""


class Recorder:
    """The handler of the journal.

    Args:
        core: Of the hub.
        topics: Prefixes of what is recorded.
        submit: Hands an entry to the writer.
        buffer_bytes: What may be on its way before those who feed it are not read.
        next_offset: The first one to give.
        clock_us: µs since 1970.
    """

    def __init__(  # noqa: PLR0913 -- one owner of all this
        self,
        core: Core,
        topics: tuple[str, ...],
        submit: Callable[[Entry | Probe], None],
        *,
        buffer_bytes: int,
        next_offset: int,
        clock_us: Callable[[], int] | None = None,
    ) -> None:
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._buffer_bytes = buffer_bytes
        self._submit = submit
        self._clock_us = clock_us or (lambda: time.time_ns() // 1000)
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")
        self._next = next_offset
        self._committed = next_offset
        self._epoch = 0
        self._waiting_bytes = 0
        self._recorded = 0
        self._lost = 0
        self._pauses = 0
        self._tickets: deque[_Ticket] = deque()
        self._room: list[Callable[[], None]] = []
        self._readers: list[tuple[int, Callable[[], None]]] = []
        self._probing: asyncio.TimerHandle | None = None
        self.error: StorageError | None = None
        self.taken = 0
        """Messages taken since the start: whoever publishes sees by it whether it feeds the journal."""
        self.is_behind = False
        """Whether those who feed it should not be read."""
        limits = QueueLimits()  # never used: this handler never pauses
        self.handler = Handler(self, role=Role.LOCAL, limits=limits, name="journal", address="local")
        core.attach(self.handler)
        core.subscribe(self.handler, topics)

    # As the outlet of its handler.

    def send(self, batches: list[Batch]) -> None:
        """Take what one write would be."""
        messages = sum([batch.messages for batch in batches])
        self.taken += messages
        if self.error is not None:
            self._lost += messages
            return
        now_us, epoch, submit = self._clock_us(), self._epoch, self._submit
        for batch in batches:
            self._waiting_bytes += len(batch.frames)
            submit(Entry(epoch, now_us, batch.frames))
        self._next += messages
        self.is_behind = self._waiting_bytes > self._buffer_bytes

    def send_gap(self, lost_messages: int) -> None:
        """Never called: there is no queue that could overflow."""

    def close(self, code: int, text: str) -> None:
        """Never called: its policy is not to disconnect."""

    # Where messages stand.

    def position(self) -> int | None:
        """Return the offset that the next recorded message will get; None while nothing is recorded."""
        self.handler.write_pending()
        return None if self.error is not None else self._next

    @property
    def committed(self) -> int:
        """Everything before this offset is on the disk."""
        return self._committed

    def answer_at_commit(self, messages: int, answer: Answer) -> None:
        """Answer once the messages that were offered last are committed.

        Args:
            messages: How many of them.
            answer: Called then, or when it turns out that they will not be.
        """
        position = self.position()
        if position is None:
            answer(self._refusal())
        elif position <= self._committed:
            answer(position - messages)
        else:
            self._tickets.append(_Ticket(position - messages, position, answer))

    def call_at_commit(self, offset: int, call: Callable[[], None]) -> None:
        """Call once the record of this offset is committed; also when nothing is recorded any more."""
        self._readers.append((offset, call))

    def forget_call(self, call: Callable[[], None]) -> None:
        """Do not call."""
        self._readers = [one for one in self._readers if one[1] is not call]

    # Batches of writers.

    def begin_batch(self) -> None:
        """What is offered from now on is committed together, at `end_batch`; whatever else comes with it."""
        self.handler.write_pending()
        self._submit(Entry(self._epoch, 0, b"", opens=1))

    def end_batch(self, write: Write | None) -> None:
        """Commit.

        Args:
            write: Remembered with it.
        """
        self.handler.write_pending()
        self._submit(Entry(self._epoch, 0, b"", opens=-1, write=write))

    @property
    def epoch(self) -> int:
        """Changes with each failure."""
        return self._epoch

    # Back-pressure.

    def wait_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` once there is room again."""
        self._pauses += 1
        self._room.append(resume)

    def _give_room(self) -> None:
        self.is_behind = False
        room, self._room = self._room, []
        for resume in room:
            resume()

    # What the writer tells, in its thread.

    def on_committed(self, next_offset: int, frames_bytes: int) -> None:
        """Everything before `next_offset` is committed."""
        self._bring(lambda: self._committed_now(next_offset, frames_bytes))

    def on_failed(self, error: StorageError, next_offset: int) -> None:
        """Nothing from `next_offset` on was, or will be."""
        self._bring(lambda: self._failed_now(error, next_offset))

    def on_recovered(self, epoch: int, next_offset: int) -> None:
        """Entries of that epoch are taken."""
        self._bring(lambda: self._recovered_now(epoch, next_offset))

    def _bring(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call)

    # The same, in the loop.

    def _committed_now(self, next_offset: int, frames_bytes: int) -> None:
        self._recorded += next_offset - self._committed
        self._committed = next_offset
        self._waiting_bytes -= frames_bytes
        tickets = self._tickets
        while tickets and tickets[0].next <= next_offset:
            ticket = tickets.popleft()
            ticket.answer(ticket.first)
        self._call_readers()
        if self.is_behind and self._waiting_bytes <= self._buffer_bytes // 2:
            self._give_room()

    def _call_readers(self) -> None:
        due = [call for offset, call in self._readers if offset < self._committed or self.error is not None]
        if due:
            self._readers = [one for one in self._readers if one[1] not in due]
            for call in due:
                call()

    def _failed_now(self, error: StorageError, next_offset: int) -> None:
        self.handler.write_pending()
        news = self.error is None
        self._epoch += 1
        self.error = error
        self._lost += self._next - next_offset
        self._next = self._committed = next_offset
        self._waiting_bytes = 0
        tickets, self._tickets = self._tickets, deque()
        for ticket in tickets:
            ticket.answer(self._refusal())
        self._call_readers()
        self._give_room()
        self._probing = self._loop.call_later(_PROBE_S, lambda: self._submit(Probe(self._epoch)))
        if news:
            self._log.error("the journal cannot be written; messages go on, but are not recorded", reason=str(error))
            self._core.announce(Event(JOURNAL_TOPIC, {"state": "failed", "reason": str(error)}))

    def _recovered_now(self, epoch: int, next_offset: int) -> None:
        if epoch != self._epoch:
            return
        self.handler.write_pending()
        self.error = None
        self._next = self._committed = next_offset
        self._log.warning("the journal is written again", offset=next_offset, lost_messages=self._lost)
        self._core.announce(Event(JOURNAL_TOPIC, {"state": "recovered", "offset": next_offset, "lost": self._lost}))

    def _refusal(self) -> RejectedError:
        return RejectedError(CloseCode.JOURNAL_FAILED, f"not recorded: {self.error}")

    # The rest.

    def stop(self) -> None:
        """Take nothing more; what was taken is on its way to the writer."""
        self.handler.write_pending()
        if self._probing is not None:
            self._probing.cancel()
        self._core.detach(self.handler, "the hub stops")

    def statistics(self) -> RecorderStatistics:
        """The recorder as it is now."""
        return RecorderStatistics(
            next=self._next,
            committed=self._committed,
            recorded_messages_total=self._recorded,
            lost_messages_total=self._lost,
            waiting_bytes=self._waiting_bytes,
            pauses_total=self._pauses,
            error=str(self.error or ""),
        )
