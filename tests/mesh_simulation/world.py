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
from random import Random

from hub.limits import MeshLimits
from tests.mesh_simulation.hub import Hub, Subscriber
from tests.mesh_simulation.network import SILENT_S, Clock, Link, Message
from tests.mesh_simulation.truth import BrokenPromiseError, Truth

__all__ = ["QUIET_S", "Cable", "Ending", "World"]

QUIET_S = 3.0
"""After so long without a change, every hub agrees and nothing is lost."""

_EXPECTED_PUBLISHER = -1
"""The publisher of each site that publishes what must arrive."""

_ARRIVAL_S = 5.0
"""Until then a message has arrived, on a quiet network: no link stalls any more, and delays are far below."""


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
    """Two sites between which there can be a link.

    Args:
        sites: Their numbers.
        delay_s: How long what is sent takes.
        cost: What the link costs in the trees.
    """

    def __init__(self, sites: tuple[int, int], delay_s: float, cost: int) -> None:
        self.sites = sites
        self.delay_s = delay_s
        self.cost = cost
        self.link: Link | None = None


class World:
    """A network of hubs.

    Args:
        hubs: How many.
        cables: Between which of them, with delays in seconds.
        seed: Of ids and of the clocks of hubs.
        hub_type: What makes a hub.
        costs: One of these is drawn for each cable.
        limits: One of these is drawn for each hub.
    """

    def __init__(
        self,
        hubs: int,
        cables: Iterable[tuple[int, int, float]],
        seed: int = 0,
        hub_type: type[Hub] = Hub,
        costs: Sequence[int] = (1,),
        *,
        limits: Sequence[MeshLimits] = (MeshLimits(),),
    ) -> None:
        self._limits = limits
        self._hub_type = hub_type
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
        """Let the network be quiet, and ask that all agree, and that all that is published then arrives, also later.

        Args:
            publishers: The sites at which is published.
            topics: What is published at each of them.

        Raises:
            BrokenPromiseError: They do not, or it does not.
        """
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
        """Ask that each hub knows what is true of all that it can reach.

        Raises:
            BrokenPromiseError: One does not.
        """
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
        return Message(hub.id, hub.mesh.epoch, publisher_id, number, topic)

    def _publish(self, hub: Hub, message: Message) -> None:
        self.truth.publish(message, hub.id)
        hub.publish(message)
        hub.end_turn()

    def _new_hub(self) -> Hub:
        offset_s = self._chance.uniform(0.0, 1e5)
        limits = self._limits[0] if len(self._limits) == 1 else self._chance.choice(self._limits)
        return self._hub_type(self._chance.randbytes(16), self.clock, offset_s, self.truth, limits)

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
