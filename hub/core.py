"""`Core`: the one owner of routing. It knows every handler, looks up who gets a run of messages, and offers it to them.

```
what a socket brought ─▶ routes (one dict hit each) ─▶ one offer a handler ─┐
                                                                       ▼
                                         dirty handlers ─▶ end_read(): each writes once
```

Owner: one event loop (or one test). Everything here is plain and synchronous; nothing waits. Other threads reach the
core over sockets of their own (`peers.embedding`). The order is fixed: take what a socket brought, route it, then write
out each dirty handler once (`end_read`). Whoever brings what a socket brought says so before (`write_is_due`). What is
offered outside of a read is written at the end of the turn, which the shell is asked for through `wake`.

Cost: publishing costs what the handlers cost that get the message. Subscribing, unsubscribing and losing a handler
cost what they touch.

Not here: who gets what of what is wanted (`hub.delivery`), who may do what (`hub.authority`), what is refused of what
comes (`hub.refusals`), sockets and the wire (`peers`), the clock: what is due once a second is called from outside
(`report_drops`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from operator import attrgetter, methodcaller

from hub.audience import check_may_see
from hub.authority import Authority
from hub.batch import Batch
from hub.delivery import Role, receivers
from hub.departures import Departures, Entrance
from hub.errors import ClosedError
from hub.events import (
    Event,
    OwnEvents,
    client_joined,
    client_left,
    mesh_changed,
    name_event,
    peer_joined,
    peer_left,
)
from hub.far_hub import FarHub
from hub.far_hubs import FarHubs
from hub.handler import Handler
from hub.holdings import Allowance
from hub.intake import Gaps, Intake
from hub.leaves import Leaves
from hub.limits import LINK_COST, CoreLimits
from hub.losses import Drops
from hub.memory import Memory
from hub.mesh.announcement import Announcement, Interests, Told
from hub.mesh.mesh import Mesh
from hub.mesh_links import MeshLinks
from hub.multimap import PrefixMultimap
from hub.names.names import Names
from hub.names.register import Register
from hub.origin import Origin
from hub.prefixes import Asked, OnFilter, PrefixSubscriptions
from hub.quotas.quotas import Quotas
from hub.quotas.resource import Resource
from hub.refusals import HandlersOf, Refusals, is_decided_by_route, may_publish
from hub.relief import relieve
from hub.requests.hub_services import HubServices
from hub.requests.requests import Requests
from hub.routes import Route, Routes
from hub.statistics import CoreStatistics, Counters, RoutingStatistics
from hub.stretch import Stretch
from hub.tags.rules import Rule, RuleIndex, characters
from hub.tags.subscriptions import RuleSubscriptions
from hub.topic_rates import TopicRates
from hub.topics import RESERVED
from hub.turn import Turn
from hub.uncarried import Uncarried
from hub.waiting import WaitingMemory
from hub.writers import Writers, WritesLater

__all__ = ["Core"]

_all_handlers: HandlersOf = attrgetter("handlers")
_domains = attrgetter("domains")
_is_owned = attrgetter("is_owned")


def _receivers(source: Handler, route: Route) -> tuple[Handler, ...]:
    return receivers(source, route.handlers)


def _any_prefix(_: str) -> bool:
    """Stand in for a rule about what leaves are asked for: there is none."""
    return True


def _no_clock(_: int) -> None:
    """Stand in for a clock: nothing is timed out."""


def _unasked() -> None:
    """Stand in for whoever calls `Mesh.check`."""


def _unheard(_: int) -> None:
    """Stand in for whoever is told that somebody else speaks in the name of this hub."""


def _untold(_: Mapping[bytes, int]) -> None:
    """Stand in for whoever is told of messages that do not go on."""


class Core:
    """Handlers, their subscriptions, and the way from a topic to them.

    Args:
        wake: Called when a turn has something to write; must lead to one call of `flush` before the loop waits for I/O
            again. It is not called again before that.
        limits: How much there may be of everything.
        asked_of_leaves: Prefixes that leaves are asked for even if nobody here subscribes to them.
        may_ask_leaves: Whether leaves may be asked for a prefix because somebody here subscribes to it; always the same
            answer for the same prefix.
        wake_at: Called with a time, ms of a monotonic clock, at which `requests.expire` is to be called; a later call
            takes the place of an earlier one.
        check_mesh: Called when `mesh.check` is to be called, at the end of this turn.
        on_clash: Called when somebody else in the mesh has spoken in the name of this hub, with the number of that.
        on_stranded: Called once a second at most with hubs, and how many messages for each did not go on from here.
        hub_id: Of this hub, for what peers must tell apart.
        hub_name: Of this hub, for people.
        memory: The budget of the process; without one there is no limit.
        quotas: What users hold; without one each has half of what has no end.
    """

    def __init__(  # noqa: PLR0913 -- what it is told of the outside
        self,
        wake: Callable[[], object],
        limits: CoreLimits = CoreLimits(),  # noqa: B008 -- frozen
        *,
        asked_of_leaves: Iterable[str] = (),
        may_ask_leaves: Callable[[str], bool] = _any_prefix,
        wake_at: Callable[[int], object] = _no_clock,
        check_mesh: Callable[[], object] = _unasked,
        on_clash: Callable[[int], object] = _unheard,
        on_stranded: Callable[[Mapping[bytes, int]], object] = _untold,
        hub_id: bytes = b"",
        hub_name: str = "",
        memory: Memory | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        client, peer = limits.client, limits.peer
        # When there is a turn, how much memory there is, and how much the whole core has done.
        self._turn = Turn(wake)
        self.memory = Memory() if memory is None else memory
        self.memory.attach(self._relieve, self._turn.request)
        self.quotas = Quotas() if quotas is None else quotas
        self._entrance = Entrance(self.quotas, self._turn)
        self.counters = Counters()
        self._drops = Drops()
        self.topic_rates = TopicRates(self.memory.account("topics"))
        # Every handler charges what waits for it here.
        self._queue_memory = WaitingMemory.of(self.memory)
        held = self._queue_memory.batches
        held.on_abandoned = lambda: held.let_go_abandoned(self._turn)
        # Handlers that were offered something since the last `end_read`, each once.
        self.offered: list[WritesLater] = []
        # Who of them writes, where they are many, and who waits for a later turn.
        self.writers = Writers(self._turn)
        # Those who wait; whoever begins a read lets the reader's own handler write first, if it may be one of them.
        self.late = self.writers.late
        # True while somebody is going to write what is offered, and need not be woken for it. Whoever begins a read
        # sets it, and calls `end_read` when the read is over. The core sets it when the shell is woken, and clears it
        # as the writing begins.
        self.write_is_due = False
        # The number that the last handler got; none is given twice.
        self._last_id = 0
        # Number → handler, from `attach` to `detach`.
        self.handlers: dict[int, Handler] = {}
        # What of what comes is refused, and who is told of it.
        self.refusals = Refusals()
        # Prefix → the handlers that subscribe to it, with those that are leaving.
        multimap: PrefixMultimap[Handler | FarHub] = PrefixMultimap()
        # Which other hubs there are, what they want, and which links lead to them.
        self.mesh: Mesh[Handler] = Mesh(
            hub_id,
            hub_name,
            on_trees=self._forget_ways,
            on_interest=self._change_far,
            on_reach=self._reach_far,
            on_due=self._tell_link,
            on_clash=on_clash,
            on_check=check_mesh,
            on_change=lambda change, names: self.own_events.announce(mesh_changed(change, names)),
            on_stranded=on_stranded,
            limits=limits.mesh,
        )
        # Which messages are taken of links, who is told of those that are not, and what counts those that do not go on.
        traffic = self.mesh.traffic
        self._upstreams = traffic.upstreams
        self._intake = Intake(traffic, Gaps(self._mark_dirty))
        self._uncarried = Uncarried(traffic.strand, traffic.leave_out, self._mark_dirty)
        # Who owns a name is asked of the register, and routes forget what names change: neither knows the other.
        register = Register(self.memory.account("names"))
        rule_index: RuleIndex[Handler | FarHub] = RuleIndex()
        self.routes = Routes(
            multimap,
            limits.routes,
            rules=rule_index,
            owner_of=register.owner,
            account=self.memory.account("routes"),
            mesh=self.mesh,
            uncarried=self._uncarried,
        )
        # What the hub tells of itself.
        self.own_events = OwnEvents(self.routes)
        self.prefixes = PrefixSubscriptions(
            multimap,
            self.routes.forget,
            Allowance("prefixes", Resource.PREFIXES, client.prefixes, peer.prefixes, self.memory, len),
            self.handlers,
            Asked(lambda delivery, prefix: delivery.asks_leaves(prefix) and may_ask_leaves(prefix), asked_of_leaves),
        )
        rules_allowed = Allowance("rules", Resource.RULES, client.rules, peer.rules, self.memory, characters)
        self.rules = RuleSubscriptions(rule_index, self.routes.forget_rule, rules_allowed)
        self._departures = Departures(self._turn, self.prefixes, self.rules)
        self.names = Names(
            hub_id,
            register,
            self._turn,
            limits.names,
            self.memory,
            announce=lambda what, claim: self.own_events.announce(name_event(what, claim)),
            on_owner=self.routes.forget_name,
        )
        hub_services = HubServices(self._turn.request)
        hub_services.add(RESERVED + "names", lambda _, value: register.answer(value))
        self.requests = Requests(
            self._turn,
            wake_at,
            limits.requests,
            Allowance("prefixes to serve", Resource.SERVICES, client.services, peer.services, self.memory, len),
            self.memory,
            owner_of=register.owner_of,
            hub_services=hub_services,
            hub=hub_id,
            way_to=traffic.way_to,
        )
        # Which leaves this hub and others have, and who is the gateway of each.
        self.leaves = Leaves(hub_id)
        # What the other hubs of the mesh want.
        self.far_hubs = FarHubs(
            self.prefixes,
            self.rules,
            self.requests,
            self.names,
            self.leaves,
            traffic.way_to,
            self._turn,
            self.memory.account("mesh"),
        )
        # The links to them, and what they are told.
        self._mesh_links = MeshLinks(
            self.mesh, self.far_hubs, self.prefixes, self.rules, self.requests, self.names, self.leaves
        )
        # Which policy is asked, and who may do what by it.
        self.authority = Authority(
            self._turn,
            self.handlers,
            self.routes,
            self.quotas,
            prefixes=self.prefixes,
            rules=self.rules,
            names=self.names,
            requests=self.requests,
            on_link=self.far_hubs.judge,
        )

    # Handlers come and go.

    def number_from(self, first: int) -> None:
        """Number handlers from here on, while there is none: so other processes of one hub have other numbers."""
        self._last_id = first - 1

    def attach(self, handler: Handler, on_filter: OnFilter | None = None) -> None:
        """Take a handler in and announce it.

        Args:
            handler: New, without prefixes. Where its user has as many connections as he may have, it is closed as the
                turn ends, with the code and the text of that.
            on_filter: For links and leaves: called now with what this hub wants, and later with each change of it.
        """
        self._last_id += 1
        handler.attach(self._last_id, self._mark_dirty, self._drops.note, self._queue_memory)
        self.handlers[handler.id] = handler
        if handler.write_cost > 1:
            self.writers.take_in_dear()
        if handler.rights is not None:
            self.routes.guard()
            self._entrance.enter(handler, handler.rights.user)
        if on_filter is not None:
            self.prefixes.tell(handler, on_filter, self._everybody())
        if handler.role is not Role.LOCAL:
            self.own_events.announce((client_joined if handler.role is Role.CLIENT else peer_joined)(handler))

    def link(self, handler: Handler, hub: bytes, on_mesh: Callable[[], object], *, cost: int = LINK_COST) -> None:
        """Make a link that is attached one of the mesh.

        Args:
            handler: Which.
            hub: The id of the hub at its far side, to which there is no other link.
            on_mesh: Called when the far side is to be told something: `mesh.take` has it.
            cost: What this side says that it costs; the larger of what both say counts.
        """
        self._mesh_links.add(handler, hub, on_mesh, cost)

    def detach(self, handler: Handler, reason: str) -> None:
        """Let a handler go, with all its subscriptions, and announce that. It does no harm if it is gone already."""
        if self.handlers.pop(handler.id, None) is None:
            return
        handler.shut()
        self.requests.forget(handler)
        self.prefixes.tell_no_more(handler)
        self._mesh_links.discard(handler)
        self.refusals.forget(handler)
        self.authority.forget(handler)
        self._departures.leave(handler)
        self.names.forget(handler)
        self.counters.forget(handler)
        self._drops.forget(handler)
        self._entrance.leave(handler)
        if handler.role is not Role.LOCAL:
            self.own_events.announce((client_left if handler.role is Role.CLIENT else peer_left)(handler, reason))

    def depart(self, give_back: Callable[[], object]) -> None:
        """Give back what a far side had that is gone: at once, or in a later turn, where many have gone in this one.

        Args:
            give_back: Called exactly once, behind all others that were brought here before; must not raise.
        """
        self._departures.depart(give_back)

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
        """Subscribe in steps, for many prefixes that would hold up a turn: a step is done whenever one is asked for.

        All prefixes are checked before the first is added. The rest is dropped when the handler leaves meanwhile.

        Raises:
            ClosedError, InvalidTopicError, RejectedError: As `subscribe`, from the steps.
        """
        self._check_attached(handler)
        yield from self.prefixes.subscribing(handler, prefixes)

    def unsubscribe(self, handler: Handler, prefixes: Iterable[str]) -> None:
        """Take back one subscription for each prefix; those that the handler does not have are passed over."""
        for _ in self.unsubscribing(handler, prefixes):
            pass

    def unsubscribing(self, handler: Handler, prefixes: Iterable[str]) -> Iterator[None]:
        """Unsubscribe in steps, as `subscribing`."""
        return self.prefixes.unsubscribing(handler, prefixes)

    def _check_attached(self, handler: Handler) -> None:
        if handler.id not in self.handlers:
            raise ClosedError("the handler is not attached to this hub")

    def subscribe_rules(self, handler: Handler, rules: Iterable[Rule]) -> None:
        """Subscribe `handler` to each rule, all or none; counted, as prefixes are.

        Args:
            handler: Which.
            rules: Checked ones (`hub.tags.rules.check_rule`).

        Raises:
            ClosedError: The handler is not attached.
            RejectedError: The handler would have too many, or one would show it what is not granted to it.
        """
        self._check_attached(handler)
        rules = list(rules)
        self.rules.check(handler, rules)  # before others: so many rules as nobody may have are not judged
        for rule in rules:
            check_may_see(handler, rule.prefix)
        self.rules.subscribe(handler, rules)

    # Messages.

    def publish(self, source: Handler, route: Route, batch: Batch) -> None:
        """Offer a batch that came from a client, a link or a leaf to every handler of its route.

        What came over a link goes on to other hubs where the tree of its origin leads. What bears a name that `source`
        does not own, tells changes of a store, or is not granted to it, is refused (`refusals`).
        """
        if route.is_owned and not route.may_bring(source):
            self.refusals.refuse_owned(source, route, batch)
            return
        if source.is_unbound:
            handlers = route.handlers
            if route.leads_on:
                batch.origin = self.mesh.origin
        else:
            is_link = source.is_link
            if (
                is_link
                and source.accepted_at != self._upstreams.turnover
                and not self._intake.accepts(source, batch.messages)
            ):
                self._intake.tell_gaps(source, ((route, batch.messages),))
                return
            granted = source.publishes_in
            if granted is not None and route.domains not in granted:
                allowed = self.refusals.granted(source, route, batch)
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
        """Offer what a read has brought: to each handler once, whatever the order in which topics alternate."""
        origin: Origin | None = self.mesh.origin
        if source.is_unbound:
            granted, handlers_of = None, _all_handlers
        else:
            if source.is_link:
                if source.accepted_at != self._upstreams.turnover and not self._intake.accepts(
                    source, sum(stretch.messages)
                ):
                    self._intake.tell_gaps(source, zip(stretch.routes, stretch.messages, strict=True))
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
            handlers_of = self.refusals.granted_of(source, stretch, handlers_of)
        if source.published_messages >= source.look_at:
            self._look_at(source, stretch, messages + source.published_messages - published)
        for handlers, batch in stretch.gathered(handlers_of):
            batch.origin = origin
            for handler in handlers:
                handler.offer(batch)

    def _look_at(self, source: Handler, stretch: Stretch[Route], messages: int) -> None:
        """Count by topic what a read has brought, without what was refused of it."""
        whole = stretch.whole()
        if messages < whole.messages:
            whole = stretch.only(lambda route: route.may_bring(source) and may_publish(source, route))
        self.topic_rates.look(source, whole)

    # The mesh.

    def hear_of_mesh(self, link: Handler, told: Told) -> None:
        """Take what the far side of a link tells of the mesh.

        Raises:
            RejectedError: It is over a limit here; nothing of it was taken.
        """
        if isinstance(told, Announcement) and told.neighbours is not None:
            self._mesh_links.write()
        self.mesh.hear(link, told)

    def _forget_ways(self) -> None:
        self.routes.forget_ways()
        self._uncarried.forget()

    def _reach_far(self, hub: bytes, is_reached: bool) -> None:  # noqa: FBT001 -- as the mesh tells it
        self.far_hubs.reach(hub, is_reached)

    def _tell_link(self, link: Handler) -> None:
        self._mesh_links.tell(link)

    def _change_far(self, hub: bytes, change: Interests, link: Handler | None) -> None:
        self.far_hubs.change(hub, change, link)

    # The turn.

    def end_read(self) -> None:
        """Let each handler that was offered something write once, or some of them, where they are very many.

        See `flush` for what is offered from within.
        """
        self.write_is_due = False  # what is offered from within wakes for the next turn
        if self.memory.is_due:
            self.memory.look()
        dirty, self.offered = self.offered, []
        if len(dirty) > self.writers.few:
            dirty = self.writers.choose(dirty)
        for handler in dirty:
            handler.flush()

    def flush(self) -> None:
        """End a turn that the shell was woken for: write, and do a turn's share of what was put off.

        What is offered from within those writes, as by a handler whose outlet publishes, is for the next turn: so two
        that answer each other do not keep the loop for themselves.
        """
        self._turn.begin()
        self.requests.hub_services.begin_turn()
        late = self.writers.begin_turn()
        self.end_read()
        for writer in late:
            writer.flush()
        self._entrance.turn_away()
        if self.far_hubs.is_behind:
            self.far_hubs.go_on()
        if self._departures.is_behind:
            self._departures.go_on()
        if self._queue_memory.batches.has_abandoned:
            self._queue_memory.batches.let_go_abandoned(self._turn)
        if self.requests.is_busy:
            self.requests.go_on()
        if self.names.is_behind:
            self.names.go_on()
        if self.authority.is_behind:
            self.authority.go_on()
        if self.routes.is_behind:
            self.routes.let_go(self._turn)

    def _relieve(self, wanted_bytes: int) -> int:
        """Free memory, as there is too little; what was dropped is let go at once, so that the next look sees it."""
        freed = relieve(self.routes, self.topic_rates, self.handlers, wanted_bytes)
        self._queue_memory.batches.let_go_abandoned()
        return freed

    def _mark_dirty(self, handler: Handler | Gaps) -> None:
        if not self.write_is_due:
            self.write_is_due = True
            self._turn.request()
        self.offered.append(handler)

    def report_drops(self) -> list[Event]:
        """Announce what each handler lost since the last report, and return that; to be called about once a second."""
        events = self._drops.report()
        for event in events:
            self.own_events.announce(event)
        return events

    def tick(self, now_s: float) -> None:
        """Make rates of what was counted by topic; to be called about once a second."""
        self.topic_rates.tick(now_s, self.handlers.values())

    # Looking at it.

    def statistics(self) -> CoreStatistics:
        """Return what there is in the core now, and what it has done so far."""
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
        """The fewest prefixes that cover what clients, this process and links want: what a leaf is asked for."""
        return self.prefixes.of_leaves(self._everybody()).minimal

    def _everybody(self) -> Iterable[Handler | FarHub]:
        """Return all who may have prefixes: those who are attached, those who are leaving, and other hubs."""
        return chain(self.handlers.values(), self._departures, self.far_hubs)
