"""`Graph`: which hubs are linked, and to which neighbours a message goes on.

```
      origin         parents: for each hub the one before it on the shortest way from the origin; of several equally
     |      |        short ways, the one over the lowest id
     A      B
   |   |    |        onward, at A: C by C, D by D; nothing for B and E, which are not beneath A
   C   D    E
```

A link counts if both of its hubs announce it; its cost is the larger one of both. So no hub can pretend to be near
another one that does not agree, and a hub that is gone is out of the graph once its neighbours say so. All hubs that
know the same graph compute the same trees, 0.5 µs a link.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from typing import Final, NamedTuple

from hub.mesh.announcement import Record

Links = Mapping[bytes, Mapping[bytes, int]]  # Hub → the hubs that it is linked with → cost; the same in both directions

_TREES_LIMIT: Final = 4_096  # Most trees that are kept: one for each hub that publishes


# Trees.


def parents(origin: bytes, links: Links) -> dict[bytes, bytes]:
    """Return for each hub that can be reached the one before it, nearest first; the one before the origin is itself."""
    distance = {origin: 0}
    parent = {origin: origin}
    ordered: dict[bytes, bytes] = {}
    # Most links cost the same, so that distances are few: hubs wait by distance, and only distances are sorted.
    waiting = {0: [origin]}
    distances = [0]
    while distances:
        far = heappop(distances)
        for hub in waiting.pop(far):
            if distance[hub] != far:
                continue
            ordered[hub] = parent[hub]
            for other, cost in links.get(hub, {}).items():
                far_there = far + cost
                known = distance.get(other)
                if known is None or far_there < known:
                    distance[other] = far_there
                    parent[other] = hub
                    if far_there in waiting:
                        waiting[far_there].append(other)
                    else:
                        waiting[far_there] = [other]
                        heappush(distances, far_there)
                elif far_there == known and hub < parent[other]:
                    parent[other] = hub
    return ordered


def reached(hub: bytes, links: Links) -> set[bytes]:
    """Return the hubs that can be reached from `hub`, itself included. O(links), 0.3 µs each."""
    found = ahead = {hub}
    while ahead:
        ahead = set[bytes]().union(*(links.get(one, ()) for one in ahead)) - found
        found = found | ahead
    return found


def passed(parent: Mapping[bytes, bytes], wanting: Iterable[bytes]) -> set[bytes]:
    """Return the hubs that a message passes on its way to all that want it and can be reached, both ends included."""
    passed = set[bytes]()
    for hub in wanting:
        here = hub
        while here in parent and here not in passed:
            passed.add(here)
            here = parent[here]
    return passed


def onward(hub: bytes, parent: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return for each hub beneath `hub` in a tree, as `parents` returns it, the neighbour of `hub` that leads there."""
    if hub not in parent:
        return {}
    beneath: dict[bytes, bytes] = {}
    for other, before in parent.items():
        if other == hub:
            continue
        if before == hub:
            beneath[other] = other
        elif (first := beneath.get(before)) is not None:
            beneath[other] = first
    return beneath


# Changes, for people.


class GraphChange(NamedTuple):
    """A change of the graph. Hubs are ids, and a link has the lower one of its two hubs first."""

    appeared: tuple[bytes, ...]  # Hubs that were not known before; they may have no links yet
    forgotten: tuple[bytes, ...]  # Hubs that could not be reached for long
    linked: tuple[tuple[bytes, bytes, int], ...]  # Links that are new or have another cost, with the cost
    cut: tuple[tuple[bytes, bytes], ...]

    @property
    def hubs(self) -> set[bytes]:
        linked = (hub for a, b, _ in self.linked for hub in (a, b))
        cut = (hub for link in self.cut for hub in link)
        return {*self.appeared, *self.forgotten, *linked, *cut}


def difference(before: Links, now: Links) -> GraphChange:
    none: Mapping[bytes, int] = {}
    changed = [hub for hub in before.keys() | now.keys() if before.get(hub, none) != now.get(hub, none)]
    return GraphChange(
        appeared=tuple(sorted(now.keys() - before.keys())),
        forgotten=tuple(sorted(before.keys() - now.keys())),
        linked=tuple(
            sorted(
                (hub, other, cost)
                for hub in changed
                for other, cost in now.get(hub, none).items()
                if hub < other and before.get(hub, none).get(other) != cost
            )
        ),
        cut=tuple(
            sorted(
                (hub, other)
                for hub in changed
                for other in before.get(hub, none)
                if hub < other and other not in now.get(hub, none)
            )
        ),
    )


# The graph.


class Graph:
    """The mesh as the hub with the id `hub` knows it."""

    def __init__(self, hub: bytes) -> None:
        self._hub = hub
        # Each known hub with its links; each link is there at both of its hubs.
        self._links: dict[bytes, dict[bytes, int]] = {hub: {}}
        # Hub → its links at the last `take_change`, None if it was not known; of those changed since.
        self._before: dict[bytes, dict[bytes, int] | None] = {}
        # Computed from the links on demand; `_beneath` has one map for each origin.
        self._reached: set[bytes] | None = None
        self._tree: dict[bytes, bytes] | None = None
        self._beneath: dict[bytes, dict[bytes, bytes]] = {}

    def update(self, hub: bytes, records: Mapping[bytes, Record]) -> bool:
        """A hub has announced its links, or is forgotten; return whether that has changed the graph."""
        record = records.get(hub)
        links = None if record is None else _mutual(record, records)
        before = self._links.get(hub)
        if links == before:
            return False
        self._note(hub)
        for other in _differing(before or {}, links or {}):
            self._note(other)
        self._replace(hub, links or {})
        if links is None:
            del self._links[hub]
        self._reached = self._tree = None
        self._beneath.clear()
        return True

    def _note(self, hub: bytes) -> None:
        if hub not in self._before:
            links = self._links.get(hub)
            self._before[hub] = links

    def _replace(self, hub: bytes, now: dict[bytes, int]) -> None:
        """Give a hub other links, at both ends. The dictionaries are replaced, since `_before` has them, too."""
        before = self._links.get(hub, {})
        self._links[hub] = now
        for other in _differing(before, now):
            cost = now.get(other)
            if cost is None:
                self._links[other] = {one: cost for one, cost in self._links[other].items() if one != hub}
            else:
                self._links[other] = self._links[other] | {hub: cost}

    def take_change(self) -> GraphChange | None:
        """Return the change of the graph since the last call; None for none."""
        if not self._before:
            return None
        before = {hub: links for hub, links in self._before.items() if links is not None}
        now = {hub: self._links[hub] for hub in self._before if hub in self._links}
        self._before.clear()
        change = difference(before, now)
        return change if any(change) else None

    @property
    def links(self) -> Links:
        return self._links

    @property
    def reached(self) -> AbstractSet[bytes]:
        if self._reached is None:
            self._reached = reached(self._hub, self._links)
        return self._reached

    @property
    def tree(self) -> Mapping[bytes, bytes]:
        """The tree of this hub, as `parents` returns it."""
        if self._tree is None:
            self._tree = parents(self._hub, self._links)
        return self._tree

    def beneath(self, origin: bytes) -> Mapping[bytes, bytes]:
        """Return hub beneath this one in the tree of `origin` → the neighbour that leads there."""
        found = self._beneath.get(origin)
        if found is None:
            if len(self._beneath) >= _TREES_LIMIT:
                self._beneath.clear()
            is_end = origin != self._hub and len(self._links.get(self._hub, ())) <= 1
            found = {} if is_end else onward(self._hub, parents(origin, self._links))
            self._beneath[origin] = found
        return found


def _mutual(record: Record, records: Mapping[bytes, Record]) -> dict[bytes, int]:
    return {
        other: max(cost, back)
        for other, cost in record.neighbours.items()
        if other in records and other != record.hub and (back := records[other].neighbours.get(record.hub)) is not None
    }


def _differing(before: Mapping[bytes, int], now: Mapping[bytes, int]) -> list[bytes]:
    """Return the hubs to which there is another link than before, or none any more."""
    return [other for other in before.keys() | now.keys() if before.get(other) != now.get(other)]
