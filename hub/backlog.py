"""How what waits for a handler is written once its outlet takes bytes again, and what of it is lost.

```
Waiting ─▶ requests and replies, until none are left ─▶ poster
       └─▶ a gap, or the batches up to the next one  ─▶ outlet
```

Purpose: the order in which it goes, and what the overflow policy means where something does not fit into the queue, or
into the hub's memory.

Owner: nobody; the handler has all state. Cost: per write of what has waited, and per overflow. Not here: the queues
(`hub.waiting`), when they are written (`hub.handler`).
"""

from __future__ import annotations

from typing import Final, Protocol, cast

from hub.batch import Batch
from hub.outlet import Outlet, Poster
from hub.overflow import Overflow, QueueLimits
from hub.waiting import Waiting

__all__ = ["LINK_WRITE_BYTES", "WRITE_LIMIT_BYTES", "Sink", "drop_waiting", "hold", "write_waiting"]

WRITE_LIMIT_BYTES: Final = 256 * 1024
"""What a handler collects in one turn before it writes early, and what it writes at a time of what has waited: one
read's worth (asyncio reads 256 KiB at most)."""

LINK_WRITE_BYTES: Final = WRITE_LIMIT_BYTES // 8
"""The same to a peer hub: news of the mesh and requests no longer overtake what is written, and a slow line takes a
second for some four of these."""


class Sink(Protocol):
    """A handler, as far as it must be known here."""

    outlet: Outlet
    poster: Poster | None
    limits: QueueLimits
    writable: bool
    """Whether the outlet takes bytes; it may say so, or not, within each write."""
    delivered_bytes: int
    portion_bytes: int
    """How much of what waits is written at a time."""

    def has_dropped(self) -> None:
        """Some of what waits was dropped."""

    def lose_all(self, more_messages: int, why: str) -> None:
        """Lose all that is not written yet, and so many more messages, and close."""


def write_waiting(sink: Sink, waiting: Waiting) -> None:
    """Write what waits, until nothing does or the outlet takes no more bytes."""
    while waiting and sink.writable:
        _write_next(sink, waiting)


def _write_next(sink: Sink, waiting: Waiting) -> None:
    """Write requests and replies; when none are left, a gap, or the batches up to the next one."""
    items = waiting.take_items(sink.portion_bytes)
    if items:
        sink.delivered_bytes += sum(item.size_bytes for item in items)
        cast("Poster", sink.poster).post(items)
        return
    before = waiting.lost_messages
    gap = waiting.take_gap()
    if waiting.lost_messages > before:  # the rest of a BATCH that could not be cut
        sink.has_dropped()
    if gap:
        sink.outlet.send_gap(gap)
        return
    batches = waiting.take_batches(sink.portion_bytes)
    if batches:
        sink.delivered_bytes += sum(batch.frames_bytes for batch in batches)
        sink.outlet.send(batches)


def hold(sink: Sink, waiting: Waiting, batch: Batch) -> None:
    """Let a batch wait, or do what the policy says."""
    if waiting.hold(batch):
        return
    if sink.limits.overflow is Overflow.DISCONNECT:
        sink.lose_all(batch.messages, waiting.why_full(batch))
    else:
        sink.has_dropped()


def drop_waiting(sink: Sink, waiting: Waiting, surplus_bytes: int) -> int:
    """Drop so much of the messages that wait, as there is too little memory; return how much that was, bytes."""
    before = waiting.messages_bytes
    if not before:
        return 0
    if sink.limits.overflow is Overflow.DISCONNECT:
        sink.lose_all(0, "the hub has too little memory for this queue")
        return before
    waiting.drop(surplus_bytes)
    sink.has_dropped()
    return before - waiting.messages_bytes
