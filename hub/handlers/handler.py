"""`Handler`: a data sink of the core, with its prefixes, its pending and queued messages, and its counters.

Clients, links to peer hubs and subscribers in this process are all handlers. They differ in the outlet: the thin
object that turns batches into writes.

```
             outlet takes bytes?    yes                              no
offer(batch) ────────────────────▶ pending ──flush, once a turn──▶ outlet
post(item)                                                           ▲
                                     Waiting ──resume()──────────────┘      full? its overflow policy decides
```

`offer` and `post` never wait and never raise. Batches reach the outlet in the order offered, requests and replies among
them; a gap is reported at the place of the lost messages. While the outlet takes no bytes, items wait in bounded queues
(`hub.handlers.waiting`): requests and replies are then written before the messages. An idle handler takes 0.5 KiB.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol, cast

from hub.errors import CloseCode
from hub.handlers.counters import HandlerStatistics, Look
from hub.handlers.delivery import Delivery, Role
from hub.handlers.waiting import LINK_WRITE_BYTES, WRITE_LIMIT_BYTES, Waiting, WaitingMemory
from hub.limits import Overflow, QueueLimits, overrun_text
from hub.messages.batch import Batch
from hub.messages.frame import FLAG_SHARED, Origin
from hub.messages.request_frame import Item, as_bytes
from hub.policy.policy import Action, Rights, check_prefixes_granted
from hub.quotas import FREE_BYTES, Resource, Share
from hub.scheduling.memory import Memory
from hub.topics import RESERVED

ANY_FRAME_BYTES = (1 << 32) - 1  # The longest body that a header can express: the default of a far side without a limit

NEVER = 1 << 62  # More messages than will ever be published

_UNBOUNDED = WaitingMemory.of(Memory())  # The accounts of handlers that belong to no core

DEAR_WRITE_LIMIT_BYTES: Final = 4 * WRITE_LIMIT_BYTES
"""With how much pending a dear handler writes early (`Handler.make_dear`): one that waits for a later turn may have
more by then, and a write out of turn delays all others."""


class Outlet(Protocol):
    """Where a handler writes. It may call `Handler.pause` and `Handler.resume` at any time, also from within."""

    def send(self, batches: list[Batch]) -> None:
        """Write the batches with one write, or buffer them; never wait, never raise."""

    def send_gap(self, lost_messages: int) -> None:
        """Send the far side a gap: the number of messages lost at this point."""

    def close(self, code: int, text: str) -> None:
        """Send the far side the reason, then end the connection; leads to `Core.detach`."""


class Poster(Protocol):
    """The part of an outlet that writes requests and replies. A handler without one neither asks nor serves."""

    def post(self, items: list[Item]) -> None:
        """Write them with one write, or buffer them; never wait, never raise."""


class Acts(NamedTuple):
    """The permissions a handler needs: in its own name, or for the clients behind a peer."""

    publishing: Action
    requesting: Action
    serving: Action
    seeing: Action


_OWN = Acts(Action.PUBLISH, Action.REQUEST, Action.SERVE, Action.SUBSCRIBE)
_OF_OTHERS = Acts(Action.BRING, Action.BRING, Action.TAKE, Action.TAKE)


_NOWHERE = Origin(b"", 0)


class Handler:
    """One data sink."""

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

    def __init__(  # noqa: PLR0913 -- all that is known of a far side
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
        self.id = 0  # until it is attached
        # The next call sets delivery, rights and the flags that follow from both: each is an attribute, since it is
        # asked for with each batch and request.
        self._stand(Delivery.of(role), rights)
        self.is_link, self.is_peer = self.delivery.is_link, self.delivery.is_peer
        # Whether it is the link to another process of the same hub: its messages were counted there.
        self.is_inner = False
        self.name = name
        self.address = address
        self.limits = limits
        self.outlet = outlet
        self.poster = poster
        self.frame_limit_bytes = frame_limit_bytes
        # Whether a subscription to more than it may see is cut to the permitted part: peers ask for others.
        self.narrows = self.is_peer
        # Usage of its user; None for a handler without rights. The core sets it as it attaches the handler.
        self.share: Share | None = None
        # Prefix → how often it was subscribed to. The core fills it, and empties it after the handler has left.
        self.prefixes: dict[str, int] = {}
        # Of a link: returns the prefixes that the hub at its other end wants.
        self.wanted_there: Callable[[], Collection[str]] | None = None
        # As how many bytes one counts that it writes, for its share of a turn (`make_dear`).
        self.write_cost = 1
        self.closed = False
        # Of a link: where its current messages entered the mesh, and the id of that hub; and the turnover of upstreams
        # when this origin was last found to be taken from it, -1 before.
        self.origin = _NOWHERE
        self.way = b""
        self.accepted_at = -1
        self.published_messages = 0
        # With which of these its topics are counted next (`hub.statistics.topic_rates`), and with which they were last.
        self.look_at = self.looked_messages = 0
        # Of the frames of messages, and the bodies of requests and replies, that the outlet was given.
        self.delivered_bytes = 0
        # Of the dropped messages, those that the far side's encoding cannot express.
        self.unreadable_messages = 0
        # Without those that were thrown away with the connection.
        self._offered_messages = 0
        # Without those of `_waiting`, which counts its own.
        self._dropped_messages = 0
        # None while nothing waits.
        self._waiting: Waiting | None = None
        # Batches of this turn that the outlet has not been given yet, and their bytes with those of `_posted`.
        self._pending: list[Batch] = []
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
        # True while the outlet takes bytes and no queued item has to go first.
        self._direct = True
        # True while the outlet is being called: nothing else may be written before it returns, else it would overtake.
        self._writing = False
        # True from the first thing that is pending to the flush: `Core.offered` has it.
        self._dirty = False
        self._on_dirty: Callable[[Handler], None] = _ignore
        self._on_drop: Callable[[Handler], None] = _ignore
        self._memory = _UNBOUNDED

    def __repr__(self) -> str:
        return f"<Handler {self.id} {self.role.value} {self.name or self.address!r}>"

    def bring_from(self, origin: Origin) -> None:
        """Note where the messages that a link brings from now on have entered the mesh."""
        self.origin, self.way = origin, origin.hub
        self.accepted_at = -1

    def attach(
        self,
        number: int,
        on_dirty: Callable[[Handler], None],
        on_drop: Callable[[Handler], None],
        memory: WaitingMemory | None = None,
    ) -> None:
        """Belong to a core from now on. `Core.attach` calls it."""
        self.id = number
        self._memory = memory or _UNBOUNDED
        self._on_dirty = on_dirty
        self._on_drop = on_drop

    def restrict(self, *, itself: bool = True, leaves: bool = True, hub: bool = True) -> None:
        """Set which handlers receive its messages, and which it receives.

        Args:
            itself: Whether it gets that too, if it subscribes to it. A leaf does not by default.
            leaves: Whether leaves get it.
            hub: Whether a prefix that covers more than the hub's own topics brings it these, too.
        """
        delivery = self.delivery._replace(hears_itself=itself, hears_hub=hub, reaches_leaves=leaves)
        self._stand(delivery, self._rights)

    def leave_out(self, *, left: bool) -> None:
        """Set whether it is a leaf that is left to another hub, so that its messages are dropped."""
        self._stand(self.delivery._replace(is_left=left), self._rights)

    def take_shared(self) -> None:
        """Pass values in shared memory on to the far side from now on; without this it gets them as bytes."""
        self._stand(self.delivery._replace(takes_shared=True), self._rights)

    @property
    def role(self) -> Role:
        return self.delivery.role

    # Rights.

    @property
    def rights(self) -> Rights | None:
        """Its permissions; None for all, as in a hub without a policy, and for subscribers in this process.

        Once it is attached, `Authority.give_rights` changes them, as routes depend on them.
        """
        return self._rights

    @rights.setter
    def rights(self, rights: Rights | None) -> None:
        self._stand(self.delivery, rights)

    def _stand(self, delivery: Delivery, rights: Rights | None) -> None:
        self.acts = _OF_OTHERS if delivery.is_peer else _OWN
        # Domains in which it may publish, as far as they were asked for; None: in all.
        self.publishes_in = None if rights is None else rights.brings_in if delivery.is_peer else rights.publishes_in
        if delivery.takes_shared:
            delivery = delivery._replace(takes_blocks=rights is None or rights.may_all(self.acts.seeing, ""))
        self.delivery, self._rights, self.has_rights = delivery, rights, rights is not None
        self.is_plain = delivery.is_plain
        # Whether its messages need no check: it has no rights, and all matching handlers receive them.
        self.is_unbound = self.is_plain and rights is None

    def check_may_see(self, prefix: str) -> None:
        """Check that it may see every topic with a prefix, unless it `narrows`.

        Raises:
            RejectedError: It may not.
        """
        if self._rights is not None and not self.narrows:
            check_prefixes_granted(self._rights, self.acts.seeing, [prefix])

    # Delivery.

    @property
    def shown_prefixes(self) -> Collection[str]:
        return self.prefixes if self.wanted_there is None else self.wanted_there()

    @property
    def dropped_messages(self) -> int:
        return self._dropped_messages + (self._waiting.lost_messages if self._waiting is not None else 0)

    @property
    def offered_messages(self) -> int:
        """How many messages it was offered: written, lost, or waiting."""
        return self._offered_messages

    @property
    def delivered_messages(self) -> int:
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
            on_dirty = self._on_dirty  # calling a slot directly takes the slow lookup
            on_dirty(self)
        if self._pending_bytes >= self._write_limit:
            self._write_early()

    def post(self, item: Item, *, keep: bool = False) -> bool:
        """Take a request or a reply: to be written at the end of the turn, or to wait until the outlet takes bytes.

        Args:
            item: A request or a reply.
            keep: Take it even if it is larger than the far side takes, or the queue is full.

        Returns:
            Whether it was taken. It is not if it is larger than the far side takes (see `takes`), or where there is no
            room, the handler is closed, or has no poster.
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
        """How much is going to be written with the next flush, times `write_cost`."""
        return self._pending_bytes * self.write_cost

    @property
    def can_wait(self) -> bool:
        """Whether that may be in a later turn: others stand behind links and leaves; the journal is asked at once.

        A dear handler waits in any case: others wait longer if it does not.
        """
        return self.delivery.role is Role.CLIENT or self.write_cost > 1

    def make_dear(self, write_cost: int) -> None:
        """Count each byte that it writes as so many; before it is attached."""
        self.write_cost = write_cost
        self._write_limit = self.portion_bytes if write_cost == 1 or self.is_link else DEAR_WRITE_LIMIT_BYTES

    def flush(self) -> None:
        """Write all that is pending at the end of a read or a turn, with one write. Only the core calls it."""
        self._dirty = False
        if self._pending_bytes > self.free_bytes and self.share is not None:
            self._write_early()
        elif (self._pending or self._posted) and not self._writing:  # as `write_pending`, with a call less for a read
            self._send_pending()
            if self._waiting is not None:
                self._go_on()

    def write_pending(self) -> None:
        """Write all that is pending. Batches offered from within that write wait for the next flush."""
        if self._writing:
            return
        if self._pending or self._posted:
            self._send_pending()
        if self._waiting is not None:  # the outlet paused within the write, perhaps resumed
            self._go_on()

    def has_room(self, size_bytes: int) -> bool:
        """Return whether so much may be written now: it is little, or its user may hold so much more."""
        share = self.share
        return share is None or size_bytes <= self.free_bytes or share[Resource.QUEUED_BYTES].fits(size_bytes)

    def _write_early(self) -> None:
        """Write pending items as far as its user may hold more; the rest goes by the overflow policy."""
        if self._writing:
            return
        if self.has_room(self._pending_bytes) or self._waiting is not None:
            self.write_pending()
        else:
            self._write_pieces()

    def _write_pieces(self) -> None:
        """Write pending items in little pieces, which need no room; a larger one goes by the policy."""
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
        """Write queued items, after those of this turn, until the outlet pauses."""
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
                self._send_mixed(pending)
            else:
                self.outlet.send(pending)
        finally:
            self._writing = False

    def _send_mixed(self, batches: list[Batch]) -> None:
        posted, self._posted = self._posted, []
        poster = cast("Poster", self.poster)
        items: list[Item] = []
        start = 0
        for place, item in posted:
            if place > start:
                if items:
                    poster.post(items)
                    items = []
                self.outlet.send(batches[start:place])
                start = place
            items.append(item)
        poster.post(items)
        if start < len(batches):
            self.outlet.send(batches[start:])

    def _write_waiting(self, waiting: Waiting) -> None:
        self._writing = True
        try:
            while waiting and self.writable:
                self._write_next(waiting)
        finally:
            self._writing = False
        if waiting is self._waiting and not waiting:  # it is another one where the outlet has closed the handler
            self._dropped_messages += waiting.lost_messages
            self._waiting = None
            self._direct = self.writable

    def _write_next(self, waiting: Waiting) -> None:
        items = waiting.take_items(self.portion_bytes)
        if items:
            self.delivered_bytes += sum(item.size_bytes for item in items)
            cast("Poster", self.poster).post(items)
            return
        before = waiting.lost_messages
        gap = waiting.take_gap()
        if waiting.lost_messages > before:  # the rest of a BATCH that could not be cut
            self._on_drop(self)
        if gap:
            self.outlet.send_gap(gap)
            return
        batches = waiting.take_batches(self.portion_bytes)
        if batches:
            self.delivered_bytes += sum(batch.frames_bytes for batch in batches)
            self.outlet.send(batches)

    def lose(self, messages: int) -> None:
        """Count messages that the outlet could not encode for the far side, and send a gap."""
        self._dropped_messages += messages
        self.unreadable_messages += messages
        self._on_drop(self)
        self.outlet.send_gap(messages)

    def tell_gap(self, messages: int) -> None:
        """Send a gap of messages that were lost before they came here; they are not counted as dropped here.

        It is behind all that was offered; where the oldest are dropped first, before that.
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
        """End the connection; pending and queued items are discarded."""
        if self.closed:
            return
        self.shut()
        self.outlet.close(code, text)

    def shut(self) -> None:
        """Take nothing more, as the connection is gone."""
        self.closed = True
        self.writable = self._direct = False
        self._offered_messages -= self.held_messages
        self._dropped_messages = self.dropped_messages
        self._forget_waiting()
        self._pending = []
        self._posted = []
        self._pending_bytes = 0

    def add_to(self, look: Look) -> None:
        """Add its counters and its queue to a sum over thousands of handlers."""
        look.published_messages += self.published_messages
        look.delivered_bytes += self.delivered_bytes
        look.delivered_messages += self._offered_messages - self._dropped_messages
        look.dropped_messages += self._dropped_messages
        if any(not prefix.startswith(RESERVED) for prefix in self.prefixes):  # those that only watch the hub are none
            look.subscribers += 1
        if (waiting := self._waiting) is not None:
            look.wait(self.id, waiting.messages, waiting.size_bytes, waiting.lost_messages)

    def statistics(self) -> HandlerStatistics:
        return HandlerStatistics.of(self)

    @property
    def held_messages(self) -> int:
        """How many messages wait for the end of the turn, or until the outlet takes bytes again."""
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
        """How much memory can be freed by dropping messages that wait."""
        return self._waiting.messages_bytes if self._waiting is not None else 0

    def _hold_item(self, item: Item, *, keep: bool) -> bool:
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
        if self.closed:
            return
        self._offered_messages += batch.messages
        waiting = self._waiting
        if waiting is None:
            waiting = self._waiting = self._new_waiting()
        if waiting.hold(batch):
            return
        if self.limits.overflow is Overflow.DISCONNECT:
            self._lose_all(batch.messages, waiting.why_full(batch))
        else:
            self._on_drop(self)

    def _new_waiting(self) -> Waiting:
        return Waiting(self.limits, self._memory, None if self.share is None else self.share[Resource.QUEUED_BYTES])

    def drop(self, surplus_bytes: int) -> int:
        """Drop queued messages by its policy, as memory is short; return how many bytes that was."""
        waiting = self._waiting
        before = 0 if waiting is None or self._writing else waiting.messages_bytes
        if waiting is None or not before:
            return 0
        if self.limits.overflow is Overflow.DISCONNECT:
            self._lose_all(0, "the hub has too little memory for this queue")
            return before
        waiting.drop(surplus_bytes)
        self._on_drop(self)
        return before - waiting.messages_bytes

    def _lose_all(self, more_messages: int, why: str) -> None:
        lost = self.held_messages + more_messages
        self._dropped_messages = self.dropped_messages + lost
        self._forget_waiting()
        self._pending = []
        self._on_drop(self)
        self.close(CloseCode.OVERFLOW, overrun_text(why, lost))

    def _forget_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.clear()
            self._waiting = None


def _ignore(_: Handler) -> None: ...
