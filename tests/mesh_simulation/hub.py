"""`Hub`: a hub as far as the mesh is concerned: a `Mesh` with links, its own subscribers by prefix, and routes.

```
own publisher ─▶ publish ─┐                         ┌─▶ own subscribers
link ─▶ accepts? ─────────┴─▶ route(origin, topic) ─┴─▶ onward(origin, who wants it): ORIGIN if it has changed, message
```

What a route was found to be is remembered until the mesh says that it holds no more, as the real hub does; so what the
mesh forgets to say shows as a message that is lost. Announcements that are due on a link go before any message that is
routed later.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import ClassVar, NamedTuple

from hub.filter import Change, Filter
from hub.limits import MeshLimits
from hub.mesh.announcement import Announcement, Digest, Interests, Wanted
from hub.mesh.mesh import Mesh
from tests.mesh_simulation.network import Clock, End, Message, Origin
from tests.mesh_simulation.truth import BrokenPromiseError, Truth

__all__ = ["Hub", "Subscriber"]

_TICK_S = 0.001
"""How exact a timer is."""


class Subscriber(NamedTuple):
    number: int
    prefix: str


class Hub:
    """One hub, from its start to its end.

    Args:
        hub: Its id.
        clock: The time of the network.
        offset_s: How much the clock of this hub is ahead; hubs do not compare their clocks.
        truth: Who is told of what becomes of messages.
        limits: How much it keeps of what others want.
    """

    mesh_type: ClassVar[type[Mesh[End]]] = Mesh
    """What makes its mesh; a benchmark has one that looks at the time."""

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
        self.mesh: Mesh[End] = self.mesh_type(
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
        if not self.mesh.traffic.accepts(end, origin, epoch):
            self._truth.refuse(self.id, message, is_lost=self.mesh.traffic.is_lost(end, origin, epoch))
            self.mesh.traffic.refuse(end, end.heard, 1)
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
            route = self._routes[origin, topic] = self.mesh.traffic.onward(origin, self._hubs_wanting(topic))
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
