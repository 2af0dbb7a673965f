"""`Traffic`: which messages a hub takes of its links, on which links they go on, and what becomes of the others.

```
a message of an origin and epoch ─▶ Upstreams: is it taken of this link? ─┬─ yes ─▶ onward(origin, who wants it)
                                                                          └─ no ──▶ refuse: overtaken, or repeated
who wants it, and no link leads there ─▶ left_behind: it came for them;  unreached: it entered the mesh here
```

**Messages go by what is announced**, of this hub's own links, too: so the far side of each link can know by which ways
a message was sent to it, and count it if it does not go on by them (`left_behind`).

Owner: `Mesh`, which also changes what is read here: links, graph, views and records. No clock: times are arguments.
Invariant: each message that is not taken, or that does not go on to a hub that wants it, is in one of the counters.
Cost: `accepts` and `onward` are asked once for each change of origin and route; their answers are remembered by whoever
asks, until `on_trees`.

Not here: what hubs tell each other (`hub.mesh.mesh`), who wants a message at this hub (`hub.routes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from hub.mesh.far_views import FarViews
from hub.mesh.graph import Graph
from hub.mesh.hops import Hops
from hub.mesh.knowledge import Knowledge
from hub.mesh.pace import Pace
from hub.mesh.upstream import Upstreams
from hub.origin import Origin, Way

__all__ = ["STRANDED_EVERY_S", "Traffic"]

L = TypeVar("L")

STRANDED_EVERY_S: Final = 1.0
"""How often it is told at most that messages did not go on, seconds."""


class Traffic(Generic[L]):
    """The messages that one hub's links bring, and those that leave by them.

    Args:
        links: The id of a neighbour → the link to it.
        graph: Which hubs are linked.
        knowledge: What each hub has told.
        views: What the far sides of links know.
        on_trees: As for `Mesh`.
        on_check: As for `Mesh`.
        on_stranded: As for `Mesh`.
        on_ahead: Called with a link whose far side is to be told that others have said a newer epoch of it, and that.
    """

    __slots__ = (
        "_ahead",
        "_far_hops",
        "_graph",
        "_is_asked",
        "_knowledge",
        "_links",
        "_on_ahead",
        "_on_check",
        "_on_stranded",
        "_on_trees",
        "_overtaken",
        "_stranded",
        "_stranded_pace",
        "_views",
        "overtaken_messages",
        "repeated_messages",
        "stranded_messages",
        "unreached_messages",
        "upstreams",
    )

    def __init__(  # noqa: PLR0913 -- what the mesh shares with it, and what it is told of the outside
        self,
        links: Mapping[bytes, L],
        graph: Graph,
        knowledge: Knowledge[L],
        views: FarViews[L],
        *,
        on_trees: Callable[[], object],
        on_check: Callable[[], object],
        on_stranded: Callable[[Mapping[bytes, int]], object],
        on_ahead: Callable[[L, Origin], object],
    ) -> None:
        self._links, self._graph, self._knowledge, self._views = links, graph, knowledge, views
        self._on_trees, self._on_check, self._on_stranded = on_trees, on_check, on_stranded
        self._on_ahead = on_ahead
        self.upstreams: Upstreams[L] = Upstreams()
        # Number of a view of a far side → the ways by which messages are sent there.
        self._far_hops: dict[int, Hops] = {}
        # Whether `onward` was asked since `on_trees` was called last, so that somebody may remember what it said.
        self._is_asked = False
        # How many messages were not taken since the start: some that a newer epoch has overtaken, so that they are lost
        # here; others of which nobody can tell, as they may have come by another link.
        self.overtaken_messages = self.repeated_messages = 0
        # How many messages have entered here for hubs that could not be reached, once for each such hub.
        self.unreached_messages = 0
        # How many messages have come for hubs to which nothing leads on from here any more, once for each such hub;
        # hub → how many of them nobody was told yet.
        self.stranded_messages = 0
        self._stranded: dict[bytes, int] = {}
        self._stranded_pace = Pace(1, STRANDED_EVERY_S)
        # Link → the newer epoch of which the hub at its far side was told last.
        self._ahead: dict[L, Origin] = {}
        # Link → how many messages it has brought that were overtaken, of those that nobody has asked for yet.
        self._overtaken: dict[L, int] = {}

    # Links, as the mesh knows them.

    def leave(self, link: L) -> None:
        """A link is gone."""
        self.upstreams.leave(link)
        self._overtaken.pop(link, None)
        self._ahead.pop(link, None)

    def forget_views(self) -> None:
        """What far sides know has changed: messages are sent here by other ways."""
        self._far_hops.clear()
        self.upstreams.turnover += 1

    def tell_of_trees(self) -> None:
        """Answers of `onward` may be others now; who has asked for none since the last time need not know."""
        if self._is_asked:
            self._is_asked = False
            self._on_trees()

    # What is taken.

    def accepts(self, link: L, origin: bytes, epoch: int) -> bool:
        """Return whether a message that comes by a link is taken here, which its origin and epoch decide."""
        knowledge = self._knowledge
        if origin == knowledge.own.hub or origin not in knowledge.records:
            return False
        return self.upstreams.accepts(link, origin, epoch, self._links.get(origin))

    def refuse(self, link: L, origin: Origin, messages: int) -> None:
        """Count messages that were not taken; a hub that brings its own ones is told what others have said of it."""
        ahead = self.upstreams.ahead(origin) if self._links.get(origin.hub) is link else None
        if ahead is not None and self._ahead.get(link) != ahead:
            self._ahead[link] = ahead
            self._on_ahead(link, ahead)
        if self.is_lost(link, origin.hub, origin.epoch):
            self.overtaken_messages += messages
            self._overtaken[link] = self._overtaken.get(link, 0) + messages
        else:
            self.repeated_messages += messages

    def is_lost(self, link: L, origin: bytes, epoch: int) -> bool:
        """Return whether a message that was not taken is lost here for sure, as a newer epoch has overtaken it."""
        return self.upstreams.is_lost(link, origin, epoch)

    def take_overtaken(self, link: L) -> int:
        """Return how many messages that a link has brought were lost since the last call, as they were overtaken."""
        return self._overtaken.pop(link, 0)

    # Where it goes on.

    def onward(self, origin: bytes, wanting: Iterable[bytes]) -> tuple[L, ...]:
        """Return the links on which a message of `origin` goes on, so that it reaches the hubs that want it."""
        self._is_asked = True
        hops = self._graph.next_hops(origin, wanting)
        return tuple(self._links[hop] for hop in sorted(hops) if hop in self._links)

    def way(self, link: L, origin: bytes) -> Way:
        """Return what decides where messages of `origin` go on that a link brings; while it is the same, so is that."""
        number = self._views.number(link)
        return (origin, number) if number else origin

    def way_to(self, hub: bytes) -> tuple[int, L] | None:
        """Return how far away another hub is, and the link that leads there; None if it cannot be reached."""
        tree, links = self._graph.tree, self._graph.links
        far, first, at = 0, hub, hub
        while at != self._knowledge.own.hub:
            before = tree.get(at)
            if before is None:
                return None
            far, first, at = far + links[before][at], at, before
        link = self._links.get(first)
        return None if link is None else (far, link)

    # What does not.

    def left_behind(self, way: Way, wanting: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return those of the hubs that want a message for which it was sent here, and to which it does not go on.

        Whoever has sent it did not know that, or the link that leads there is gone and nobody was told yet.
        """
        links = self._links
        if isinstance(way, bytes):
            if links.keys() >= self._knowledge.own.neighbours.keys():
                return ()
            now = self._graph.beneath(way)
            return tuple(hub for hub in wanting if hub in now and now[hub] not in links)
        origin, number = way
        now, before = self._graph.beneath(origin), self._far_beneath(number, origin)
        here = self._knowledge.own.hub
        return tuple(hub for hub in wanting if before.get(hub) == here and now.get(hub) not in links)

    def _far_beneath(self, number: int, origin: bytes) -> Mapping[bytes, bytes]:
        """Return hub beneath a neighbour of this one, as that one knows the mesh → the hub by which it sends there."""
        view = self._views.view(number)
        if view is None:
            return {}
        hops = self._far_hops.get(number)
        if hops is None:
            hops = self._far_hops[number] = self._graph.hops_of(view, self._knowledge.records)
        return hops.beneath(origin)

    def unreached(self, wanting: Iterable[bytes]) -> tuple[bytes, ...]:
        """Return those hubs to which nothing leads that enters here."""
        now = self._graph.beneath(self._knowledge.own.hub)
        return tuple(hub for hub in wanting if now.get(hub) not in self._links)

    def strand(self, hub: bytes, messages: int) -> None:
        """Count messages that have come, and do not go on to a hub that wants them (`left_behind`)."""
        self.stranded_messages += messages
        if not self._stranded:
            self._on_check()
        self._stranded[hub] = self._stranded.get(hub, 0) + messages

    def leave_out(self, _: bytes, messages: int) -> None:
        """Count messages that have entered here, and do not go on to a hub that wants them (`unreached`)."""
        self.unreached_messages += messages

    def tell_stranded(self, now_s: float) -> None:
        """Tell how many messages did not go on, if that is due."""
        if self._stranded and self._stranded_pace.ready_s(now_s) <= now_s:
            self._stranded_pace.use(now_s)
            stranded, self._stranded = self._stranded, {}
            self._on_stranded(stranded)

    def due_s(self, now_s: float) -> float:
        """Return when `tell_stranded` has something to tell; infinite for never."""
        return self._stranded_pace.ready_s(now_s) if self._stranded else float("inf")
