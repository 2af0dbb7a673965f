"""`World`: hubs at sites, cables between sites, clients; and everything that can happen to them, as methods.

```
site ─ a hub, and after a crash another one with a new id        cable ─ a link, and after its end another one
```

What happens in which order is not decided here: `histories` draws it by chance, tests say it or let it be drawn.
Whatever cannot happen as things stand (a dead hub subscribes, a link that is up is connected) does nothing.

`settle` stops all that is under way by chance, waits for `QUIET_S`, and asks that all hubs agree with the truth about
graph and interests; then messages are published that must all arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from math import inf
from random import Random
from typing import Any, NamedTuple

from hub.limits import MeshLimits
from hub.mesh.announcement import Announcement, Digest, Interests, Wanted
from hub.mesh.mesh import Mesh
from hub.prefixes import Change
from hub.routing.subscriptions import Filter
from tests.mesh_simulation.network import SILENT_S, Clock, End, Link, Message, Origin

__all__ = ["QUIET_S", "BrokenPromiseError", "Cable", "Counts", "Ending", "World"]


class BrokenPromiseError(AssertionError):
    """The mesh has done what it must not do."""


class Counts(NamedTuple):
    published: int
    taken: int
    refused: int
    lost: int  # Of those refused: the hub knows that it has lost them
    delivered: int


class Truth:
    """What must hold of every message, told by somebody who sees all hubs at once.

    Always:
    * a subscriber gets no message twice, and those of one publisher in their order;
    * a hub takes no message twice, and none of its own: no message goes around;
    * a hub takes a message as of the hub and the epoch in which it entered;
    * what a hub says that it has lost, it has not taken.

    Once the network has been quiet for a while (`expect` says from when):
    * every subscriber that wants a message gets it;
    * a message crosses each link at most once, and only towards somebody who wants it: it is taken wherever it is sent.
    """

    def __init__(self, *, useless: bool = False) -> None:
        self._may_be_useless = useless
        # (hub or subscriber, publisher) → number of the last message; numbers of a publisher grow.
        self._last: dict[tuple[Any, int], int] = {}
        # (hub, publisher) → numbers of all messages that it has taken from links.
        self._taken_numbers: dict[tuple[bytes, int], set[int]] = {}
        # What each subscriber must get; from `expect` until it gets it.
        self._expected: dict[Message, set[Any]] = {}
        self._is_quiet = False
        self._published = self._taken = self._refused = self._lost = self._delivered = 0

    def publish(self, message: Message, hub: bytes) -> None:
        self._published += 1
        self._last[hub, message.publisher] = message.number

    def take(self, hub: bytes, message: Message, origin: bytes, epoch: int) -> None:
        self._taken += 1
        if (origin, epoch) != (message.origin, message.epoch):
            raise BrokenPromiseError(f"{_short(hub)} takes {_told(message)} for one of {_short(origin)}, epoch {epoch}")
        if hub == message.origin:
            raise BrokenPromiseError(f"{_told(message)} went around and came back to its origin")
        self._in_order(hub, f"hub {_short(hub)}", message)
        self._taken_numbers.setdefault((hub, message.publisher), set()).add(message.number)

    def refuse(self, hub: bytes, message: Message, *, is_lost: bool) -> None:
        self._refused += 1
        if is_lost:
            self._lost += 1
            if message.number in self._taken_numbers.get((hub, message.publisher), ()):
                raise BrokenPromiseError(f"{_short(hub)} says that it has lost {_told(message)}, which it has taken")
        if self._is_quiet and message in self._expected:
            raise BrokenPromiseError(
                f"{_told(message)} was sent to {_short(hub)}, which refuses it, on a quiet network"
            )

    def deliver(self, subscriber: Any, message: Message) -> None:
        self._delivered += 1
        self._in_order(subscriber, f"subscriber {subscriber}", message)
        if message in self._expected:
            self._expected[message].discard(subscriber)

    def useless(self, hub: bytes, message: Message) -> None:
        if message in self._expected and not self._may_be_useless:
            raise BrokenPromiseError(f"{_told(message)} was sent to {_short(hub)}, where nobody wants it")

    def expect(self, message: Message, subscribers: Iterable[Any]) -> None:
        self._is_quiet = True
        self._expected[message] = set(subscribers)

    def check(self) -> None:
        """Ask that whatever was expected has come."""
        for message, subscribers in self._expected.items():
            if subscribers:
                some = ", ".join(str(each) for each in sorted(subscribers, key=str)[:5])
                raise BrokenPromiseError(f"{_told(message)} has not come to {len(subscribers)} subscribers: {some}")

    def forget_expected(self) -> None:
        self._expected.clear()
        self._is_quiet = False

    def counts(self) -> Counts:
        return Counts(self._published, self._taken, self._refused, self._lost, self._delivered)

    def _in_order(self, who: Any, name: str, message: Message) -> None:
        key = (who, message.publisher)
        last = self._last.get(key, -1)
        if message.number <= last:
            what = "once more" if message.number == last else f"after number {last}"
            raise BrokenPromiseError(f"{name} gets {_told(message)} {what}")
        self._last[key] = message.number


def _short(hub: bytes) -> str:
    return hub.hex()[:8]


def _told(message: Message) -> str:
    return (
        f"message {message.number} of publisher {message.publisher}, {message.topic},"
        f" of {_short(message.origin)}, epoch {message.epoch}"
    )


_TICK_S = 0.001  # How exact a timer is


class Subscriber(NamedTuple):
    number: int
    prefix: str


class Hub:
    """A hub as far as the mesh is concerned: a `Mesh` with links, its own subscribers by prefix, and routes.

    What a route was found to be is remembered until the mesh says that it holds no more, as the real hub does; so what
    the mesh forgets to say shows as a message that is lost. Announcements that are due on a link go before any message
    that is routed later.
    """

    def __init__(
        self,
        hub: bytes,
        clock: Clock,
        offset_s: float,
        truth: Truth,
        limits: MeshLimits = MeshLimits(),  # noqa: B008 -- frozen
    ) -> None:
        self.id = hub
        self.limits = limits
        self.is_alive = True
        self.ends: dict[bytes, End] = {}
        """The id of a neighbour → the end of the link to it, while that is up."""
        self.subscribers: dict[Subscriber, None] = {}
        self.interests: dict[bytes, set[str]] = {}
        """Other hubs, with what they want as far as this one has been told."""
        self.mesh: Mesh[End] = Mesh(
            hub,
            f"hub-{hub.hex()[:4]}",
            on_trees=self._forget_routes,
            on_interest=self._interest,
            on_due=self._due_on,
            on_clash=self._take_for_another,
            limits=limits,
        )
        self._clock, self._offset_s, self._truth = clock, offset_s, truth
        self._filter = Filter()
        self._due: dict[End, None] = {}
        # End → where its last message entered, and the turnover at which it was taken; -1: it was refused.
        self._accepted: dict[End, tuple[Origin, int]] = {}
        self._routes: dict[tuple[bytes, str], tuple[End, ...]] = {}
        self._wanting: dict[str, list[bytes]] = {}
        self._alarm_s = inf

    @property
    def filter(self) -> set[str]:
        return set(self._filter.minimal)

    # What the network does.

    def link_up(self, end: End, far: bytes) -> None:
        before = self.ends.get(far)
        if before is not None:
            before.close()
        self.ends[far] = end
        self.mesh.link_up(end, far, cost=end.link.cost)

    def link_down(self, end: End) -> None:
        if self.is_alive:
            del self.ends[end.far.node.id]
            self._due.pop(end, None)
            self._accepted.pop(end, None)
            self.mesh.link_down(end)

    def receive(self, end: End, item: Message | Origin | Announcement | Digest | Wanted) -> None:
        if isinstance(item, Message):
            self._take(end, item)
        elif isinstance(item, Origin):
            end.heard = item
            if item.hub == self.id:
                self.mesh.hear(end, item)
        else:
            self.mesh.hear(end, item)

    def end_turn(self) -> None:
        if not self.is_alive:
            return
        due_s = self.mesh.check(self._now_s)
        for end, (heard, turnover) in self._accepted.items():
            if turnover == self.mesh.upstreams.turnover and not self.mesh.accepts(end, *heard):
                raise BrokenPromiseError(f"{self.id.hex()[:8]} remembers that it takes what it takes no more")
        if due_s <= self._now_s:
            raise BrokenPromiseError(f"{self.id.hex()[:8]} has done what is due, and says that there is more at once")
        if due_s < self._alarm_s:
            self._alarm_s = due_s
            # A timer is not exact, neither is the difference of two clocks: it may be early, but not by nothing at all.
            self._clock.at(max(due_s - self._offset_s, self._clock.now_s + _TICK_S), self._alarm)
        while self._due:
            end, _ = self._due.popitem()
            self._tell(end)

    def crash(self) -> None:
        self.is_alive = False

    # What its clients do.

    def subscribe(self, subscriber: Subscriber) -> None:
        self.subscribers[subscriber] = None
        self._change(self._filter.add(subscriber.prefix))

    def unsubscribe(self, subscriber: Subscriber) -> None:
        del self.subscribers[subscriber]
        self._change(self._filter.discard(subscriber.prefix))

    def publish(self, message: Message) -> None:
        self._deliver(message)
        for end in self._route(self.id, message.topic):
            self._send(end, message)

    # Within.

    @property
    def _now_s(self) -> float:
        return self._clock.now_s + self._offset_s

    def _alarm(self) -> None:
        self._alarm_s = inf
        self.end_turn()

    def _change(self, change: Change) -> None:
        if change.added or change.removed:
            self.mesh.change(change)
            self.end_turn()

    def _take(self, end: End, message: Message) -> None:
        origin, epoch = end.heard
        is_taken = self.mesh.accepts(end, origin, epoch)
        self._accepted[end] = end.heard, self.mesh.upstreams.turnover if is_taken else -1
        if not is_taken:
            self._truth.refuse(self.id, message, is_lost=self.mesh.upstreams.is_lost(end, origin, epoch))
            self.mesh.refuse(end, end.heard, 1)
            return
        self._truth.take(self.id, message, origin, epoch)
        is_wanted = self._deliver(message)
        ends = self._route(origin, message.topic)
        if not is_wanted and not ends:
            self._truth.useless(self.id, message)
        for onward in ends:
            self._send(onward, message)

    def _deliver(self, message: Message) -> bool:
        wanting = [each for each in self.subscribers if message.topic.startswith(each.prefix)]
        for subscriber in wanting:
            self._truth.deliver(subscriber, message)
        return bool(wanting)

    def _send(self, end: End, message: Message) -> None:
        self._tell(end)
        end.send_message(message)

    def _tell(self, end: End) -> None:
        self._due.pop(end, None)
        for item in self.mesh.take(end):
            self.send(end, item)

    def send(self, end: End, item: Announcement | Digest | Wanted | Origin) -> None:
        if isinstance(item, Origin):
            end.said = item
        end.send(item)

    def _route(self, origin: bytes, topic: str) -> tuple[End, ...]:
        route = self._routes.get((origin, topic))
        if route is None:
            route = self._routes[origin, topic] = self.mesh.onward(origin, self._hubs_wanting(topic))
        return route

    def _hubs_wanting(self, topic: str) -> Iterable[bytes]:
        wanting = self._wanting.get(topic)
        if wanting is None:
            wanting = self._wanting[topic] = [
                hub for hub, prefixes in self.interests.items() if any(topic.startswith(prefix) for prefix in prefixes)
            ]
        return wanting

    def _forget_routes(self) -> None:
        self._routes.clear()

    def _interest(self, hub: bytes, change: Interests, _: End | None) -> None:
        prefixes = self.interests.setdefault(hub, set())
        prefixes.difference_update(change.removed)
        prefixes.update(change.added)
        if not prefixes:
            del self.interests[hub]
        self._routes.clear()
        self._wanting.clear()

    def _take_for_another(self, number: int) -> None:
        raise BrokenPromiseError(f"{self.id.hex()[:8]} takes what it has said itself for another hub's: {number}")

    def _due_on(self, end: End) -> None:
        self._due[end] = None


QUIET_S = 3.0  # After so long without a change, every hub agrees and nothing is lost

_EXPECTED_PUBLISHER = -1  # The publisher of each site that publishes what must arrive

# Until then a message has arrived, on a quiet network: no link stalls any more, and delays are far below
_ARRIVAL_S = 5.0


class Ending(Enum):
    CLOSED = "closed"
    """One side closes."""
    RESET = "reset"
    """Both sides know at once; what is under way is lost."""
    HALF_SILENT = "half silent"
    """What one side sends is lost; the other one knows after a while."""
    SILENT = "silent"
    """What both sides send is lost; both know after a while."""


class Cable:
    """Two sites between which there can be a link."""

    def __init__(self, sites: tuple[int, int], delay_s: float, cost: int) -> None:
        self.sites = sites
        self.delay_s = delay_s
        self.cost = cost
        self.link: Link | None = None


class World:
    """A network of hubs."""

    def __init__(
        self,
        hubs: int,
        cables: Iterable[tuple[int, int, float]],
        seed: int = 0,
        costs: Sequence[int] = (1,),
        *,
        limits: Sequence[MeshLimits] = (MeshLimits(),),
    ) -> None:
        self._limits = limits
        self.clock = Clock()
        self.truth = Truth(useless=limits != (MeshLimits(),))
        self._chance = Random(seed)  # noqa: S311 -- the same each time
        self.sites = [self._new_hub() for _ in range(hubs)]
        self.cables = [Cable((a, b), delay_s, self._chance.choice(costs)) for a, b, delay_s in cables]
        # All links that one end at least takes for open; also such as a cable has no more.
        self._links: list[Link] = []
        self._numbers: dict[tuple[bytes, int], tuple[int, int]] = {}
        # When the last link has stopped to stall, and the last transport to be full.
        self._disturbed_s = 0.0
        self._subscribers: list[tuple[Hub, Subscriber]] = []
        self._subscribed = 0
        self._publishers = 0
        for cable in self.cables:
            self.connect(cable)

    # Links.

    def connect(self, cable: Cable) -> None:
        ends = [self.sites[site] for site in cable.sites]
        if not all(hub.is_alive for hub in ends):
            return
        if cable.link is not None and not cable.link.is_loose:
            return
        cable.link = Link(self.clock, (ends[0], ends[1]), cable.delay_s, cable.cost)
        self._links = [link for link in self._links if not link.is_over]
        self._links.append(cable.link)

    def cut(self, cable: Cable, ending: Ending, side: int = 0) -> None:
        if cable.link is not None and not cable.link.is_over:
            _end(cable.link, ending, side)

    def stall(self, cable: Cable, side: int, time_s: float) -> None:
        if cable.link is not None:
            cable.link.stall(side, time_s)
            self._disturb(time_s + cable.delay_s)

    def fill(self, cable: Cable, side: int, time_s: float) -> None:
        if cable.link is not None:
            end = cable.link.ends[side]
            if not end.is_full:
                end.is_full = True
                self.clock.after(time_s, end.relax)
                self._disturb(time_s)

    def _disturb(self, time_s: float) -> None:
        self._disturbed_s = max(self._disturbed_s, self.clock.now_s + time_s)

    def part(self, sites: Iterable[int], ending: Ending) -> None:
        inside = set(sites)
        for cable in self.cables:
            if len(inside.intersection(cable.sites)) == 1:
                self.cut(cable, ending)

    def heal(self) -> None:
        for cable in self.cables:
            self.connect(cable)

    # Hubs.

    def crash(self, site: int, ending: Ending) -> None:
        hub = self.sites[site]
        if not hub.is_alive:
            return
        hub.crash()
        self._subscribers = [each for each in self._subscribers if each[0] is not hub]
        for link in self._links:
            for side, end in enumerate(link.ends):
                if end.node is hub and end.is_open:
                    _end(link, ending, side)
                    end.lose()

    def restart(self, site: int) -> None:
        if self.sites[site].is_alive:
            return
        self.sites[site] = self._new_hub()
        for cable in self.cables:
            if site in cable.sites:
                self.connect(cable)

    # Clients.

    def subscribe(self, site: int, prefix: str) -> None:
        hub = self.sites[site]
        if hub.is_alive:
            self._subscribed += 1
            subscriber = Subscriber(self._subscribed, prefix)
            self._subscribers.append((hub, subscriber))
            hub.subscribe(subscriber)

    def unsubscribe(self, number: int) -> None:
        if self._subscribers:
            hub, subscriber = self._subscribers.pop(number % len(self._subscribers))
            hub.unsubscribe(subscriber)

    def publish(self, site: int, topic: str, publisher: int = 0) -> None:
        hub = self.sites[site]
        if hub.is_alive:
            self._publish(hub, self._next_message(hub, publisher, topic))

    # What must hold.

    def run_for(self, time_s: float) -> None:
        self.clock.run_for(time_s)

    def settle(self, publishers: Sequence[int], topics: Sequence[str]) -> None:
        """Let the network be quiet, and ask that all agree, and that all that is published then arrives, also later."""
        self.run_for(max(0.0, self._disturbed_s - self.clock.now_s))
        if not all(link.is_up or link.is_over for link in self._links):
            self.run_for(SILENT_S + 1.0)
        self.run_for(QUIET_S)
        components = self._components()
        self.check_agreement(components)
        for _ in range(2):
            for site in publishers:
                for topic in topics:
                    self._publish_expected(components, site, topic)
            self.run_for(_ARRIVAL_S)
            self.truth.check()
        self.truth.forget_expected()

    def check_agreement(self, components: Sequence[Mapping[bytes, Hub]]) -> None:
        """Ask that each hub knows what is true of all that it can reach."""
        links = self._neighbours()
        for component in components:
            true_links = {hub: links[hub] for hub in component}
            interests = {hub.id: hub.filter for hub in component.values() if hub.filter}
            for hub in component.values():
                _check_links(hub, true_links)
                _check_interests(hub, component, links[hub.id], interests)

    def _publish_expected(self, components: Sequence[Mapping[bytes, Hub]], site: int, topic: str) -> None:
        hub = self.sites[site]
        if not hub.is_alive:
            return
        component = next(each for each in components if hub.id in each)
        message = self._next_message(hub, _EXPECTED_PUBLISHER, topic)
        wanting = [
            subscriber
            for other in component.values()
            for subscriber in other.subscribers
            if topic.startswith(subscriber.prefix)
        ]
        self.truth.expect(message, wanting)
        self._publish(hub, message)

    def _next_message(self, hub: Hub, publisher: int, topic: str) -> Message:
        # The clients of a hub that has crashed are gone with it: what connects to the next one is a new publisher.
        key = hub.id, publisher
        if key not in self._numbers:
            self._publishers += 1
            self._numbers[key] = self._publishers, 0
        publisher_id, number = self._numbers[key]
        self._numbers[key] = publisher_id, number + 1
        return Message(hub.id, hub.mesh.origin.epoch, publisher_id, number, topic)

    def _publish(self, hub: Hub, message: Message) -> None:
        self.truth.publish(message, hub.id)
        hub.publish(message)
        hub.end_turn()

    def _new_hub(self) -> Hub:
        offset_s = self._chance.uniform(0.0, 1e5)
        limits = self._limits[0] if len(self._limits) == 1 else self._chance.choice(self._limits)
        return Hub(self._chance.randbytes(16), self.clock, offset_s, self.truth, limits)

    def _neighbours(self) -> dict[bytes, set[bytes]]:
        links: dict[bytes, set[bytes]] = {hub.id: set() for hub in self.sites if hub.is_alive}
        for link in self._links:
            if link.is_up:
                a, b = (end.node.id for end in link.ends)
                links[a].add(b)
                links[b].add(a)
        return links

    def _components(self) -> list[dict[bytes, Hub]]:
        links = self._neighbours()
        hubs = {hub.id: hub for hub in self.sites if hub.is_alive}
        components = []
        while hubs:
            first = next(iter(hubs))
            component: dict[bytes, Hub] = {}
            ahead = [first]
            while ahead:
                hub = ahead.pop()
                if hub in hubs:
                    component[hub] = hubs.pop(hub)
                    ahead.extend(links[hub])
            components.append(component)
        return components


def _end(link: Link, ending: Ending, side: int) -> None:
    match ending:
        case Ending.CLOSED:
            link.close(side)
        case Ending.RESET:
            link.reset()
        case Ending.HALF_SILENT:
            link.silence(side)
        case Ending.SILENT:
            link.silence(side)
            link.silence(1 - side)


def _check_links(hub: Hub, true_links: Mapping[bytes, set[bytes]]) -> None:
    reached = set(hub.mesh.graph.reached)
    if reached != set(true_links):
        raise BrokenPromiseError(
            f"{hub.id.hex()[:8]} believes that it can reach {len(reached)} hubs, and can reach {len(true_links)}"
        )
    for other, neighbours in true_links.items():
        if set(hub.mesh.graph.links.get(other, ())) != neighbours:
            raise BrokenPromiseError(f"{hub.id.hex()[:8]} believes in other links of {other.hex()[:8]} than there are")


def _check_interests(
    hub: Hub, component: Mapping[bytes, Hub], neighbours: set[bytes], true_interests: Mapping[bytes, set[str]]
) -> None:
    believed = {other: wants for other, wants in hub.interests.items() if other in component}
    expected = {
        other: _expected(hub, other, [component[one] for one in neighbours], true_interests.get(other, set()))
        for other in component
        if other != hub.id
    }
    expected = {other: wants for other, wants in expected.items() if wants}
    if believed != expected:
        wrong = [other.hex()[:8] for other in component if believed.get(other) != expected.get(other)]
        raise BrokenPromiseError(f"{hub.id.hex()[:8]} does not know what is wanted at {', '.join(wrong[:5])}")


def _expected(hub: Hub, other: bytes, neighbours: Sequence[Hub], wants: set[str]) -> set[str]:
    record = hub.mesh.records[other]
    if record.is_whole:
        return wants
    can_know = any(one.mesh.records[other].is_whole for one in neighbours)
    if record.is_cut:
        others = hub.mesh.statistics().prefixes - len(record.wants)
        can_know &= len(wants) <= min(hub.limits.prefixes, hub.limits.prefixes_total - others)
    return wants if can_know else {""} | set(record.wants)
