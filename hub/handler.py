"""`Handler`: a data sink of the core, with its prefixes, its queue and its counters.

Clients, links to peer hubs and subscribers in this process are all handlers. What differs is the outlet: the thin
object that turns batches into writes.

```
             outlet takes bytes?    yes                              no
offer(batch) ────────────────────▶ pending ──flush, once a turn──▶ outlet
                                                                     ▲
                                  BoundedQueue ──resume()────────────┘      full? its overflow policy decides
```

Owner: the core. Invariants: `offer` never waits and never raises; batches reach the outlet in the order offered; a
gap is told where the lost messages would have stood; what is offered while the outlet does not take bytes is bounded.

Cost: `offer` O(1). Memory: about 0.5 KiB a handler without a queue.

Not here: the bytes (`peers.tcp`, `peers.websocket`), which batches come here (`hub.core`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from hub.batch import Batch
from hub.errors import CloseCode
from hub.overflow import Overflow, QueueLimits
from hub.queue import BoundedQueue

__all__ = ["WRITE_LIMIT_BYTES", "Handler", "HandlerStatistics", "Outlet", "Role"]

WRITE_LIMIT_BYTES = 256 * 1024
"""What a handler collects in one turn before it writes early: one read's worth (asyncio reads 256 KiB at most)."""


class Role(Enum):
    """What stands behind a handler."""

    CLIENT = "client"
    LINK = "link"
    """A peer hub. What came from one link does not go to another (one hop)."""
    LOCAL = "local"
    """A subscriber in this process."""


class Outlet(Protocol):
    """Where a handler writes. It may call `Handler.pause` and `Handler.resume` at any time, also from within."""

    def send(self, batches: list[Batch]) -> None:
        """Write the batches with one write, or buffer them; never wait, never raise."""

    def send_gap(self, lost_messages: int) -> None:
        """Tell the far side that so many of its messages were lost at this point."""

    def close(self, code: int, text: str) -> None:
        """Tell the far side why, then end the connection; leads to `Core.detach`."""


class HandlerStatistics(NamedTuple):
    """A handler at one moment."""

    id: int
    role: str
    name: str
    address: str
    prefixes: int
    """How many different prefixes it subscribes to."""
    sample: tuple[str, ...]
    """The first few of them."""
    published_messages: int
    """Taken from it."""
    delivered_messages: int
    """Offered to it and not lost: written, or still queued."""
    delivered_bytes: int
    queued_messages: int
    queued_bytes: int
    dropped_messages: int
    overflow: str
    paused: bool
    """Whether its transport takes no bytes now."""


_SAMPLE_PREFIXES = 5


class Handler:
    """One data sink."""

    __slots__ = (
        "_dirty",
        "_dropped_messages",
        "_on_dirty",
        "_on_drop",
        "_pending",
        "_pending_bytes",
        "_queue",
        "_writable",
        "address",
        "closed",
        "delivered_bytes",
        "delivered_messages",
        "id",
        "limits",
        "name",
        "outlet",
        "prefixes",
        "published_messages",
        "reported_messages",
        "role",
    )

    def __init__(
        self,
        outlet: Outlet,
        *,
        role: Role,
        limits: QueueLimits,
        name: str = "",
        address: str = "",
    ) -> None:
        self.id = 0  # given by the core
        self.role = role
        self.name = name
        self.address = address
        self.limits = limits
        self.outlet = outlet
        self.prefixes: dict[str, int] = {}  # prefix → how often it was subscribed; kept by the core
        self.closed = False
        self.published_messages = 0
        self.delivered_messages = 0
        self.delivered_bytes = 0
        self.reported_messages = 0  # of the dropped ones, how many `$hub/overflow` has told; kept by the core
        self._dropped_messages = 0
        self._queue: BoundedQueue | None = None
        self._pending: list[Batch] = []
        self._pending_bytes = 0
        self._writable = True
        self._dirty = False
        self._on_dirty: Callable[[Handler], None] = _ignore
        self._on_drop: Callable[[Handler], None] = _ignore

    def __repr__(self) -> str:
        return f"<Handler {self.id} {self.role.value} {self.name or self.address!r}>"

    def attach(self, number: int, on_dirty: Callable[[Handler], None], on_drop: Callable[[Handler], None]) -> None:
        """Belong to a core from now on. Called by `Core.attach`."""
        self.id = number
        self._on_dirty = on_dirty
        self._on_drop = on_drop

    @property
    def dropped_messages(self) -> int:
        """How many of its messages were lost so far."""
        return self._dropped_messages + (self._queue.lost_messages if self._queue is not None else 0)

    @property
    def writable(self) -> bool:
        """Whether the outlet takes bytes now."""
        return self._writable

    def offer(self, batch: Batch) -> None:
        """Take a batch: to be written at the end of the turn, to be queued, or to be dropped by the policy."""
        self.delivered_messages += batch.messages
        if not self._writable:
            self._hold(batch)
            return
        self._pending.append(batch)
        self._pending_bytes += batch.size_bytes
        if not self._dirty:
            self._dirty = True
            self._on_dirty(self)
        if self._pending_bytes >= WRITE_LIMIT_BYTES:
            self.write_pending()

    def flush(self) -> None:
        """End of the turn: write what it brought, with one write."""
        self._dirty = False
        if self._pending:
            self.write_pending()

    def write_pending(self) -> None:
        """Write what the turn brought so far."""
        pending, self._pending = self._pending, []
        self.delivered_bytes += self._pending_bytes
        self._pending_bytes = 0
        self.outlet.send(pending)

    def pause(self) -> None:
        """The outlet takes no more bytes: queue from now on."""
        self._writable = False

    def resume(self) -> None:
        """The outlet takes bytes again: hand it the queue, until it pauses again or all is written."""
        if self.closed:
            return
        self._writable = True
        queue = self._queue
        while queue and self._writable:
            lost = queue.take_gap()
            if lost:
                self.outlet.send_gap(lost)
                continue
            batches = queue.take(WRITE_LIMIT_BYTES)
            self.delivered_bytes += sum(batch.size_bytes for batch in batches)
            self.outlet.send(batches)
        if queue is not None and not queue:
            self._dropped_messages += queue.lost_messages
            self._queue = None

    def lose(self, messages: int) -> None:
        """Count messages that the outlet could not bring into its form, and tell the far side."""
        self._dropped_messages += messages
        self.delivered_messages -= messages
        self._on_drop(self)
        self.outlet.send_gap(messages)

    def close(self, code: int, text: str) -> None:
        """End the connection; what is pending or queued is thrown away."""
        if self.closed:
            return
        self.shut()
        self.outlet.close(code, text)

    def shut(self) -> None:
        """Take nothing more. Called when the connection is gone."""
        self.closed = True
        self._writable = False
        self._dropped_messages = self.dropped_messages
        self._queue = None
        self._pending = []
        self._pending_bytes = 0

    def statistics(self) -> HandlerStatistics:
        """The handler as it is now."""
        queue = self._queue
        return HandlerStatistics(
            id=self.id,
            role=self.role.value,
            name=self.name,
            address=self.address,
            prefixes=len(self.prefixes),
            sample=tuple(prefix for prefix, _ in zip(self.prefixes, range(_SAMPLE_PREFIXES), strict=False)),
            published_messages=self.published_messages,
            delivered_messages=self.delivered_messages,
            delivered_bytes=self.delivered_bytes,
            queued_messages=queue.messages if queue is not None else 0,
            queued_bytes=queue.size_bytes if queue is not None else 0,
            dropped_messages=self.dropped_messages,
            overflow=self.limits.overflow.value,
            paused=not self._writable,
        )

    def _hold(self, batch: Batch) -> None:
        """Queue a batch, or do what the policy says."""
        if self.closed:
            self.delivered_messages -= batch.messages
            return
        queue = self._queue
        if queue is None:
            queue = self._queue = BoundedQueue(self.limits)
        if queue.fits(batch):
            queue.append(batch)
            return
        before = queue.lost_messages
        match self.limits.overflow:
            case Overflow.DROP_OLDEST:
                queue.append_dropping_oldest(batch)
            case Overflow.DROP_NEWEST:
                queue.append_dropping_newest(batch)
            case Overflow.DISCONNECT:
                self._overrun(queue, batch)
                return
        self.delivered_messages -= queue.lost_messages - before
        self._on_drop(self)

    def _overrun(self, queue: BoundedQueue, batch: Batch) -> None:
        lost = queue.messages + batch.messages
        queue.clear()
        queue.lost_messages += batch.messages
        self.delivered_messages -= lost
        self._on_drop(self)
        limits = self.limits
        self.close(
            CloseCode.OVERFLOW,
            f"queue full ({limits.messages} messages, {limits.bytes} bytes), {lost} messages lost: read faster, or "
            f"ask for a larger queue or another overflow policy",
        )


def _ignore(_: Handler) -> None:
    """Stand in for the callbacks of a handler without a core."""
