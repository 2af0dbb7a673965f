"""`Traffic`: which messages a hub takes from its links, on which links they go on, and which are lost here.

```
a message of an origin and epoch ─▶ Upstreams: is it taken from this link? ─┬─ yes ─▶ onward(origin, hubs that want it)
                                                                            └─ no ──▶ refuse: overtaken, or repeated
no link leads to a hub that wants it                                              ─▶ misses: unreached
```

Messages go by links that are announced, this hub's own included. Callers remember the answers of `accepts`, `onward`
and `misses` until `on_trees`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from hub.mesh.graph import Graph
from hub.mesh.link_state import LinkState
from hub.mesh.upstream import Upstreams
from hub.messages.origin import Origin

L = TypeVar("L")


class Traffic(Generic[L]):
    """The messages that one hub's links bring, and those that leave by them. `Mesh` changes what is shared with it.

    Args:
        links: The id of a neighbour → the link to it.
        graph: Which hubs are linked.
        knowledge: What each hub has announced.
        on_trees: As for `Mesh`.
        on_ahead: Called with a link whose far side is to hear a newer epoch of its own, which others have said.
    """

    __slots__ = (
        "_ahead",
        "_graph",
        "_is_asked",
        "_link_state",
        "_links",
        "_on_ahead",
        "_on_trees",
        "_overtaken",
        "overtaken_messages",
        "repeated_messages",
        "unreached_messages",
        "upstreams",
    )

    def __init__(
        self,
        links: Mapping[bytes, L],
        graph: Graph,
        knowledge: LinkState[L],
        *,
        on_trees: Callable[[], object],
        on_ahead: Callable[[L, Origin], object],
    ) -> None:
        self._links, self._graph, self._link_state = links, graph, knowledge
        self._on_trees, self._on_ahead = on_trees, on_ahead
        self.upstreams: Upstreams[L] = Upstreams()
        # Whether somebody may remember an answer of `onward`.
        self._is_asked = False
        # Messages that were not taken: those that a newer epoch has overtaken are lost here; the repeated ones may have
        # come by another link.
        self.overtaken_messages = self.repeated_messages = 0
        # Messages for a hub to which no link leads from here.
        self.unreached_messages = 0
        # Link → the newer epoch last sent to the hub at its far side.
        self._ahead: dict[L, Origin] = {}
        # Link → how many overtaken messages it has brought since `take_overtaken`.
        self._overtaken: dict[L, int] = {}

    def leave(self, link: L) -> None:
        """A link is gone."""
        self.upstreams.leave(link)
        self._overtaken.pop(link, None)
        self._ahead.pop(link, None)

    def tell_of_trees(self) -> None:
        """Answers of `onward` may be others now."""
        if self._is_asked:
            self._is_asked = False
            self._on_trees()

    # What is taken.

    def accepts(self, link: L, origin: bytes, epoch: int) -> bool:
        """Return whether a message that comes by a link is taken."""
        knowledge = self._link_state
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
        """Return whether a message that was not taken is lost for sure, as a newer epoch has overtaken it."""
        return self.upstreams.is_lost(link, origin, epoch)

    def take_overtaken(self, link: L) -> int:
        """Return how many overtaken messages a link has brought since the last call."""
        return self._overtaken.pop(link, 0)

    # Where it goes on.

    def onward(self, origin: bytes, wanting: Iterable[bytes]) -> tuple[L, ...]:
        """Return the links on which a message of `origin` goes on, so that it reaches the hubs that want it."""
        self._is_asked = True
        beneath, links = self._graph.beneath(origin), self._links
        return tuple(links[hop] for hop in sorted({beneath[hub] for hub in wanting if hub in beneath}) if hop in links)

    def misses(self, origin: bytes, wanting: Iterable[bytes]) -> bool:
        """Return whether a message of `origin` misses a hub that wants it, since no link leads there.

        What entered at another hub goes on to the hubs beneath this one only.
        """
        beneath, links = self._graph.beneath(origin), self._links
        if origin == self._link_state.own.hub:
            return any(beneath.get(hub) not in links for hub in wanting)
        return any(hub in beneath and beneath[hub] not in links for hub in wanting)

    def way_to(self, hub: bytes) -> tuple[int, L] | None:
        """Return how far away another hub is, and the link that leads there; None if it cannot be reached."""
        tree, links = self._graph.tree, self._graph.links
        far, first, at = 0, hub, hub
        while at != self._link_state.own.hub:
            before = tree.get(at)
            if before is None:
                return None
            far, first, at = far + links[before][at], at, before
        link = self._links.get(first)
        return None if link is None else (far, link)
