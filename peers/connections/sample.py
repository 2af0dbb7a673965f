"""`Sample`: an outlet in front of a writer, for a client that wants no more than so many messages a second.

```
handler ── send ─▶ credit left? ─ yes ─▶ writer
                        │ no
                        ▼
          the newest `per_s` messages ── every 50 ms, what there is credit for ─▶ [so many left out] messages ─▶ writer
```

Purpose: whoever watches a stream that is too fast to be read costs the hub, and itself, what it watches, and not the
stream. The credit is that of a second, so up to `per_s` messages at once are all written, and more of them in pieces
that followed one another. What stands still waits here and is written in the end: the newest message is never left out.

Owner: one connection. Invariants: messages keep their order; each is written, waits here, or is told as left out, in
the place where it would have stood; at most `per_s` wait, and `HELD_BYTES`, and nothing where the hub has too much to
hold (`hub.memory`). What is left out was asked for, so it is no loss, does not make the client slow, and does not count
as delivered. What the client takes too slowly all the same waits in the queue of its handler, by whose policy it is
lost; when that is told, what still waits here is left out, as it came before. The timer is there exactly while
something waits here.

Cost: some µs a read that brings more than there is credit for, and a timer of 50 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hub.batch import Batch
from hub.handler import Handler
from hub.memory import HeldBatches
from hub.overflow import QueueLimits
from hub.queue import BoundedQueue
from hub.quotas.resource import Resource
from peers.connections.connection import Connection

if TYPE_CHECKING:
    from peers.connections.connection import Connection

__all__ = ["HELD_BYTES", "PIECE_S", "Sample"]

PIECE_S: Final = 0.05
"""How often a piece is written while there is more than is wanted, seconds: an eye sees no difference."""

HELD_BYTES: Final = 8 * 1024 * 1024
"""Most memory of messages that wait here: they are not those of a slow client, which its queue bounds."""


class Sample:
    """An outlet, see `hub.outlet.Outlet`.

    Args:
        writer: It gets the sample.
        per_s: Most messages a second, and at once, 1 or more.
        tell: Tells the client how many messages were left out here.
        count: Is told how many were left out, whenever it is some.
    """

    __slots__ = ("_at_s", "_count", "_credit", "_handler", "_loop", "_per_s", "_queue", "_tell", "_timer", "_writer")

    def __init__(
        self, writer: Connection, per_s: int, tell: Callable[[int], None], count: Callable[[int], None]
    ) -> None:
        self._writer = writer
        self._per_s = per_s
        self._tell = tell
        self._count = count
        self._loop = writer.node.loop
        self._handler: Handler | None = None
        """Whose outlet it is, from `begin` to `stop`."""
        self._queue: BoundedQueue | None = None
        """None until something has to wait here."""
        self._credit = float(per_s)
        """How many messages may be written now."""
        self._at_s = self._loop.time()
        """When the credit was that."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def connection(self) -> Connection:
        """Whose it is."""
        return self._writer

    def begin(self, handler: Handler) -> None:
        """It is the outlet of this handler, which is attached."""
        self._handler = handler

    def stop(self) -> None:
        """Nobody is there to be written to any more."""
        self._handler = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queue is not None:
            self._queue.abandon()

    # What the handler writes.

    def send(self, batches: list[Batch]) -> None:
        """Write what there is credit for, and let the rest wait, or leave out."""
        handler = self._handler
        if handler is None:
            return
        messages = sum(batch.messages for batch in batches)
        if self._timer is None:
            self._earn()
            if messages <= self._credit:
                self._credit -= messages
                self._writer.send(batches)
                return
        handler.recount(-messages, -sum(batch.frames_bytes for batch in batches))
        queue = self._queue = self._queue or self._new_queue(handler)
        before = queue.lost_messages
        for batch in batches:
            if not queue.append_whole(batch):
                queue.append_dropping_oldest(batch)
        if self._writer.node.core.memory.is_over:
            queue.clear()
        if queue.lost_messages > before:
            self._count(queue.lost_messages - before)
        if self._timer is None:
            self._go_on()

    def send_gap(self, lost_messages: int) -> None:
        """Tell what was lost in the queue of the handler; what waits here came before, and is left out."""
        queue = self._queue
        if queue:
            before = queue.lost_messages
            queue.clear()
            if queue.lost_messages > before:
                self._count(queue.lost_messages - before)
            self._tell(queue.take_gap())
        self._writer.send_gap(lost_messages)

    def close(self, code: int, text: str) -> None:
        """End the connection, without what waits here."""
        self.stop()
        self._writer.close(code, text)

    # What waits here.

    def _new_queue(self, handler: Handler) -> BoundedQueue:
        memory = self._writer.node.core.memory
        usage = None if handler.share is None else handler.share[Resource.QUEUED_BYTES]
        return BoundedQueue(QueueLimits(self._per_s, HELD_BYTES), HeldBatches(memory.account("queues")), usage)

    def _earn(self) -> None:
        """Add what the time that has passed is worth."""
        now_s = self._loop.time()
        self._credit = min(float(self._per_s), self._credit + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s

    def _wake(self) -> None:
        self._timer = None
        self._writer.guard(self._go_on)

    def _go_on(self) -> None:
        queue, handler = self._queue, self._handler
        if queue is None or handler is None or handler.closed:
            self.stop()
            return
        self._earn()
        if self._credit >= 1 and not self._writer.is_choked:
            self._write(queue, handler)
        if queue and self._handler is not None:  # the write may have ended the connection
            self._timer = self._loop.call_later(PIECE_S, self._wake)

    def _write(self, queue: BoundedQueue, handler: Handler) -> None:
        """Write the oldest messages that there is credit for, behind what was left out before them."""
        before = queue.lost_messages
        left_out = queue.take_gap()
        if queue.lost_messages > before:  # the rest of a BATCH that could not be cut
            self._count(queue.lost_messages - before)
        if left_out:
            self._tell(left_out)
        batches = queue.take_messages(int(self._credit))
        if batches:
            messages = sum(batch.messages for batch in batches)
            self._credit -= messages
            handler.recount(messages, sum(batch.frames_bytes for batch in batches))
            self._writer.send(batches)
