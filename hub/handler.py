"""`Handler`: a data sink of the core, with its prefixes, its queue and its counters.

Clients, links to peer hubs and subscribers in this process are all handlers. What differs is the outlet: the thin
object that turns batches into writes.

```
             outlet takes bytes?    yes                              no
offer(batch) ────────────────────▶ pending ──flush, once a turn──▶ outlet
                                                                     ▲
                                  BoundedQueue ──resume()────────────┘      full? its overflow policy decides
```

Requests and replies (`post`) are written among the messages of the turn, in the order in which they came. While the
outlet takes no bytes they wait in a lane of their own, which is written before the queue: overflow policies are for
messages, a request has one answer in any case.

Owner: the core. Invariants: `offer` and `post` never wait and never raise; batches reach the outlet in the order
offered; a gap is told where the lost messages would have stood; what comes while the outlet does not take bytes is
bounded.

Cost: `offer` O(1). Memory: about 0.5 KiB a handler without a queue.

Not here: the bytes (`peers.tcp`, `peers.websocket`), which batches come here (`hub.core`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol, cast

from hub.batch import Batch
from hub.errors import CloseCode
from hub.frame import FLAG_SHARED
from hub.overflow import Overflow, QueueLimits
from hub.queue import BoundedQueue
from hub.requests.lane import Item, Lane
from hub.requests.shared import as_bytes

__all__ = ["ANY_FRAME_BYTES", "WRITE_LIMIT_BYTES", "Handler", "HandlerStatistics", "Outlet", "Poster", "Role"]

WRITE_LIMIT_BYTES = 256 * 1024
"""What a handler collects in one turn before it writes early: one read's worth (asyncio reads 256 KiB at most)."""

ANY_FRAME_BYTES = (1 << 32) - 1
"""The longest body that a header can tell: of a far side that has no limit of its own."""


class Role(Enum):
    """What stands behind a handler."""

    CLIENT = "client"
    LINK = "link"
    """A peer hub. What came from one link does not go to another (one hop)."""
    LEAF = "leaf"
    """An endpoint of a foreign network (Zeek). It is told what this hub wants, and says what it wants, like a link;
    but it hears what comes over links, and what comes from it goes over links, like a client."""
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


class Poster(Protocol):
    """The part of an outlet that writes requests and replies. Who has none neither asks nor serves."""

    def post(self, items: list[Item]) -> None:
        """Write them with one write, or buffer them; never wait, never raise."""


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
    """Written to it."""
    delivered_bytes: int
    queued_messages: int
    queued_bytes: int
    """Of messages, requests and replies."""
    dropped_messages: int
    overflow: str
    paused: bool
    """Whether its transport takes no bytes now."""


_SAMPLE_PREFIXES = 5


class Handler:
    """One data sink.

    Args:
        outlet: Where it writes.
        role: What stands behind it.
        limits: Of its queue, and what happens when that is full.
        name: For people.
        address: For people.
        poster: Where it writes requests and replies, None for one that takes none.
        frame_limit_bytes: Largest body that the far side takes.
    """

    __slots__ = (
        "_direct",
        "_dirty",
        "_dropped_messages",
        "_lane",
        "_offered_messages",
        "_on_dirty",
        "_on_drop",
        "_pending",
        "_pending_bytes",
        "_posted",
        "_queue",
        "_writable",
        "_writing",
        "address",
        "closed",
        "delivered_bytes",
        "frame_limit_bytes",
        "hears_itself",
        "id",
        "is_link",
        "is_plain",
        "limits",
        "name",
        "outlet",
        "poster",
        "prefixes",
        "published_messages",
        "reaches_leaves",
        "reported_messages",
        "role",
        "takes_shared",
    )

    def __init__(  # noqa: PLR0913 -- what is known of a far side is told at once
        self,
        outlet: Outlet,
        *,
        role: Role,
        limits: QueueLimits,
        name: str = "",
        address: str = "",
        poster: Poster | None = None,
        frame_limit_bytes: int = ANY_FRAME_BYTES,
    ) -> None:
        self.id = 0  # given by the core
        self.role = role
        # Asked for every message; looking the enum's member up takes 70 ns.
        self.is_link = role is Role.LINK
        self.hears_itself = role is not Role.LEAF
        self.reaches_leaves = True
        self.is_plain = self.hears_itself and not self.is_link  # whoever wants it gets what it publishes
        self.name = name
        self.address = address
        self.limits = limits
        self.outlet = outlet
        self.poster = poster
        self.frame_limit_bytes = frame_limit_bytes
        self.takes_shared = False  # values in shared memory; whoever does not, gets them as bytes
        self.prefixes: dict[str, int] = {}  # prefix → how often it was subscribed; kept by the core
        self.closed = False
        self.published_messages = 0
        self.delivered_bytes = 0
        self.reported_messages = 0  # of the dropped ones, how many `$hub/overflow` has told; kept by the core
        self._offered_messages = 0  # without what was thrown away with the connection
        self._dropped_messages = 0
        self._queue: BoundedQueue | None = None
        self._pending: list[Batch] = []
        self._pending_bytes = 0  # of what is posted, too
        self._posted: list[tuple[int, Item]] = []  # each behind so many of the pending batches
        self._lane: Lane | None = None
        self._writable = True
        self._direct = True  # the outlet takes bytes, and neither lane nor queue has to go before what is offered
        self._writing = False  # inside the outlet: nothing else may be written before it returns
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

    def restrict(self, *, itself: bool = True, leaves: bool = True) -> None:
        """Say who does not get what this handler publishes, from now on.

        Args:
            itself: Whether it gets that too, if it subscribes to it. A leaf does not, unless told otherwise.
            leaves: Whether leaves get it.
        """
        self.hears_itself = itself
        self.reaches_leaves = leaves
        self.is_plain = itself and leaves and not self.is_link

    @property
    def dropped_messages(self) -> int:
        """How many of its messages were lost so far."""
        return self._dropped_messages + (self._queue.lost_messages if self._queue is not None else 0)

    @property
    def delivered_messages(self) -> int:
        """How many messages were written to it."""
        return self._offered_messages - self.dropped_messages - self._held_messages()

    @property
    def writable(self) -> bool:
        """Whether the outlet takes bytes now."""
        return self._writable

    def offer(self, batch: Batch) -> None:
        """Take a batch: to be written at the end of the turn, to be queued, or to be dropped by the policy."""
        if not self._direct:
            self._hold(batch)
            return
        self._offered_messages += batch.messages
        self._pending.append(batch)
        self._pending_bytes += batch.size_bytes
        if not self._dirty:
            self._dirty = True
            self._on_dirty(self)
        if self._pending_bytes >= WRITE_LIMIT_BYTES:
            self.write_pending()

    def post(self, item: Item, *, keep: bool = False) -> bool:
        """Take a request or a reply: to be written at the end of the turn, or to wait in the lane.

        Args:
            item: Within `frame_limit_bytes`.
            keep: Take it even if the lane is full.

        Returns:
            Whether it was taken. Not, if the lane is full, the handler is closed, or nobody here can write it.
        """
        if item.flags & FLAG_SHARED and not self.takes_shared:
            plain = as_bytes(item)
            return plain is not None and self.post(plain, keep=keep)
        if not self._direct:
            return self._hold_item(item, keep=keep)
        if self.poster is None:
            return False
        self._posted.append((len(self._pending), item))
        self._pending_bytes += item.size_bytes
        if not self._dirty:
            self._dirty = True
            self._on_dirty(self)
        if self._pending_bytes >= WRITE_LIMIT_BYTES:
            self.write_pending()
        return True

    def flush(self) -> None:
        """End of a read or a turn: write what it brought, with one write."""
        self._dirty = False
        if self._pending or self._posted:
            self.write_pending()

    def write_pending(self) -> None:
        """Write what is pending. What is offered from within that write waits for the next flush."""
        if self._writing:
            return
        self._send_pending()
        if self._queue is not None or self._lane is not None:  # the outlet paused within the write, perhaps resumed
            self._go_on()

    def pause(self) -> None:
        """The outlet takes no more bytes: queue from now on."""
        self._writable = self._direct = False

    def resume(self) -> None:
        """The outlet takes bytes again: hand it the queue, until it pauses again or all is written."""
        if self.closed:
            return
        self._writable = True
        if self._queue is None and self._lane is None:
            self._direct = True
        elif not self._writing:
            self._go_on()

    def _go_on(self) -> None:
        """Empty lane and queue, after what the turn had brought before them; until the outlet pauses."""
        while self._writable and (self._queue is not None or self._lane is not None):
            if self._pending or self._posted:
                self._send_pending()
            elif self._lane is not None:
                self._write_lane(self._lane)
            else:
                self._write_queue()

    def _send_pending(self) -> None:
        pending, self._pending = self._pending, []
        self.delivered_bytes += self._pending_bytes
        self._pending_bytes = 0
        self._writing = True
        try:
            if self._posted:
                self._send_mixed(pending)
            else:
                self.outlet.send(pending)
        finally:
            self._writing = False

    def _send_mixed(self, pending: list[Batch]) -> None:
        """Write batches and what was posted between them."""
        posted, self._posted = self._posted, []
        poster = cast("Poster", self.poster)
        items: list[Item] = []
        start = 0
        for place, item in posted:
            if place > start:
                if items:
                    poster.post(items)
                    items = []
                self.outlet.send(pending[start:place])
                start = place
            items.append(item)
        poster.post(items)
        if start < len(pending):
            self.outlet.send(pending[start:])

    def _write_lane(self, lane: Lane) -> None:
        """Write the lane. What is posted from within goes behind it."""
        self._writing = True
        try:
            while lane and self._writable:
                items = lane.take(WRITE_LIMIT_BYTES)
                self.delivered_bytes += sum(item.size_bytes for item in items)
                cast("Poster", self.poster).post(items)
        finally:
            self._writing = False
        if lane is self._lane and not lane:
            self._lane = None
            self._direct = self._writable and self._queue is None

    def _write_queue(self) -> None:
        """Write the queue. What is offered from within goes behind it."""
        queue = self._queue
        self._writing = True
        try:
            while queue and self._writable:
                self._write_next(queue)
        finally:
            self._writing = False
        if queue is not None and queue is self._queue and not queue:
            self._dropped_messages += queue.lost_messages
            self._queue = None
            self._direct = self._writable and self._lane is None

    def _write_next(self, queue: BoundedQueue) -> None:
        """Write a gap, or the batches up to the next one."""
        before = queue.lost_messages
        gap = queue.take_gap()
        if queue.lost_messages > before:  # the rest of a BATCH that could not be cut
            self._on_drop(self)
        if gap:
            self.outlet.send_gap(gap)
            return
        batches = queue.take(WRITE_LIMIT_BYTES)
        self.delivered_bytes += sum(batch.size_bytes for batch in batches)
        self.outlet.send(batches)

    def lose(self, messages: int) -> None:
        """Count messages that the outlet could not bring into its form, and tell the far side."""
        self._dropped_messages += messages
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
        self._writable = self._direct = False
        self._offered_messages -= self._held_messages()
        self._dropped_messages = self.dropped_messages
        self._queue = None
        self._lane = None
        self._pending = []
        self._posted = []
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
            queued_bytes=(queue.size_bytes if queue is not None else 0)
            + (self._lane.size_bytes if self._lane is not None else 0),
            dropped_messages=self.dropped_messages,
            overflow=self.limits.overflow.value,
            paused=not self._writable,
        )

    def _held_messages(self) -> int:
        """Messages that wait for the end of the turn or in the queue."""
        pending = sum(batch.messages for batch in self._pending)
        return pending + (self._queue.messages if self._queue is not None else 0)

    def _hold_item(self, item: Item, *, keep: bool) -> bool:
        """Let a request or a reply wait, if there is room."""
        if self.closed or self.poster is None:
            return False
        lane = self._lane or Lane(self.limits)
        if not lane.add(item, keep=keep):
            return False
        self._lane = lane
        return True

    def _hold(self, batch: Batch) -> None:
        """Queue a batch, or do what the policy says."""
        if self.closed:
            return
        self._offered_messages += batch.messages
        queue = self._queue
        if queue is None:
            queue = self._queue = BoundedQueue(self.limits)
        if queue.fits(batch):
            queue.append(batch)
            return
        match self.limits.overflow:
            case Overflow.DROP_OLDEST:
                queue.append_dropping_oldest(batch)
            case Overflow.DROP_NEWEST:
                queue.append_dropping_newest(batch)
            case Overflow.DISCONNECT:
                self._overrun(batch)
                return
        self._on_drop(self)

    def _overrun(self, batch: Batch) -> None:
        """Lose everything, what the turn had brought before the queue too, and close."""
        lost = self._held_messages() + batch.messages
        self._dropped_messages = self.dropped_messages + lost
        self._queue = None
        self._pending = []
        self._on_drop(self)
        limits = self.limits
        self.close(
            CloseCode.OVERFLOW,
            f"queue full ({limits.messages} messages, {limits.bytes} bytes), {lost} messages lost: read faster or "
            "choose a drop policy",  # with the largest numbers still within the 123 bytes of a close
        )


def _ignore(_: Handler) -> None:
    """Stand in for the callbacks of a handler without a core."""
