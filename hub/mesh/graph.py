"""`Graph`: which hubs are linked, and on which links of this hub a message goes on.

A link counts if both of its hubs tell of it; its cost is the larger one that they tell. So nobody can pretend to be
near somebody who does not agree, and a hub that is gone is out of the graph as soon as its neighbours say so.

Owner: `Mesh`. Invariant: trees are made for what `links` was at the last change; none is kept beyond the next one.
Cost: a change 1 µs a link of the mesh; a tree, when it is first asked for, 3 µs a link; then one dictionary hit for
each hub that wants a message. A hub with one link makes no tree but its own: nothing goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hub.mesh.graph_change import GraphChange, difference
from hub.mesh.record import Record
from hub.mesh.tree import onward, parents

__all__ = ["Graph"]

_TREES_LIMIT = 4_096
"""Most trees that are kept: one for each hub that publishes."""


class Graph:
    """The mesh as this hub knows it.

    Args:
        hub: This hub.
    """

    __slots__ = ("_hub", "_links", "_onward", "_parents")

    def __init__(self, hub: bytes) -> None:
        self._hub = hub
        # Each hub that is known, with its links; replaced as a whole.
        self._links: dict[bytes, dict[bytes, int]] = {hub: {}}
        # The tree of this hub's own messages.
        self._parents: dict[bytes, bytes] = {hub: hub}
        # Origin → hub beneath this one → the neighbour that leads there; made when it is asked for.
        self._onward: dict[bytes, dict[bytes, bytes]] = {}

    def update(self, records: Mapping[bytes, Record]) -> GraphChange | None:
        """Hubs have told of links, or are forgotten; return what has become of the graph, None if it is the same."""
        links = {
            hub: {
                other: max(cost, back)
                for other, cost in record.neighbours.items()
                if (far := records.get(other)) is not None
                and (back := far.neighbours.get(hub)) is not None
                and other != hub
            }
            for hub, record in records.items()
        }
        if links == self._links:
            return None
        change = difference(self._links, links)
        self._links = links
        self._onward.clear()
        self._parents = parents(self._hub, links)
        return change

    @property
    def links(self) -> Mapping[bytes, Mapping[bytes, int]]:
        """Hub → the hubs that it is linked with → cost."""
        return self._links

    @property
    def reached(self) -> Mapping[bytes, bytes]:
        """The hubs that can be reached, nearest first, each with the one before it on the way from here."""
        return self._parents

    def next_hops(self, origin: bytes, wanting: Iterable[bytes]) -> set[bytes]:
        """Return the neighbours to which a message of `origin` goes on, so that it reaches the hubs that want it."""
        beneath = self._onward.get(origin)
        if beneath is None:
            beneath = self._onward_of(origin)
        return {hop for hub in wanting if (hop := beneath.get(hub)) is not None}

    def _onward_of(self, origin: bytes) -> dict[bytes, bytes]:
        if len(self._onward) >= _TREES_LIMIT:
            self._onward.clear()
        if origin == self._hub:
            beneath = onward(self._hub, self._parents)
        elif len(self._links.get(self._hub, ())) <= 1 or origin not in self._parents:
            beneath = {}
        else:
            beneath = onward(self._hub, parents(origin, self._links))
        self._onward[origin] = beneath
        return beneath
