"""`Core` owns the routing: it knows every handler, looks up the receivers of a run of messages, and offers it to them.

```
bytes of a socket ─▶ routes (one dict hit each) ─▶ one offer a handler ─▶ dirty handlers ─▶ end_read(): one write each
```

Everything here is synchronous and belongs to one event loop; other threads connect over sockets (`peers.embedding`).
The order is fixed: read, route, then write each dirty handler once (`end_read`). The reader sets `write_is_due`
before. Batches offered outside of a read are written at the end of the turn, requested through `Outside.wake`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, repeat
from operator import attrgetter, methodcaller

from hub.authority import Authority, HandlersOf, is_decided_by_route, may_publish
from hub.errors import ClosedError, RejectedError
from hub.handlers.counters import CoreStatistics, Counters, RoutingStatistics
from hub.handlers.delivery import RemoteHub, Role, receivers
from hub.handlers.handler import Handler
from hub.handlers.holdings import Allowance
from hub.handlers.waiting import WaitingMemory
from hub.labels.rules import Rule, RuleIndex, characters
from hub.labels.subscriptions import RuleSubscriptions
from hub.limits import LINK_COST, CoreLimits, QueueLimits
from hub.links import Leaves, RemoteHubs
from hub.mesh.announcement import Announcement, Told
from hub.mesh.mesh import Mesh
from hub.messages.batch import Batch
from hub.messages.frame import Origin
from hub.messages.stretch import Stretch
from hub.names.names import Names, Register
from hub.policy.grants import User
from hub.prefixes import PrefixMultimap
from hub.quotas import Quotas, Resource, Share
from hub.requests.hub_services import HubServices
from hub.requests.requests import Requests
from hub.routing.routes import Route, Routes
from hub.routing.subscriptions import Asked, OnFilter, PrefixSubscriptions
from hub.scheduling.memory import Memory
from hub.scheduling.scheduler import Scheduler, Writers, WritesLater
from hub.statistics.events import Event, SystemEvents, joined, left, mesh_changed, name_event
from hub.statistics.losses import Drops
from hub.statistics.topic_rates import TopicRates
from hub.topics import RESERVED

_STEPS_PER_DEPARTURE = 5  # Cost of releasing a far side without its prefixes: about 50 µs

_WORTH_CLEARING = 8  # Routes, and counted topics, are forgotten if they are at least this part of the wanted bytes

_all_handlers: HandlersOf = attrgetter("handlers")
_domains = attrgetter("domains")
_is_owned = attrgetter("is_owned")


def _receivers(source: Handler, route: Route) -> tuple[Handler, ...]:
    return receivers(source, route.handlers)


def _ignore(_: object) -> None: ...


class Outside:
    """Calls of the core to its owner: `peers.server.server.Server`; these do nothing."""

    def wake(self) -> None:
        """There is something to write: call `flush` once before the loop waits for I/O. Once a turn at most."""

    def wake_at(self, due_ms: int) -> None:
        """Call `requests.expire` at a time of a monotonic clock, and not at that of the call before."""

    def check_mesh(self) -> None:
        """Call `mesh.check` at the end of this turn."""

    def on_clash(self, number: int) -> None:
        """Another hub of the mesh uses the id of this hub."""

    def may_ask_leaves(self, prefix: str) -> bool:  # noqa: ARG002 -- any
        """Return whether leaves are asked for a prefix with subscribers here; always the same answer."""
        return True


class _Unreached:
    """The outlet of a handler that counts messages without a way to a hub that wants them."""

    __slots__ = ("_mesh",)

    def __init__(self, mesh: Mesh[Handler]) -> None:
        self._mesh = mesh

    def send(self, batches: list[Batch]) -> None:
        self._mesh.unreached_messages += sum(batch.messages for batch in batches)

    def send_gap(self, lost_messages: int) -> None: ...  # nothing waits for this handler, so nothing is dropped

    def close(self, code: int, text: str) -> None: ...


class Core:
    """Handlers, their subscriptions, and the way from a topic to them.

    Args:
        limits: How much there may be of everything.
        asked_of_leaves: Prefixes that leaves are asked for even without subscribers here.
        hub_id: Id of this hub in the mesh.
        hub_name: Name of this hub for people.
        memory: The budget of the process; without one there is no limit.
        quotas: Usage of users; without it each may have half of everything.
    """

    def __init__(  # noqa: PLR0913 -- what it is told of the outside
        self,
        outside: Outside | None = None,
        limits: CoreLimits = CoreLimits(),  # noqa: B008 -- frozen
        *,
        asked_of_leaves: Iterable[str] = (),
        hub_id: bytes = b"",
        hub_name: str = "",
        memory: Memory | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        client, outside = limits.client, outside or Outside()
        self.scheduler = Scheduler(outside.wake)
        self.memory = Memory() if memory is None else memory
        self.memory.attach(self._relieve, self.scheduler.request)
        self.quotas = Quotas() if quotas is None else quotas
        self.counters = Counters()
        self._drops = Drops()
        self.topic_rates = TopicRates(self.memory.account("topics"))
        self._queue_memory = WaitingMemory.of(self.memory)
        self._queue_memory.batches.scheduler = self.scheduler
        # Handlers that were offered something since the last `end_read`, each once.
        self.offered: list[WritesLater] = []
        # Subscriber → how many messages were lost before they came here; it is reported at the end of the read.
        self._gaps: dict[Handler, int] = {}
        self.writers = Writers(self.scheduler)
        self.late = self.writers.late  # beside it, as each read looks at it
        # True while a read or a requested turn is going to write the offered batches.
        self.write_is_due = False
        self._last_id = 0
        # Number → handler, from `attach` to `detach`.
        self.handlers: dict[int, Handler] = {}
        multimap: PrefixMultimap[Handler | RemoteHub] = PrefixMultimap()
        self.mesh: Mesh[Handler] = Mesh(
            hub_id,
            hub_name,
            on_trees=lambda: self.routes.forget_ways(),  # noqa: PLW0108 -- made later
            on_interest=lambda *change: self.remote_hubs.change(*change),  # noqa: PLW0108 -- made later
            on_reach=lambda *hub: self.remote_hubs.reach(*hub),  # noqa: PLW0108 -- made later
            on_due=lambda link: self.remote_hubs.notify(link),  # noqa: PLW0108 -- made later
            on_clash=outside.on_clash,
            on_check=outside.check_mesh,
            on_change=lambda change, names: self.system_events.announce(mesh_changed(change, names)),
            limits=limits.mesh,
        )
        self._upstreams = self.mesh.upstreams
        register = Register(self.memory.account("names"))
        rule_index: RuleIndex[Handler | RemoteHub] = RuleIndex()
        self.routes = Routes(
            multimap,
            limits.routes,
            rules=rule_index,
            owner_of=register.owner,
            account=self.memory.account("routes"),
            mesh=self.mesh,
            unreached=self._make_counter(),
            scheduler=self.scheduler,
        )
        self.system_events = SystemEvents(self.routes)
        self.prefixes = PrefixSubscriptions(
            multimap,
            self.routes.forget,
            Allowance("prefixes", Resource.PREFIXES, client.prefixes, limits.peer_prefixes, self.memory, len),
            self.handlers,
            Asked(
                lambda delivery, prefix: delivery.asks_leaves(prefix) and outside.may_ask_leaves(prefix),
                asked_of_leaves,
            ),
        )
        rules_allowed = Allowance("rules", Resource.RULES, client.rules, 0, self.memory, characters)
        self.rules = RuleSubscriptions(rule_index, self.routes.forget_rule, rules_allowed)
        # Handlers that were detached but still have prefixes or rules.
        self._leaving: dict[Handler, None] = {}
        self.names = Names(
            hub_id,
            register,
            limits.names,
            self.memory,
            announce=lambda what, claim: self.system_events.announce(name_event(what, claim)),
            on_owner=self.routes.forget_name,
        )
        hub_services = HubServices(self.scheduler)
        hub_services.add(RESERVED + "names", lambda _, value: register.answer(value))
        self.requests = Requests(
            self.scheduler,
            outside.wake_at,
            limits.requests,
            Allowance("prefixes to serve", Resource.SERVICES, client.services, 0, self.memory, len),
            self.memory,
            owner_of=register.owner_of,
            hub_services=hub_services,
            hub=hub_id,
            way_to=self.mesh.way_to,
        )
        self.leaves = Leaves(hub_id)
        self.remote_hubs = RemoteHubs(
            self.mesh,
            self.prefixes,
            self.rules,
            self.requests.services,
            self.names,
            self.leaves,
            self.scheduler,
            self.memory.account("mesh"),
        )
        self.authority = Authority(
            self.scheduler,
            self.handlers,
            self.routes,
            self.quotas,
            prefixes=self.prefixes,
            rules=self.rules,
            names=self.names,
            requests=self.requests,
            on_link=self.remote_hubs.judge,
        )

    # Handlers come and go.

    def number_from(self, first: int) -> None:
        """Number handlers from here on, while there is none: so other processes of one hub have other numbers."""
        self._last_id = first - 1

    def attach(self, handler: Handler, on_filter: OnFilter | None = None) -> None:
        """Take a new handler in and announce it; if its user has too many connections, it is closed as the turn ends.

        Args:
            handler: New, without prefixes.
            on_filter: For leaves: called now with the filter of this hub, and later with each change of it.
        """
        self._last_id += 1
        handler.attach(self._last_id, self._mark_dirty, self._drops.note, self._queue_memory)
        self.handlers[handler.id] = handler
        if handler.write_cost > 1:
            self.writers.take_in_dear()
        if handler.rights is not None:
            self.routes.guard()
            self._charge_connection(handler, handler.rights.user)
        if on_filter is not None:
            self.prefixes.tell(handler, on_filter, self._everybody())
        if handler.role is not Role.LOCAL:
            self.system_events.announce(joined(handler))

    def _charge_connection(self, handler: Handler, user: User) -> None:
        if handler.share is not None:  # its connection was charged already
            self.quotas.give_roles(handler.share, user.roles)
            return
        try:
            handler.share = self.quotas.join(user.name, user.roles)
        except RejectedError as error:
            self.scheduler.add("turned away", _closing(handler, error), at_once=False)

    def link(self, handler: Handler, hub: bytes, on_mesh: Callable[[], object], *, cost: int = LINK_COST) -> None:
        """Make an attached link part of the mesh."""
        self.remote_hubs.link(handler, hub, on_mesh, cost)

    def detach(self, handler: Handler, reason: str) -> None:
        """Remove a handler with all its subscriptions, and announce that; no harm if it is gone already."""
        if self.handlers.pop(handler.id, None) is None:
            return
        handler.shut()
        settling = self.requests.forget(handler)
        self.prefixes.tell_no_more(handler)
        self.remote_hubs.unlink(handler)
        self.authority.forget(handler)
        self._leaving[handler] = None
        self.scheduler.add("leaving", self._taking_out(handler, settling))
        self.counters.forget(handler)
        self._drops.forget(handler)
        if handler.share is not None:
            self.quotas.leave(handler.share)
        if handler.role is not Role.LOCAL:
            self.system_events.announce(left(handler, reason))

    def depart(self, give_back: Callable[[], object]) -> None:
        """Release the state of a far side that is gone: at once, or in a later turn if many have gone in this one."""
        self.scheduler.add("departures", _departing(give_back))

    def _taking_out(self, handler: Handler, settling: Iterator[None]) -> Iterator[None]:
        """Remove requests, names and subscriptions of a handler that has left."""
        yield from settling
        yield from self.names.forgetting(handler)
        yield from self.prefixes.forgetting(handler)
        yield from self.rules.forgetting(handler)
        del self._leaving[handler]

    # Subscriptions.

    def subscribe(self, handler: Handler, prefixes: Iterable[str]) -> None:
        """Subscribe `handler` to each prefix, all or none. Counted: the same prefix twice must be taken back twice.

        Raises:
            ClosedError: The handler is not attached.
            InvalidTopicError: One of them is no prefix.
            RejectedError: The handler would have too many, or one is not granted to it.
        """
        for _ in self.subscribing(handler, prefixes):
            pass

    def subscribing(self, handler: Handler, prefixes: Iterable[str]) -> Iterator[None]:
        """Subscribe in steps, as many prefixes would hold up a turn; errors are those of `subscribe`.

        All prefixes are checked before the first is added. The rest is dropped when the handler leaves meanwhile.
        """
        self._check_attached(handler)
        yield from self.prefixes.subscribing(handler, prefixes)

    def unsubscribe(self, handler: Handler, prefixes: Iterable[str]) -> None:
        """Take back one subscription for each prefix; those that the handler does not have are passed over."""
        for _ in self.unsubscribing(handler, prefixes):
            pass

    def unsubscribing(self, handler: Handler, prefixes: Iterable[str]) -> Iterator[None]:
        return self.prefixes.unsubscribing(handler, prefixes)

    def _check_attached(self, handler: Handler) -> None:
        if handler.id not in self.handlers:
            raise ClosedError("the handler is not attached to this hub")

    def subscribe_rules(self, handler: Handler, rules: Iterable[Rule]) -> None:
        """Subscribe `handler` to each checked rule (`hub.labels.rules.check_rule`), all or none; counted, as prefixes.

        Raises:
            ClosedError: The handler is not attached.
            RejectedError: The handler would have too many, or one is not granted to it.
        """
        self._check_attached(handler)
        rules = list(rules)
        self.rules.check(handler, rules)  # first, so that no more rules are judged than a handler may have
        for rule in rules:
            handler.check_may_see(rule.prefix)
        self.rules.subscribe(handler, rules)

    # Messages.

    def publish(self, source: Handler, route: Route, batch: Batch) -> None:
        """Offer a batch that came from a client, a link or a leaf to every handler of its route.

        Messages of a link go on to other hubs where the tree of its origin leads. Messages that `source` may not
        publish are rejected (`authority`).
        """
        if route.is_owned and not route.may_bring(source):
            self.authority.refuse_owned(source, route, batch)
            return
        if source.is_unbound:
            handlers = route.handlers
            if route.leads_on:
                batch.origin = self.mesh.origin
        else:
            is_link = source.is_link
            if is_link and source.accepted_at != self._upstreams.turnover and not self._accepts(source, batch.messages):
                self._note_gaps(source, ((route, batch.messages),))
                return
            granted = source.publishes_in
            if granted is not None and route.domains not in granted:
                allowed = self.authority.granted(source, route, batch)
                if allowed is None:
                    return
                batch = allowed
            if is_link:
                batch.origin = source.origin
                onward = route.by_way.get(source.way)  # as `of_way`, with a call less for each read
                handlers = route.of_way(source.way) if onward is None else onward
            else:
                batch.origin = self.mesh.origin
                handlers = route.handlers if source.is_plain else receivers(source, route.handlers)
        published = source.published_messages = source.published_messages + batch.messages
        if published >= source.look_at:
            self.topic_rates.look(source, batch)
        for handler in handlers:
            handler.offer(batch)

    def publish_stretch(self, source: Handler, stretch: Stretch[Route]) -> None:
        """Offer the messages of a read: to each handler once, in whatever order topics alternate."""
        origin: Origin | None = self.mesh.origin
        if source.is_unbound:
            granted, handlers_of = None, _all_handlers
        else:
            if source.is_link:
                if source.accepted_at != self._upstreams.turnover and not self._accepts(source, sum(stretch.messages)):
                    self._note_gaps(source, zip(stretch.routes, stretch.messages, strict=True))
                    return
                origin = source.origin
                handlers_of = methodcaller("of_way", source.way)
            else:
                handlers_of = _all_handlers if source.is_plain else partial(_receivers, source)
            granted = source.publishes_in
        is_looked_at = (self.routes.has_owned and any(map(_is_owned, stretch.places))) or (
            granted is not None and not granted.issuperset(map(_domains, stretch.places))
        )
        messages = sum(stretch.messages)
        published = source.published_messages = source.published_messages + messages
        if is_looked_at:
            if not is_decided_by_route(source, stretch.places):
                source.published_messages -= messages
                for run in stretch:
                    self.publish(source, run.route, run)
                return
            handlers_of = self.authority.granted_of(source, stretch, handlers_of)
        if source.published_messages >= source.look_at:
            self._look_at(source, stretch, messages + source.published_messages - published)
        for handlers, batch in stretch.gathered(handlers_of):
            batch.origin = origin
            for handler in handlers:
                handler.offer(batch)

    def _look_at(self, source: Handler, stretch: Stretch[Route], messages: int) -> None:
        """Count the messages of a read by topic, without rejected ones."""
        whole = stretch.whole()
        if messages < whole.messages:
            whole = stretch.only(lambda route: route.may_bring(source) and may_publish(source, route))
        self.topic_rates.look(source, whole)

    # The mesh.

    def _make_counter(self) -> Handler:
        """Make the handler that counts messages without a way to a hub that wants them.

        It stands in routes like any other handler, so that all other routes cost nothing more.
        """
        handler = Handler(_Unreached(self.mesh), role=Role.LINK, limits=QueueLimits())
        handler.attach(0, self._mark_dirty, _ignore)
        return handler

    def _accepts(self, link: Handler, messages: int) -> bool:
        """Return whether messages of a link are taken; otherwise count them."""
        origin = link.origin
        if self.mesh.accepts(link, origin.hub, origin.epoch):
            link.accepted_at = self._upstreams.turnover
            return True
        link.published_messages += messages  # they have arrived, as far as the link is concerned
        link.look_at += messages
        link.looked_messages += messages
        self.mesh.refuse(link, origin, messages)
        return False

    def _note_gaps(self, link: Handler, runs: Iterable[tuple[Route, int]]) -> None:
        """Report a gap for messages of a link that were not taken, where no other link can bring them."""
        if not self._upstreams.is_lost(link, link.origin.hub, link.origin.epoch):
            return
        granted = link.publishes_in
        for route, messages in runs:
            if granted is None or route.domains in granted:  # else they would not have been delivered either
                for handler in route.near:
                    self._gaps[handler] = self._gaps.get(handler, 0) + messages
        if self._gaps:
            self._request_write()

    def hear_of_mesh(self, link: Handler, told: Told) -> None:
        """Take an announcement of the far side of a link.

        Raises:
            RejectedError: It is over a limit here; nothing of it was taken.
        """
        if isinstance(told, Announcement) and told.neighbours is not None:
            self.remote_hubs.write()
        self.mesh.hear(link, told)

    # The turn.

    def end_read(self) -> None:
        """Let each handler that was offered something write once, or some of them, where they are very many."""
        self.write_is_due = False  # what is offered from within wakes for the next turn
        if self.memory.is_due:
            self.memory.look()
        dirty, self.offered = self.offered, []
        if len(dirty) > self.writers.few:
            dirty = self.writers.choose(dirty)
        for handler in dirty:
            handler.flush()
        if self._gaps:
            gaps, self._gaps = self._gaps, {}
            for subscriber, messages in gaps.items():
                subscriber.tell_gap(messages)

    def flush(self) -> None:
        """End a turn: write, and do a turn's share of the work that was put off.

        A batch offered from within those writes waits for the next turn, so that two handlers that answer each other
        do not keep the loop for themselves.
        """
        self.scheduler.begin()
        late = self.writers.begin_turn()
        self.end_read()
        for writer in late:
            writer.flush()
        self.scheduler.run()

    def _relieve(self, wanted_bytes: int) -> int:
        """Free memory, as there is too little; return how many bytes were freed.

        First state that can be found again: remembered routes, and counters of quiet topics. Then messages that wait
        for slow handlers, by their policies: the queues of one user count as one, and the largest are cut to one size.
        """
        freed = 0
        if self.routes.size_bytes > wanted_bytes // _WORTH_CLEARING:
            freed = self.routes.size_bytes
            self.routes.clear()
        if freed < wanted_bytes and self.topic_rates.size_bytes > wanted_bytes // _WORTH_CLEARING:
            freed += self.topic_rates.forget()
        of_users: dict[Share | Handler, list[tuple[int, int]]] = {}
        for handler in self.handlers.values():
            size = handler.droppable_bytes
            if size:
                of_users.setdefault(handler.share or handler, []).append((size, handler.id))
        sums = sorted(((sum(size for size, _ in queues), queues) for queues in of_users.values()), reverse=True)
        level = _level([together for together, _ in sums], wanted_bytes - freed)
        for together, queues in sums:
            if together <= level:
                break
            freed += self._cut(queues, together - level)
        self._queue_memory.batches.let_go_abandoned()  # at once, so that the next look sees it
        return freed

    def _cut(self, queues: list[tuple[int, int]], surplus: int) -> int:
        """Cut the largest of some queues, sizes with numbers of handlers, to one size; return how much was dropped."""
        freed = 0
        queues.sort(reverse=True)
        level = _level([size for size, _ in queues], surplus)
        for size, number in queues:
            if size <= level:
                break
            handler = self.handlers.get(number)  # closing one may have made others leave
            if handler is not None:
                freed += handler.drop(size - level)
        return freed

    def _mark_dirty(self, handler: Handler) -> None:
        if not self.write_is_due:
            self._request_write()
        self.offered.append(handler)

    def _request_write(self) -> None:
        if not self.write_is_due:
            self.write_is_due = True
            self.scheduler.request()

    def report_drops(self) -> list[Event]:
        """Announce the losses of each handler since the last report, and return them; call about once a second."""
        events = self._drops.report()
        for event in events:
            self.system_events.announce(event)
        return events

    def tick(self, now_s: float) -> None:
        """Compute the rates of topics; call about once a second."""
        self.topic_rates.tick(now_s, self.handlers.values())

    # Looking at it.

    def statistics(self) -> CoreStatistics:
        routing = RoutingStatistics(
            subscriptions=len(self.prefixes),
            routes=len(self.routes.table),
            misses_total=self.routes.misses,
            clears_total=self.routes.clears,
            filter_prefixes=len(self.prefixes.asked_of_links),
            rules=len(self.rules),
            tagged=self.routes.tagged_keys,
            size_bytes=self.routes.size_bytes,
        )
        return self.counters.statistics(self.handlers.values(), routing)

    def refused_for_limits(self) -> dict[str, int]:
        """Return how many prefixes, rules and served prefixes were refused: their handlers would have had too many."""
        return {
            "prefixes": self.prefixes.allowed.refused_total,
            "rules": self.rules.allowed.refused_total,
            "services": self.requests.services_allowed.refused_total,
        }

    @property
    def minimal_filter_for_leaves(self) -> tuple[str, ...]:
        """The filter for a leaf: the fewest prefixes that cover those of clients, this process and links."""
        return self.prefixes.of_leaves(self._everybody()).minimal

    def _everybody(self) -> Iterable[Handler | RemoteHub]:
        """Return all receivers with prefixes: attached handlers, leaving ones, and other hubs."""
        return chain(self.handlers.values(), self._leaving, self.remote_hubs)


def _departing(give_back: Callable[[], object]) -> Iterator[None]:
    yield from repeat(None, _STEPS_PER_DEPARTURE)
    give_back()


def _closing(handler: Handler, error: RejectedError) -> Iterator[None]:
    handler.close(error.code, error.text)
    yield


def _level(sizes: list[int], surplus: int) -> int:
    """Return the size to which the largest of descending sizes are cut so that their sum shrinks by the surplus."""
    together = 0
    for place, size in enumerate(sizes, 1):
        together += size
        following = sizes[place] if place < len(sizes) else 0
        if together - place * following >= surplus:
            return max(0, (together - surplus) // place)
    return 0
