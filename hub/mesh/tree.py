"""`Tree`: the way that messages of one hub take through the mesh, the same wherever the same is known.

```
      origin         parents: for each hub the one before it on the way from the origin; of several by which it
     |      |        is equally far, the one with the lowest id
     A      B
   |   |    |        onward, at A: C by C, D by D; nothing for B and E, which are not beneath A
   C   D    E
```

Owner: nobody; these are functions. Cost: about 0.5 µs a link.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

__all__ = ["Links", "onward", "parents", "passed", "reached"]

Links = Mapping[bytes, Mapping[bytes, int]]
"""Hub → the hubs that it is linked with → cost; the same in both directions."""


def parents(origin: bytes, links: Links) -> dict[bytes, bytes]:
    """Return for each hub that can be reached the one before it, nearest first; the one before the origin is itself."""
    distance = {origin: 0}
    parent = {origin: origin}
    ordered: dict[bytes, bytes] = {}
    # Most links cost the same, so that distances are few: hubs wait by distance, and only distances are put in order.
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
    """Return the hubs that can be reached from `hub`, itself with them. O(links), 0.3 µs each."""
    found = ahead = {hub}
    while ahead:
        ahead = set[bytes]().union(*(links.get(one, ()) for one in ahead)) - found
        found = found | ahead
    return found


def passed(parent: Mapping[bytes, bytes], wanting: Iterable[bytes]) -> set[bytes]:
    """Return the hubs that a message passes on its way to all that want it and can be reached, both ends with them."""
    passed = set[bytes]()
    for hub in wanting:
        here = hub
        while here in parent and here not in passed:
            passed.add(here)
            here = parent[here]
    return passed


def onward(hub: bytes, parent: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return for each hub beneath `hub` in a tree the neighbour of `hub` that leads there.

    Args:
        hub: In the tree, or not.
        parent: As `parents` returns it: nearer hubs stand before those that are farther.
    """
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
