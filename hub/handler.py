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
outlet takes no bytes they wait in a line of their own (`hub.requests.lane`), which is written before the queue:
overflow
policies are for messages, a request has one answer in any case.

Owner: the core. Invariants: `offer` and `post` never wait and never raise; batches reach the outlet in the order
offered; a gap is told where the lost messages would have stood; what comes while the outlet does not take bytes is
bounded.

Cost: `offer` O(1). Memory: about 0.5 KiB a handler without a queue.

Not here: the bytes (`peers.connections`), which batches come here (`hub.core`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

from hub.batch import Batch
from hub.delivery import Delivery, Role
from hub.errors import CloseCode
from hub.frame import FLAG_SHARED
from hub.memory import Account, HeldBatches, Memory
from hub.overflow import Overflow, QueueLimits
from hub.queue import BoundedQueue
from hub.requests.lane import Item, Lane
from hub.requests.shared import as_bytes

__all__ = ["ANY_FRAME_BYTES", "WRITE_LIMIT_BYTES", "Handler", "HandlerStatistics", "Outlet", "Poster"]

WRITE_LIMIT_BYTES = 256 * 1024
"""What a handler collects in one turn before it writes early: one read's worth (asyncio reads 256 KiB at most)."""

ANY_FRAME_BYTES = (1 << 32) - 1
"""The longest body that a header can tell: of a far side that has no limit of its own."""


class Outlet(Protocol):
    """Where a handler writes. It may call `Handler.pause` and `Handler.resume` at any time, also from within."""

    def send(self, batches: list[Batch]) -> None:
        """Write the batches with one write, or buffer them; never wait, never raise."""

    def send_gap(self, lost_messages: int) -> None:
        """Tell the far side that so many of its messages were lost at this point."""

    def close(self, code: int, text: str) -> None:
        """Tell the far side why, then end the connection; leads to `Core.detach`."""


class Poster(Protocol):
    """The part of an outlet that writes requests and replies. A handler without one neither asks nor serves."""

    def post(self, items: list[Item]) -> None:
        """Write them with one write, or buffer them; never wait, never raise."""


class HandlerStatistics(NamedTuple):
    """What a handler has done, and what it holds, at one moment."""

    id: int
    role: str
    name: str
    address: str
    prefixes: int
    """How many different prefixes it subscribes to."""
    sample: tuple[str, ...]
    """The first few of these prefixes."""
    published_messages: int
    """How many messages were taken from it."""
    delivered_messages: int
    """How many messages were written to it."""
    delivered_bytes: int
    queued_messages: int
    queued_bytes: int
    """How much waits for it: messages, requests and replies."""
    dropped_messages: int
    overflow: str
    paused: bool
    """Whether its transport takes no bytes now."""


class HandlerSums(NamedTuple):
    """What one handler adds to the sums over all of them."""

    delivered_messages: int
    dropped_messages: int
    queued_messages: int
    queued_bytes: int


_SAMPLE_PREFIXES = 5


class QueueMemory(NamedTuple):
    """Where what waits for handlers is charged."""

    batches: HeldBatches
    requests: Account
    """Requests and replies are charged here."""

    @classmethod
    def of(cls, memory: Memory) -> QueueMemory:
        """Return the accounts of this budget that are charged for what waits."""
        account = memory.account("queues")
        return cls(HeldBatches(account), account)


_UNBOUNDED = QueueMemory.of(Memory())
"""The accounts of handlers that belong to no core."""


class Handler:
    """One data sink.

    Args:
        outlet: The object to which it writes batches.
        role: What stands behind it.
        limits: Of its queue, and what happens when that is full.
        name: Text for people.
        address: Text for people.
        poster: Where it writes requests and replies, None for one that takes none.
        frame_limit_bytes: Largest body that the far side takes.
    """

    __slots__ = (
        "_direct",
        "_dirty",
        "_dropped_messages",
        "_lane",
        "_memory",
        "_offered_messages",
        "_on_dirty",
        "_on_drop",
        "_pending",
        "_pending_bytes",
        "_posted",
        "_queue",
        "_writing",
        "address",
        "closed",
        "delivered_bytes",
        "delivery",
        "frame_limit_bytes",
        "id",
        "is_link",
        "is_plain",
        "limits",
        "name",
        "outlet",
        "poster",
        "prefixes",
        "published_messages",
        "reported_messages",
        "reported_unreadable_messages",
        "unreadable_messages",
        "writable",
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
        # 0 until the core gives the handler a number, as it is attached.
        self.id = 0
        # What it gets, and who gets what it publishes. `restrict` and `take_shared` put another in its place.
        self.delivery = Delivery.of(role)
        # What `delivery` says, beside it because it is asked for with each batch.
        self.is_link = self.delivery.is_link
        self.is_plain = self.delivery.is_plain
        self.name = name
        self.address = address
        self.limits = limits
        self.outlet = outlet
        self.poster = poster
        self.frame_limit_bytes = frame_limit_bytes
        # Prefix → how often it was subscribed to. The core fills it, and empties it after the handler has left.
        self.prefixes: dict[str, int] = {}
        # True once the handler takes nothing more: `shut` and `close` set it, and nothing sets it back.
        self.closed = False
        # How many messages were taken from it; the core counts them.
        self.published_messages = 0
        self.delivered_bytes = 0
        # Of the dropped messages, those that had no form in what the far side reads.
        self.unreadable_messages = 0
        # Of these, how many `$hub/unreadable` has told; the core keeps the number.
        self.reported_unreadable_messages = 0
        # Of the dropped messages, how many `$hub/overflow` has told; the core keeps the number.
        self.reported_messages = 0
        # How many messages it was offered, without those that were thrown away with the connection.
        self._offered_messages = 0
        self._dropped_messages = 0
        # None while nothing waits: it is made with the first batch that cannot be written, and let go when it is empty
        # again.
        self._queue: BoundedQueue | None = None
        # Batches of this turn that the outlet has not been given yet; the end of the read or the turn empties it.
        self._pending: list[Batch] = []
        # How much is pending, bytes: batches, and what is posted among them.
        self._pending_bytes = 0
        # Requests and replies of this turn, each with the number of pending batches that go before it.
        self._posted: list[tuple[int, Item]] = []
        # None while no request or reply waits for the outlet to take bytes again.
        self._lane: Lane | None = None
        # False from `pause` to `resume`: the outlet takes no bytes.
        self.writable = True
        # True while the outlet takes bytes and nothing that waits has to go before what is offered. While False, offers
        # wait, too.
        self._direct = True
        # True while the outlet is being called: nothing else may be written before it returns, else it would overtake.
        self._writing = False
        # True from the first thing that is pending to the flush: the core is told once that there is something to
        # flush.
        self._dirty = False
        self._on_dirty: Callable[[Handler], None] = _ignore
        self._on_drop: Callable[[Handler], None] = _ignore
        self._memory = _UNBOUNDED

    def __repr__(self) -> str:
        return f"<Handler {self.id} {self.role.value} {self.name or self.address!r}>"

    def attach(
        self,
        number: int,
        on_dirty: Callable[[Handler], None],
        on_drop: Callable[[Handler], None],
        memory: QueueMemory | None = None,
    ) -> None:
        """Make the handler belong to a core from now on. `Core.attach` calls it."""
        self.id = number
        self._memory = memory or _UNBOUNDED
        self._on_dirty = on_dirty
        self._on_drop = on_drop

    def restrict(self, *, itself: bool = True, leaves: bool = True, hub: bool = True) -> None:
        """Say who does not get what this handler publishes, and what it does not get, from now on.

        Args:
            itself: Whether it gets that too, if it subscribes to it. A leaf does not, unless told otherwise.
            leaves: Whether leaves get it.
            hub: Whether a prefix that covers more than the hub's own topics brings it these, too.
        """
        self.delivery = self.delivery._replace(hears_itself=itself, hears_hub=hub, reaches_leaves=leaves)
        self.is_plain = self.delivery.is_plain

    def take_shared(self) -> None:
        """Let the far side have values in shared memory from now on; without this it gets them as bytes."""
        self.delivery = self.delivery._replace(takes_shared=True)

    @property
    def role(self) -> Role:
        """What stands behind it."""
        return self.delivery.role

    @property
    def dropped_messages(self) -> int:
        """How many of its messages were lost so far."""
        return self._dropped_messages + (self._queue.lost_messages if self._queue is not None else 0)

    @property
    def delivered_messages(self) -> int:
        """How many messages were written to it."""
        return self._offered_messages - self.dropped_messages - self.held_messages

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
        """Take a request or a reply: to be written at the end of the turn, or to wait until the outlet takes bytes.

        Args:
            item: Within `frame_limit_bytes`.
            keep: Take it even if there is no room for what waits.

        Returns:
            Whether it was taken. It is not where there is no room, the handler is closed, or nobody here can write it.
        """
        if item.flags & FLAG_SHARED and not self.delivery.takes_shared:
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
        """Write what a read or a turn brought, at its end, with one write."""
        self._dirty = False
        if (self._pending or self._posted) and not self._writing:  # as `write_pending`, with a call less for each read
            self._send_pending()
            if self._queue is not None or self._lane is not None:
                self._go_on()

    def write_pending(self) -> None:
        """Write what is pending. What is offered from within that write waits for the next flush."""
        if self._writing:
            return
        self._send_pending()
        if self._queue is not None or self._lane is not None:  # the outlet paused within the write, perhaps resumed
            self._go_on()

    def pause(self) -> None:
        """Queue from now on: the outlet takes no more bytes."""
        self.writable = self._direct = False

    def resume(self) -> None:
        """Hand the queue to the outlet, which takes bytes again, until it pauses again or all is written."""
        if self.closed:
            return
        self.writable = True
        if self._queue is None and self._lane is None:
            self._direct = True
        elif not self._writing:
            self._go_on()

    def _go_on(self) -> None:
        """Write what waits, after what the turn had brought before it, until the outlet pauses."""
        while self.writable and (self._queue is not None or self._lane is not None):
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
        """Write batches, and what was posted between them, in the order in which they came."""
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
        """Write the requests and replies that wait. What is posted from within goes behind them."""
        self._writing = True
        try:
            while lane and self.writable:
                items = lane.take(WRITE_LIMIT_BYTES)
                self.delivered_bytes += sum(item.size_bytes for item in items)
                cast("Poster", self.poster).post(items)
        finally:
            self._writing = False
        if lane is self._lane and not lane:
            self._lane = None
            self._direct = self.writable and self._queue is None

    def _write_queue(self) -> None:
        """Write the queue. What is offered from within goes behind it."""
        queue = self._queue
        self._writing = True
        try:
            while queue and self.writable:
                self._write_next(queue)
        finally:
            self._writing = False
        if queue is not None and queue is self._queue and not queue:
            self._dropped_messages += queue.lost_messages
            self._queue = None
            self._direct = self.writable and self._lane is None

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
        """Count messages that the outlet could not bring into what the far side reads, and tell it."""
        self._dropped_messages += messages
        self.unreadable_messages += messages
        self._on_drop(self)
        self.outlet.send_gap(messages)

    def close(self, code: int, text: str) -> None:
        """End the connection; what is pending or queued is thrown away."""
        if self.closed:
            return
        self.shut()
        self.outlet.close(code, text)

    def shut(self) -> None:
        """Take nothing more. It is called when the connection is gone."""
        self.closed = True
        self.writable = self._direct = False
        self._offered_messages -= self.held_messages
        self._dropped_messages = self.dropped_messages
        self._forget_waiting()
        self._pending = []
        self._posted = []
        self._pending_bytes = 0

    def sums(self) -> HandlerSums:
        """Return what is summed up over all handlers: it is made for thousands at once, most of which are idle."""
        queue, dropped = self._queue, self._dropped_messages
        if queue is None and self._lane is None and not self._pending:
            return HandlerSums(self._offered_messages - dropped, dropped, 0, 0)
        return HandlerSums(
            self.delivered_messages,
            self.dropped_messages,
            queue.messages if queue is not None else 0,
            self._waiting_bytes(),
        )

    def _waiting_bytes(self) -> int:
        """Return how much waits in the queue, and how much of requests and replies beside it."""
        return self.queued_bytes + (self._lane.size_bytes if self._lane is not None else 0)

    def statistics(self) -> HandlerStatistics:
        """Return what the handler has done, and what it holds now."""
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
            queued_bytes=self._waiting_bytes(),
            dropped_messages=self.dropped_messages,
            overflow=self.limits.overflow.value,
            paused=not self.writable,
        )

    @property
    def held_messages(self) -> int:
        """Return how many messages wait for the end of the turn or in the queue."""
        pending = sum(batch.messages for batch in self._pending)
        return pending + (self._queue.messages if self._queue is not None else 0)

    def _hold_item(self, item: Item, *, keep: bool) -> bool:
        """Let a request or a reply wait, if there is room."""
        if self.closed or self.poster is None:
            return False
        lane = self._lane or Lane(self.limits, self._memory.requests)
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
            queue = self._queue = BoundedQueue(self.limits, self._memory.batches)
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
        """Lose everything, also what the turn had brought before the queue, and close."""
        limits = self.limits
        self._lose_all(batch.messages, f"queue full ({limits.messages} messages, {limits.bytes} bytes)")

    def drop(self, surplus_bytes: int) -> int:
        """Drop so much of the queue by its policy, as there is too little memory; return how much that was."""
        queue = self._queue
        if queue is None or self._writing:
            return 0
        before = queue.size_bytes
        match self.limits.overflow:
            case Overflow.DROP_OLDEST:
                queue.drop_oldest(surplus_bytes)
            case Overflow.DROP_NEWEST:
                queue.drop_newest(surplus_bytes)
            case Overflow.DISCONNECT:
                self._lose_all(0, "the hub has too little memory for this queue")
                return before
        self._on_drop(self)
        return before - queue.size_bytes

    @property
    def queued_bytes(self) -> int:
        """Return how much waits in the queue of messages."""
        return self._queue.size_bytes if self._queue is not None else 0

    def _lose_all(self, more_messages: int, why: str) -> None:
        """Lose what waits and so many more messages, and close."""
        lost = self.held_messages + more_messages
        self._dropped_messages = self.dropped_messages + lost
        self._forget_queue()
        self._pending = []
        self._on_drop(self)
        # With the largest numbers this is still within the 123 bytes of a close.
        self.close(CloseCode.OVERFLOW, f"{why}, {lost} messages lost: read faster or choose a drop policy")

    def _forget_queue(self) -> None:
        """Let the queue go, with what is charged for it."""
        if self._queue is not None:
            self._queue.clear()
            self._queue = None

    def _forget_waiting(self) -> None:
        """Let go of everything that waits for the outlet."""
        self._forget_queue()
        if self._lane is not None:
            self._lane.clear()
            self._lane = None


def _ignore(_: Handler) -> None:
    """Stand in for the callbacks of a handler without a core."""
