"""`Graph`: which hubs are linked, and on which links of this hub a message goes on.

A link counts if both of its hubs tell of it; its cost is the larger one that they tell. So nobody can pretend to be
near somebody who does not agree, and a hub that is gone is out of the graph as soon as its neighbours say so.

Owner: `Mesh`. Invariant: trees are made for what `links` was at the last change.
Cost: a change what the hub has links; trees: `hub.mesh.hops`; then one dictionary hit for each hub that wants a
message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from hub.mesh.far_views import FarView, Neighbours
from hub.mesh.graph_change import GraphChange, difference
from hub.mesh.hops import Hops
from hub.mesh.record import Record
from hub.mesh.tree import parents, reached

__all__ = ["Graph"]


class Graph:
    """The mesh as this hub knows it.

    Args:
        hub: This hub.
    """

    __slots__ = ("_before", "_hops", "_hub", "_links", "_reached", "_tree", "changes")

    def __init__(self, hub: bytes) -> None:
        self._hub = hub
        # How often it has changed; it only grows.
        self.changes = 0
        # Each hub that is known, with its links; each link stands at both of its hubs.
        self._links: dict[bytes, dict[bytes, int]] = {hub: {}}
        # Hub → its links when `take_change` was called last, None if it was not known; of those changed since.
        self._before: dict[bytes, dict[bytes, int] | None] = {}
        # The hubs that can be reached; None until it is asked for.
        self._reached: set[bytes] | None = None
        # By which neighbours messages go on from here.
        self._hops = Hops(hub, self._links)
        # The tree of this hub, for people; None until it is asked for.
        self._tree: dict[bytes, bytes] | None = None

    def update(self, hub: bytes, records: Mapping[bytes, Record]) -> bool:
        """A hub has told of its links, or is forgotten; return whether that has changed the graph."""
        record = records.get(hub)
        links = None if record is None else _mutual(hub, records, _NO_VIEW)
        before = self._links.get(hub)
        if links == before:
            return False
        self._note(hub)
        for other in _differing(before or {}, links or {}):
            self._note(other)
        _replace(self._links, hub, links or {})
        if links is None:
            del self._links[hub]
        self._hops = Hops(self._hub, self._links)
        self._reached = self._tree = None
        self.changes += 1
        return True

    def _note(self, hub: bytes) -> None:
        """Keep what the links of a hub were, before they change."""
        if hub not in self._before:
            links = self._links.get(hub)
            self._before[hub] = links

    def take_change(self) -> GraphChange | None:
        """Return what has become of the graph since the last call; None if it is the same."""
        if not self._before:
            return None
        before = {hub: links for hub, links in self._before.items() if links is not None}
        now = {hub: self._links[hub] for hub in self._before if hub in self._links}
        self._before.clear()
        change = difference(before, now)
        return change if any(change) else None

    @property
    def links(self) -> Mapping[bytes, Mapping[bytes, int]]:
        """Hub → the hubs that it is linked with → cost."""
        return self._links

    @property
    def reached(self) -> AbstractSet[bytes]:
        """The hubs that can be reached, this one with them."""
        if self._reached is None:
            self._reached = reached(self._hub, self._links)
        return self._reached

    @property
    def tree(self) -> Mapping[bytes, bytes]:
        """Each hub that can be reached → the one before it on the way from this hub, nearest first (`parents`)."""
        if self._tree is None:
            self._tree = parents(self._hub, self._links)
        return self._tree

    def next_hops(self, origin: bytes, wanting: Iterable[bytes]) -> set[bytes]:
        """Return the neighbours to which a message of `origin` goes on, so that it reaches the hubs that want it."""
        beneath = self.beneath(origin)
        return {hop for hub in wanting if (hop := beneath.get(hub)) is not None}

    def beneath(self, origin: bytes) -> Mapping[bytes, bytes]:
        """Return hub beneath this one in the tree of `origin` → the neighbour that leads there."""
        return self._hops.beneath(origin)

    def hops_of(self, view: FarView, records: Mapping[bytes, Record]) -> Hops:
        """Return by which neighbours messages go on from another hub, as that one knows the mesh.

        Args:
            view: What it knows.
            records: What is known here of each hub.
        """
        links = dict(self._links)
        for hub in view.neighbours:
            if hub in records:
                _replace(links, hub, _mutual(hub, records, view.neighbours))
        return Hops(view.hub, links)


_NO_VIEW: Final[Mapping[bytes, Neighbours]] = {}


def _mutual(hub: bytes, records: Mapping[bytes, Record], view: Mapping[bytes, Neighbours]) -> dict[bytes, int]:
    """Return the links of which both of their hubs tell.

    Args:
        hub: Whose links.
        records: What each hub tells.
        view: Hub → the links of which it tells instead.
    """

    def told(one: bytes) -> Neighbours:
        neighbours = view.get(one)
        return records[one].neighbours if neighbours is None else neighbours

    return {
        other: max(cost, back)
        for other, cost in told(hub).items()
        if other in records and other != hub and (back := told(other).get(hub)) is not None
    }


def _replace(links: dict[bytes, dict[bytes, int]], hub: bytes, now: dict[bytes, int]) -> None:
    """Let a hub have other links, which their other hubs have as well. What a hub has is replaced, not changed."""
    before = links.get(hub, {})
    links[hub] = now
    for other in _differing(before, now):
        cost = now.get(other)
        if cost is None:
            links[other] = {one: cost for one, cost in links[other].items() if one != hub}
        else:
            links[other] = links[other] | {hub: cost}


def _differing(before: Mapping[bytes, int], now: Mapping[bytes, int]) -> list[bytes]:
    """Return the hubs to which there is another link than before, or none any more."""
    return [other for other in before.keys() | now.keys() if before.get(other) != now.get(other)]
