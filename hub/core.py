"""`Core`: the one owner of routing. It knows every handler, looks each message up once and offers it.

```
what a socket brought ─▶ routes (one dict hit each) ─▶ one offer a handler ─┐
                                                                       ▼
                                         dirty handlers ─▶ end_read(): each writes once
```

Owner: one event loop (or one test). Everything here is plain and synchronous; nothing waits. Other threads reach the
core through its shell's mailbox (`peers.local`). The order is fixed: take what a socket brought, route it, then write
out each dirty handler once (`begin_read` ... `end_read`). What is offered outside of a read is written at the end of
the turn, which the shell is asked for through `wake`.

Cost: publishing costs the handlers that match. Subscribing, unsubscribing and losing a handler cost what they touch.

Not here: sockets, the wire (`peers`), wall clock: what happens once a second is called from outside (`report_drops`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import Any

from hub.batch import Batch
from hub.counted import check_limit, give_back, take
from hub.errors import CloseCode, ClosedError, RejectedError
from hub.events import Event, client_joined, client_left, name_event, overflow, peer_joined, peer_left
from hub.filter import Change, Filter
from hub.frame import FLAG_TAGGED
from hub.handler import Handler, HandlerStatistics, Role
from hub.labels import check_labels
from hub.metrics import CoreStatistics, Counters, RoutingStatistics
from hub.multimap import PrefixMultimap
from hub.names.names import NameLimits, Names
from hub.requests.limits import RequestLimits
from hub.requests.requests import Requests
from hub.routes import ROUTES_LIMIT, ROUTES_LIMIT_BYTES, Route, Routes
from hub.stretch import Stretch
from hub.tags.envelope import Envelope
from hub.tags.rule import Rule
from hub.tags.subscriptions import RULES_LIMIT, RuleSubscriptions
from hub.topics import RESERVED, check_prefix, check_topic, printable

__all__ = ["Core"]

PREFIXES_LIMIT = 1_000
"""Default of most different prefixes of one client. Subscribing to so many in one frame takes about 15 ms."""

_LEAVING_PREFIXES_PER_TURN = 1_000
"""How many subscriptions of handlers that have left are removed in one turn, so that losing a peer hub with 100,000
prefixes does not block the loop for a second. Until then the handler stands in routes and takes nothing."""


OnRefused = Callable[[RejectedError, int], object]
"""Tells a handler that so many of its messages were refused."""

_all_handlers: Callable[[Route], tuple[Handler, ...]] = attrgetter("handlers")


def _receivers(source: Handler, route: Route) -> tuple[Handler, ...]:
    """Who gets what `source` publishes, where that is not everybody who wants it."""
    if source.is_link:
        return route.near
    return tuple(
        handler
        for handler in route.handlers
        if (handler is not source or source.hears_itself) and (source.reaches_leaves or handler.role is not Role.LEAF)
    )


def _no_clock(_: int) -> None:
    """Stand in for a clock: nothing is timed out."""


class Core:
    """Handlers, their subscriptions, and the way from a topic to them.

    Args:
        wake: Called when a turn has something to write; must lead to `flush` before the loop waits for I/O again.
        routes_limit: Most routing keys remembered.
        routes_limit_bytes: Most memory that they take.
        prefixes_limit: Most different prefixes of one client.
        rules_limit: Most different rules of one client.
        asked_of_leaves: Prefixes that leaves are asked for even if nobody here subscribes to them.
        requests: How many requests may be pending, and for how long.
        wake_at: Called with a time, ms of a monotonic clock, at which `requests.expire` is to be called; a later call
            takes the place of an earlier one.
        hub_id: Of this hub, for what peers must tell apart.
        name_limits: How many service names there may be.
    """

    def __init__(  # noqa: PLR0913 -- most of them are limits
        self,
        wake: Callable[[], object],
        *,
        routes_limit: int = ROUTES_LIMIT,
        routes_limit_bytes: int = ROUTES_LIMIT_BYTES,
        prefixes_limit: int = PREFIXES_LIMIT,
        rules_limit: int = RULES_LIMIT,
        asked_of_leaves: Iterable[str] = (),
        requests: RequestLimits | None = None,
        wake_at: Callable[[int], object] = _no_clock,
        hub_id: bytes = b"",
        name_limits: NameLimits | None = None,
    ) -> None:
        self._wake = wake
        self._asked_of_leaves = tuple(check_prefix(prefix) for prefix in asked_of_leaves)
        self._prefixes_limit = prefixes_limit
        self._multimap: PrefixMultimap[Handler] = PrefixMultimap()
        self._filter = Filter()  # what links are told: prefixes of all but links
        self._links: dict[Handler, Callable[[Change], None]] = {}
        self._leaf_filter: Filter | None = (
            None  # what leaves are told: prefixes of all but leaves; once it is asked for
        )
        self._leaves: dict[Handler, Callable[[Change], None]] = {}
        self._dirty: list[Handler] = []
        self._write_is_due = False  # somebody is going to, and need not be woken for it
        self._dropping: dict[Handler, None] = {}  # handlers that lost messages since the last report
        self._leaving: deque[Handler] = deque()  # gone, but not yet out of the multimap
        self._last_id = 0
        self.handlers: dict[int, Handler] = {}
        self.on_refused: dict[Handler, OnRefused] = {}  # of those that can be told
        self.counters = Counters()
        self.requests = Requests(wake, wake_at, requests or RequestLimits(), prefixes_limit)
        self.names = Names(hub_id, lambda what, claim: self.announce(name_event(what, claim)), wake, name_limits)
        self.rules = RuleSubscriptions(lambda rule: self.routes.forget_rule(rule), rules_limit)  # noqa: PLW0108
        self.routes = Routes(
            self._multimap,
            routes_limit,
            limit_bytes=routes_limit_bytes,
            rules=self.rules.index,
            owner_of=self.names.owner,
        )
        self.names.on_change.append(self.routes.forget_name)
        self.requests.owner_of = self.names.owner_of
        self.requests.own[RESERVED + "names"] = self.names.answer

    # Handlers come and go.

    def attach(self, handler: Handler, on_filter: Callable[[Change], None] | None = None) -> None:
        """Take a handler in and announce it.

        Args:
            handler: New, without prefixes.
            on_filter: For links and leaves: called now with what this hub wants, and later with each change of it.
        """
        self._last_id += 1
        handler.attach(self._last_id, self._mark_dirty, self._mark_dropping)
        self.handlers[handler.id] = handler
        if on_filter is not None:
            if handler.is_link:
                self._links[handler] = on_filter
                on_filter(Change(self.minimal_filter))
            else:
                self._leaves[handler] = on_filter
                on_filter(Change(self.minimal_filter_for_leaves))
        if handler.role is not Role.LOCAL:
            self.announce((client_joined if handler.role is Role.CLIENT else peer_joined)(handler))

    def detach(self, handler: Handler, reason: str) -> None:
        """Let a handler go, with all its subscriptions, and announce that. Harmless when it is gone already."""
        if self.handlers.pop(handler.id, None) is None:
            return
        handler.shut()
        self.requests.forget(handler)
        self._links.pop(handler, None)
        self._leaves.pop(handler, None)
        self.on_refused.pop(handler, None)
        self._leaving.append(handler)
        self._remove_leaving()
        self.names.forget(handler)
        self.counters.forget(handler)
        if handler.role is not Role.LOCAL:
            self.announce((client_left if handler.role is Role.CLIENT else peer_left)(handler, reason))

    def _remove_leaving(self) -> None:
        """Take a turn's share of subscriptions out that belong to handlers that have left."""
        budget = _LEAVING_PREFIXES_PER_TURN
        while self._leaving:
            handler = self._leaving[0]
            while handler.prefixes:
                if not budget:
                    self._wake()
                    return
                prefix, _ = handler.prefixes.popitem()
                self._remove(handler, prefix)
                budget -= 1
            budget -= self.rules.forget(handler, budget)
            if not budget:
                self._wake()
                return
            self._leaving.popleft()

    # Subscriptions.

    def subscribe(self, handler: Handler, prefixes: Iterable[str]) -> None:
        """Subscribe `handler` to each prefix, all or none. Counted: the same prefix twice must be taken back twice.

        Raises:
            ClosedError: The handler is not attached.
            InvalidTopicError: One of them is no prefix.
            RejectedError: The handler would have too many.
        """
        if handler.id not in self.handlers:
            raise ClosedError("the handler is not attached to this hub")
        wanted = [check_prefix(prefix) for prefix in prefixes]
        held = handler.prefixes
        if handler.role is Role.CLIENT:
            check_limit(held, wanted, self._prefixes_limit, "prefixes")
        for prefix in take(held, wanted):
            self._add(handler, prefix)

    def unsubscribe(self, handler: Handler, prefixes: Iterable[str]) -> None:
        """Take back one subscription for each prefix; those that the handler does not have are passed over."""
        for prefix in give_back(handler.prefixes, prefixes):
            self._remove(handler, prefix)

    def subscribe_rules(self, handler: Handler, rules: Iterable[Rule]) -> None:
        """Subscribe `handler` to each rule, all or none; counted, as prefixes are.

        Args:
            handler: Which.
            rules: Checked ones (`hub.tags.rule.check_rule`).

        Raises:
            ClosedError: The handler is not attached.
            RejectedError: The handler would have too many.
        """
        if handler.id not in self.handlers:
            raise ClosedError("the handler is not attached to this hub")
        self.rules.subscribe(handler, rules)

    def _add(self, handler: Handler, prefix: str) -> None:
        self._multimap.add(prefix, handler)
        self.routes.forget(prefix)
        if not handler.is_link:
            _tell(self._links, self._filter.add(prefix))
        if self._leaf_filter is not None and handler.role is not Role.LEAF:
            _tell(self._leaves, self._leaf_filter.add(prefix))

    def _remove(self, handler: Handler, prefix: str) -> None:
        self._multimap.discard(prefix, handler)
        self.routes.forget(prefix)
        if not handler.is_link:
            _tell(self._links, self._filter.discard(prefix))
        if self._leaf_filter is not None and handler.role is not Role.LEAF:
            _tell(self._leaves, self._leaf_filter.discard(prefix))

    def _filter_for_leaves(self) -> Filter:
        """What leaves are told. Kept from the first question on, so that a hub without leaves need not pay for it."""
        if self._leaf_filter is not None:
            return self._leaf_filter
        wanted = self._leaf_filter = Filter()
        for prefix in self._asked_of_leaves:
            wanted.add(prefix)
        for handler in (*self.handlers.values(), *self._leaving):
            if handler.role is not Role.LEAF:
                for prefix in handler.prefixes:
                    wanted.add(prefix)
        return wanted

    # Messages.

    def publish(self, source: Handler, route: Route, batch: Batch) -> None:
        """Offer a batch that came from a client, a link or a leaf to every handler of its route.

        What came over a link is not sent to any link: neither back nor on (one hop). What bears a name that `source`
        does not own is refused: see `on_refused`.
        """
        if route.sender and not route.may_bring(source):
            self._refuse(source, route, batch.messages)
            return
        source.published_messages += batch.messages
        for handler in route.handlers if source.is_plain else _receivers(source, route):
            handler.offer(batch)

    def publish_stretch(self, source: Handler, stretch: Stretch[Route]) -> None:
        """Offer what a read has brought: to each handler once, whatever the order in which topics alternate."""
        source.published_messages += sum(stretch.messages)
        receivers = _all_handlers if source.is_plain else partial(_receivers, source)
        if self.routes.has_senders:
            receivers = partial(self._receivers_of_owned, source, stretch, receivers)
        for handlers, batch in stretch.gathered(receivers):
            for handler in handlers:
                handler.offer(batch)

    def _receivers_of_owned(
        self, source: Handler, stretch: Stretch[Route], receivers: Callable[[Route], tuple[Handler, ...]], route: Route
    ) -> tuple[Handler, ...]:
        """Who gets what of a stretch goes this way; nobody, if it bears a name that `source` does not own."""
        if route.may_bring(source):
            return receivers(route)
        pairs = zip(stretch.routes, stretch.messages, strict=True)
        messages = sum([messages for other, messages in pairs if other is route])
        source.published_messages -= messages
        self._refuse(source, route, messages)
        return ()

    def check_sender(self, source: Handler, route: Route) -> None:
        """See whether `source` may publish on a route, for those that tell it otherwise than through `on_refused`.

        Raises:
            RejectedError: It may not: the messages bear a name that is not its own.
        """
        if not route.may_bring(source):
            raise _not_its_name(route)

    def _refuse(self, source: Handler, route: Route, messages: int) -> None:
        tell = self.on_refused.get(source)
        if tell is not None:
            tell(_not_its_name(route), messages)

    def publish_local(self, topic: str, values: Iterable[Any], labels: Iterable[str] = ()) -> int:
        """Publish from within this process.

        Returns:
            How many handlers it was offered to.

        Raises:
            InvalidTopicError: No message may bear this topic.
            InvalidNameError: A label is none, or they are too many.
            RejectedError: The topic is the hub's own, or there are too many values.
            TypeError, ValueError, OverflowError: A value has no msgpack form.
        """
        labelled = check_labels(labels)
        check_topic(topic)
        if labelled:
            batch = Batch.under(Envelope(topic, labelled).encode(), values, FLAG_TAGGED)
        else:
            batch = Batch.of(topic, values)
        key = next(iter(batch.parts())).routing_key
        route = self.routes.table.get(key) or self.routes.miss(key)
        self.counters.local_messages += batch.messages
        for handler in route.handlers:
            handler.offer(batch)
        return len(route.handlers)

    def announce(self, event: Event) -> None:
        """Publish one of the hub's own `$hub/` topics, to subscribers of this hub only."""
        here = self._subscribers_here(event.topic)
        if here:
            batch = Batch.of(event.topic, (event.value,))
            for handler in here:
                handler.offer(batch)

    def is_wanted(self, topic: str) -> bool:
        """Whether a subscriber of this hub would get one of its own messages of this topic."""
        return bool(self._subscribers_here(topic))

    def _subscribers_here(self, topic: str) -> list[Handler]:
        return [handler for handler in self.routes.find(topic).near if handler.role is not Role.LEAF]

    # The turn.

    def begin_read(self) -> None:
        """What a socket brought is about to be published; `end_read` follows, so nobody need be woken to write it."""
        self._write_is_due = True

    def end_read(self) -> None:
        """Each handler that was offered something writes once. See `flush` for what is offered from within."""
        self._write_is_due = False  # what is offered from within wakes for the next turn
        self.requests.own.begin_turn()
        dirty, self._dirty = self._dirty, []
        for handler in dirty:
            handler.flush()

    def flush(self) -> None:
        """End of a turn that somebody was woken for: write, and do a turn's share of what was put off.

        What is offered from within those writes (subscribers of this process that publish) is for the next turn, so
        that two that answer each other do not keep the loop for themselves.
        """
        self.end_read()
        if self._leaving:
            self._remove_leaving()
        if self.requests.is_busy:
            self.requests.go_on()
        if self.names.is_behind:
            self.names.go_on()

    def _mark_dirty(self, handler: Handler) -> None:
        if not self._write_is_due:
            self._write_is_due = True
            self._wake()
        self._dirty.append(handler)

    def _mark_dropping(self, handler: Handler) -> None:
        self._dropping[handler] = None

    def report_drops(self) -> list[Event]:
        """Announce what each handler lost since the last report; to be called about once a second.

        Returns:
            One event for each handler that lost messages, for the log.
        """
        dropping, self._dropping = self._dropping, {}
        events = []
        for handler in dropping:
            lost = handler.dropped_messages - handler.reported_messages
            if not lost:
                continue
            handler.reported_messages += lost
            event = overflow(handler, lost)
            events.append(event)
            self.announce(event)
        return events

    # Looking at it.

    def statistics(self) -> CoreStatistics:
        """The core as it is now."""
        routing = RoutingStatistics(
            subscriptions=len(self._multimap),
            routes=len(self.routes.table),
            misses_total=self.routes.misses,
            clears_total=self.routes.clears,
            filter_prefixes=len(self._filter.minimal),
            rules=len(self.rules),
            tagged=self.routes.tagged_keys,
            size_bytes=self.routes.size_bytes,
        )
        return self.counters.statistics(self.handlers.values(), routing)

    def handler_statistics(self) -> list[HandlerStatistics]:
        """Every handler as it is now."""
        return [handler.statistics() for handler in self.handlers.values()]

    @property
    def minimal_filter(self) -> tuple[str, ...]:
        """The fewest prefixes that cover what this hub's own subscribers want."""
        return tuple(self._filter.minimal)

    @property
    def minimal_filter_for_leaves(self) -> tuple[str, ...]:
        """The fewest prefixes that cover what clients, this process and links want; what a leaf is asked for."""
        return tuple(self._filter_for_leaves().minimal)


def _not_its_name(route: Route) -> RejectedError:
    return RejectedError(CloseCode.NOT_ALLOWED, f"sender {printable(route.sender)}: that name is not yours")


def _tell(told: dict[Handler, Callable[[Change], None]], change: Change) -> None:
    """Tell links, or leaves, how the filter that is for them has changed."""
    if change.added or change.removed:
        for on_filter in list(told.values()):
            on_filter(change)
