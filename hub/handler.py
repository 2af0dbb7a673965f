"""`Handler`: a data sink of the core, with its prefixes, what it still has to get, and its counters.

Clients, links to peer hubs and subscribers in this process are all handlers. What differs is the outlet: the thin
object that turns batches into writes.

```
             outlet takes bytes?    yes                              no
offer(batch) ────────────────────▶ pending ──flush, once a turn──▶ outlet
post(item)                                                           ▲
                                     Waiting ──resume()──────────────┘      full? its overflow policy decides
```

Requests and replies (`post`) are written among the messages of the turn, in the order in which they came. What comes
while the outlet takes no bytes waits (`hub.waiting`): requests and replies are then written before the messages.

Owner: the core. Invariants: `offer` and `post` never wait and never raise; batches reach the outlet in the order
offered; a gap is told where the lost messages would have stood; what comes while the outlet does not take bytes is
bounded.

Cost: `offer` O(1). Memory: about 0.5 KiB a handler for which nothing waits.

Not here: the bytes (`peers.connections`), which batches come here (`hub.core`, `hub.delivery`), what it may do
(`hub.standing`), how what waits is written or lost (`hub.waiting`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, cast

from hub.batch import Batch
from hub.delivery import Delivery, Role
from hub.errors import CloseCode
from hub.frame import FLAG_SHARED
from hub.memory import Memory
from hub.origin import Origin, Way
from hub.outlet import Outlet, Poster, send_mixed
from hub.overflow import QueueLimits, overrun_text
from hub.policy.policy import Rights
from hub.quotas.quotas import FREE_BYTES, Share
from hub.quotas.resource import Resource
from hub.request_frame import Item, as_bytes
from hub.standing import Standing
from hub.statistics import HandlerStatistics, HandlerSums, Look
from hub.topics import RESERVED
from hub.waiting import LINK_WRITE_BYTES, WRITE_LIMIT_BYTES, Waiting, WaitingMemory, drop_waiting, hold, write_waiting

__all__ = ["ANY_FRAME_BYTES", "NEVER", "Handler"]

ANY_FRAME_BYTES = (1 << 32) - 1
"""The longest body that a header can tell: of a far side that has no limit of its own."""


_UNBOUNDED = WaitingMemory.of(Memory())
"""The accounts of handlers that belong to no core."""

NEVER = 1 << 62
"""More messages than anybody will ever publish."""


DEAR_WRITE_LIMIT_BYTES: Final = 4 * WRITE_LIMIT_BYTES
"""With how much pending it writes early to whom each byte is dear (`Handler.make_dear`): who waits for a later turn
may have more by then, and a write out of turn is what keeps others waiting."""


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
        rights: What it may do; None: everything.
    """

    __slots__ = (
        "_direct",
        "_dirty",
        "_dropped_messages",
        "_memory",
        "_offered_messages",
        "_on_dirty",
        "_on_drop",
        "_pending",
        "_pending_bytes",
        "_posted",
        "_rights",
        "_waiting",
        "_write_limit",
        "_writing",
        "accepted_at",
        "acts",
        "address",
        "closed",
        "delivered_bytes",
        "delivery",
        "frame_limit_bytes",
        "free_bytes",
        "has_rights",
        "id",
        "is_inner",
        "is_link",
        "is_peer",
        "is_plain",
        "is_unbound",
        "limits",
        "look_at",
        "looked_messages",
        "name",
        "narrows",
        "origin",
        "outlet",
        "portion_bytes",
        "poster",
        "prefixes",
        "published_messages",
        "publishes_in",
        "share",
        "unreadable_messages",
        "wanted_there",
        "way",
        "writable",
        "write_cost",
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
        rights: Rights | None = None,
    ) -> None:
        self.id = 0  # until the core gives the handler a number, as it is attached
        # What it gets, what it may do, and what follows: the parts of its `Standing`, each an attribute of the handler,
        # since they are asked for with each batch and request. `restrict`, `take_shared` and new rights change them.
        self._stand(Delivery.of(role), rights)
        self.is_link, self.is_peer = self.delivery.is_link, self.delivery.is_peer  # beside it for the same reason
        # Whether it is the link to another process of the same hub: what comes from there was counted there.
        self.is_inner = False
        self.name = name
        self.address = address
        self.limits = limits
        self.outlet = outlet
        self.poster = poster
        self.frame_limit_bytes = frame_limit_bytes
        # Whether it takes a subscription to more than it may see for one to what it may see of that. Peers do: they ask
        # for what their own subscribers want, and what is not for them is left out as they are given it.
        self.narrows = self.is_peer
        # What its user holds, over all his handlers; None for a handler without rights, whom nothing is charged to. The
        # core sets it as it attaches the handler.
        self.share: Share | None = None
        # Prefix → how often it was subscribed to. The core fills it, and empties it after the handler has left.
        self.prefixes: dict[str, int] = {}
        # Of a link of the mesh: what the hub at its other end wants, which stands for itself; None for all others.
        self.wanted_there: Collection[str] | None = None
        # As how many bytes one counts that it writes, for its share of a turn (`make_dear`).
        self.write_cost = 1
        # True once the handler takes nothing more: `shut` and `close` set it, and nothing sets it back.
        self.closed = False
        # Of a link: where what comes now has entered the mesh; None for a hub that does not say it, and for all others.
        self.origin: Origin | None = None
        # What decides by which links that goes on (`hub.origin.Way`), as of when it was last found to be taken from it.
        self.way: Way | None = None
        # The turnover of upstreams when this origin was last found to be taken from it; -1 before.
        self.accepted_at = -1
        self.published_messages = 0  # how many were taken from it; the core counts them
        # With which of these its topics are counted next (`hub.topic_rates`), and with which they were last.
        self.look_at = self.looked_messages = 0
        # Of the frames of messages, and the bodies of requests and replies, that the outlet was given.
        self.delivered_bytes = 0
        # Of the dropped messages, those that had no form in what the far side reads.
        self.unreadable_messages = 0
        # How many messages it was offered, without those that were thrown away with the connection.
        self._offered_messages = 0
        # How many messages were lost, without those of what waits now, which knows of its own.
        self._dropped_messages = 0
        # None while nothing waits: it is made with the first thing that cannot be written now, and let go when all of
        # it is written.
        self._waiting: Waiting | None = None
        # Batches of this turn that the outlet has not been given yet; the end of the read or the turn empties it.
        self._pending: list[Batch] = []
        # How much is pending, bytes: batches, and what is posted among them.
        self._pending_bytes = 0
        # How much it writes at once, bytes, without asking whether its user may hold so much more (`Share.free_bytes`).
        self.free_bytes = FREE_BYTES
        # With how much pending it writes early, bytes.
        self.portion_bytes = LINK_WRITE_BYTES if self.is_link else WRITE_LIMIT_BYTES
        self._write_limit = self.portion_bytes
        # Requests and replies of this turn, each with the number of pending batches that go before it.
        self._posted: list[tuple[int, Item]] = []
        # False from `pause` to `resume`: the outlet takes no bytes.
        self.writable = True
        # True while the outlet takes bytes and nothing that waits has to go before what is offered. While False, offers
        # wait, too.
        self._direct = True
        # True while the outlet is being called: nothing else may be written before it returns, else it would overtake.
        self._writing = False
        # True from the first thing that is pending to the flush, so that the core is told once that there is something:
        # while it is True the handler is in a list of the core, which may be the line for a later turn (`hub.writers`).
        self._dirty = False
        # What a core is told, and where it is charged; these stand-ins serve until `attach`.
        self._on_dirty: Callable[[Handler], None] = _ignore
        self._on_drop: Callable[[Handler], None] = _ignore
        self._memory = _UNBOUNDED

    def __repr__(self) -> str:
        return f"<Handler {self.id} {self.role.value} {self.name or self.address!r}>"

    def bring_from(self, origin: Origin) -> None:
        """Take note of where what a link brings from now on has entered the mesh."""
        self.origin = origin
        self.accepted_at = -1

    def attach(
        self,
        number: int,
        on_dirty: Callable[[Handler], None],
        on_drop: Callable[[Handler], None],
        memory: WaitingMemory | None = None,
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
        delivery = self.delivery._replace(hears_itself=itself, hears_hub=hub, reaches_leaves=leaves)
        self._stand(delivery, self._rights)

    def leave_out(self, *, left: bool) -> None:
        """Say whether it is a leaf that is left to another hub, so that nobody gets what it publishes, from now on."""
        self._stand(self.delivery._replace(is_left=left), self._rights)

    def take_shared(self) -> None:
        """Let the far side have values in shared memory from now on; without this it gets them as bytes."""
        self._stand(self.delivery._replace(takes_shared=True), self._rights)

    @property
    def role(self) -> Role:
        """What stands behind it."""
        return self.delivery.role

    # What it may do.

    @property
    def rights(self) -> Rights | None:
        """What it may do; None for everything, as in a hub without a policy, and for subscribers in this process.

        Once it is attached, `Authority.give_rights` gives it others, as routes depend on them.
        """
        return self._rights

    @rights.setter
    def rights(self, rights: Rights | None) -> None:
        self._stand(self.delivery, rights)

    def _stand(self, delivery: Delivery, rights: Rights | None) -> None:
        standing = Standing.of(delivery, rights)
        self.delivery, self._rights, self.acts, self.publishes_in = standing[:4]
        self.has_rights, self.is_plain, self.is_unbound = standing[4:]

    # What it has got, and has not.

    @property
    def is_meshed(self) -> bool:
        """Whether it is a link to a hub of the mesh."""
        return self.origin is not None

    @property
    def shown_prefixes(self) -> Collection[str]:
        """What people are shown as its prefixes."""
        return self.prefixes if self.wanted_there is None else self.wanted_there

    @property
    def dropped_messages(self) -> int:
        """How many of its messages were lost so far."""
        return self._dropped_messages + (self._waiting.lost_messages if self._waiting is not None else 0)

    @property
    def offered_messages(self) -> int:
        """How many messages it was offered: written, lost, or waiting."""
        return self._offered_messages

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
        self._pending_bytes += batch.frames_bytes
        if not self._dirty:
            self._dirty = True
            on_dirty = self._on_dirty  # what is called right where it is looked up in a slot is looked up the slow way
            on_dirty(self)
        if self._pending_bytes >= self._write_limit:
            self._write_early()

    def has_room_for(self, batch: Batch) -> bool:
        """Return whether a batch can be offered without anything being lost for it, that itself included."""
        size_bytes = batch.size_bytes
        if self.closed or size_bytes > self.frame_limit_bytes:
            return False
        if self._direct:
            return self.has_room(self._pending_bytes + size_bytes)
        waiting = self._new_waiting() if self._waiting is None else self._waiting
        return waiting.has_room_for(batch)

    def post(self, item: Item, *, keep: bool = False) -> bool:
        """Take a request or a reply: to be written at the end of the turn, or to wait until the outlet takes bytes.

        Args:
            item: A request or a reply.
            keep: Take it even if it is larger than the far side takes, or there is no room for what waits.

        Returns:
            Whether it was taken. It is not if it is larger than the far side takes (see `takes`), or where there is no
            room, the handler is closed, or nobody here can write it.
        """
        size_bytes = item.size_bytes
        if size_bytes > self.frame_limit_bytes and not keep:
            return False
        if item.flags & FLAG_SHARED and not self.delivery.takes_shared:
            plain = as_bytes(item)
            return plain is not None and self.post(plain, keep=keep)
        if not self._direct:
            return self._hold_item(item, keep=keep)
        if self.poster is None or not (keep or self.has_room(size_bytes)):
            return False
        self._posted.append((len(self._pending), item))
        self._pending_bytes += size_bytes
        if not self._dirty:
            self._dirty = True
            self._on_dirty(self)
        if self._pending_bytes >= self._write_limit:
            self._write_early()
        return True

    def takes(self, item: Item) -> bool:
        """Return whether a request or a reply is no larger than the far side takes."""
        return item.size_bytes <= self.frame_limit_bytes

    @property
    def pending_bytes(self) -> int:
        """How much is going to be written with the next flush; as more, where it costs more."""
        return self._pending_bytes * self.write_cost

    @property
    def can_wait(self) -> bool:
        """Whether that may be in a later turn: others stand behind links and leaves; the journal is asked at once.

        Who costs much for each byte waits in any case: others wait longer if he does not.
        """
        return self.delivery.role is Role.CLIENT or self.write_cost > 1

    def make_dear(self, write_cost: int) -> None:
        """Count each byte that it writes as so many; before the core has it."""
        self.write_cost = write_cost
        self._write_limit = self.portion_bytes if write_cost == 1 or self.is_link else DEAR_WRITE_LIMIT_BYTES

    def flush(self) -> None:
        """Write what a read or a turn brought, at its end, with one write. The core calls it, and nobody else does."""
        self._dirty = False
        if self._pending_bytes > self.free_bytes and self.share is not None:
            self._write_early()
        elif (self._pending or self._posted) and not self._writing:  # as `write_pending`, with a call less for a read
            self._send_pending()
            if self._waiting is not None:
                self._go_on()

    def write_pending(self) -> None:
        """Write what is pending. What is offered from within that write waits for the next flush."""
        if self._writing:
            return
        if self._pending or self._posted:
            self._send_pending()
        if self._waiting is not None:  # the outlet paused within the write, perhaps resumed
            self._go_on()

    def has_room(self, size_bytes: int) -> bool:
        """Tell whether so much may be written now: it is little, or its user may hold so much more."""
        share = self.share
        return share is None or size_bytes <= self.free_bytes or share[Resource.QUEUED_BYTES].fits(size_bytes)

    def _write_early(self) -> None:
        """Write what is pending as far as its user may hold more; the rest goes by the overflow policy."""
        if self._writing:
            return
        if self.has_room(self._pending_bytes) or self._waiting is not None:
            self.write_pending()
        else:
            self._write_pieces()

    def _write_pieces(self) -> None:
        """Write what is pending in little pieces, which need no room; what is larger alone goes by the policy."""
        pending, self._pending = self._pending, []
        posted, self._posted = self._posted, []
        self._pending_bytes = 0
        for _, item in posted:
            self._hold_item(item, keep=True)
        self._go_on()
        for batch in pending:
            self._offered_messages -= batch.messages  # they are counted again, piece by piece
            rest: Batch | None = batch
            while rest is not None:
                piece, rest = rest, None
                if piece.size_bytes > self.free_bytes:
                    piece, rest = piece.split(piece.messages_within(piece.messages, self.free_bytes) or 1)
                self._write_piece(piece)

    def _write_piece(self, piece: Batch) -> None:
        if self.closed or not self.writable or self._waiting is not None or not self.has_room(piece.size_bytes):
            self._hold(piece)
        else:
            self._offered_messages += piece.messages
            self._pending.append(piece)
            self._pending_bytes += piece.size_bytes
            self._send_pending()
        self._go_on()

    def pause(self) -> None:
        """Queue from now on: the outlet takes no more bytes."""
        self.writable = self._direct = False

    def resume(self) -> None:
        """Hand the queue to the outlet, which takes bytes again, until it pauses again or all is written."""
        if self.closed:
            return
        self.writable = True
        if self._waiting is None:
            self._direct = True
        elif not self._writing:
            self._go_on()

    def _go_on(self) -> None:
        """Write what waits, after what the turn had brought before it, until the outlet pauses."""
        while self.writable and self._waiting is not None:
            if self._pending or self._posted:
                self._send_pending()
            else:
                self._write_waiting(self._waiting)

    def _send_pending(self) -> None:
        pending, self._pending = self._pending, []
        self.delivered_bytes += self._pending_bytes
        self._pending_bytes = 0
        self._writing = True
        try:
            if self._posted:
                posted, self._posted = self._posted, []
                send_mixed(self.outlet, cast("Poster", self.poster), pending, posted)
            else:
                self.outlet.send(pending)
        finally:
            self._writing = False

    def _write_waiting(self, waiting: Waiting) -> None:
        """Write what waits. What comes from within goes behind it."""
        self._writing = True
        try:
            write_waiting(self, waiting)
        finally:
            self._writing = False
        if waiting is self._waiting and not waiting:  # it is another one where the outlet has closed the handler
            self._dropped_messages += waiting.lost_messages
            self._waiting = None
            self._direct = self.writable

    def lose(self, messages: int) -> None:
        """Count messages that the outlet could not bring into what the far side reads, and tell it."""
        self._dropped_messages += messages
        self.unreadable_messages += messages
        self._on_drop(self)
        self.outlet.send_gap(messages)

    def tell_gap(self, messages: int) -> None:
        """Tell the far side of messages that were lost before they came here; they are not counted as dropped here.

        It is told behind all that it was offered; where the oldest of what waits go first, before that.
        """
        if self.closed or self._writing:
            return
        if self._waiting is None and self.writable:
            self.write_pending()
            self.outlet.send_gap(messages)
            return
        if self._waiting is None:
            self._waiting = self._new_waiting()
        self._waiting.add_gap(messages)

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
        waiting, dropped = self._waiting, self._dropped_messages
        if waiting is None and not self._pending:
            return HandlerSums(self._offered_messages - dropped, dropped, 0, 0)
        return HandlerSums(self.delivered_messages, self.dropped_messages, self.queued_messages, self.queued_bytes)

    def add_to(self, look: Look) -> None:
        """Add what it has done, and what it holds, to a look at thousands; it costs a third of what `sums` does."""
        look.published_messages += self.published_messages
        look.delivered_bytes += self.delivered_bytes
        look.delivered_messages += self._offered_messages - self._dropped_messages
        look.dropped_messages += self._dropped_messages
        if any(not prefix.startswith(RESERVED) for prefix in self.prefixes):  # those that only watch the hub are none
            look.subscribers += 1
        if (waiting := self._waiting) is not None:
            look.wait(self.id, waiting.messages, waiting.size_bytes, waiting.lost_messages)

    def statistics(self) -> HandlerStatistics:
        """Return what the handler has done, and what it holds now."""
        return HandlerStatistics.of(self)

    @property
    def held_messages(self) -> int:
        """Return how many messages wait for the end of the turn, or until the outlet takes bytes again."""
        pending = sum(batch.messages for batch in self._pending)
        return pending + self.queued_messages

    @property
    def queued_messages(self) -> int:
        """How many messages wait until the outlet takes bytes again."""
        return self._waiting.messages if self._waiting is not None else 0

    @property
    def queued_bytes(self) -> int:
        """How much waits until then: messages, requests and replies."""
        return self._waiting.size_bytes if self._waiting is not None else 0

    @property
    def droppable_bytes(self) -> int:
        """Return how much memory can be freed by dropping messages that wait."""
        return self._waiting.messages_bytes if self._waiting is not None else 0

    def _hold_item(self, item: Item, *, keep: bool) -> bool:
        """Let a request or a reply wait, if there is room."""
        if self.closed or self.poster is None:
            return False
        waiting = self._waiting
        if waiting is None:
            waiting = self._new_waiting()
        if not waiting.post(item, keep=keep):
            return False
        self._waiting = waiting
        return True

    def _hold(self, batch: Batch) -> None:
        """Let a batch wait, or do what the policy says."""
        if self.closed:
            return
        self._offered_messages += batch.messages
        waiting = self._waiting
        if waiting is None:
            waiting = self._waiting = self._new_waiting()
        hold(self, waiting, batch)

    def _new_waiting(self) -> Waiting:
        return Waiting(self.limits, self._memory, None if self.share is None else self.share[Resource.QUEUED_BYTES])

    def drop(self, surplus_bytes: int) -> int:
        """Drop so much of what waits by its policy, as there is too little memory; return how much that was."""
        waiting = self._waiting
        return 0 if waiting is None or self._writing else drop_waiting(self, waiting, surplus_bytes)

    def has_dropped(self) -> None:
        """Some of what waits was dropped: the core tells of it."""
        self._on_drop(self)

    def lose_all(self, more_messages: int, why: str) -> None:
        """Lose all that is not written yet, and so many more messages, and close."""
        lost = self.held_messages + more_messages
        self._dropped_messages = self.dropped_messages + lost
        self._forget_waiting()
        self._pending = []
        self._on_drop(self)
        self.close(CloseCode.OVERFLOW, overrun_text(why, lost))

    def _forget_waiting(self) -> None:
        """Let go of everything that waits for the outlet, with what is charged for it."""
        if self._waiting is not None:
            self._waiting.clear()
            self._waiting = None


def _ignore(_: Handler) -> None:
    """Stand in for the callbacks of a handler without a core."""
