"""`has_ways`: whether two hubs have so many ways between them that no hub but these two is on more than one.

So many hubs or links, less one, may fail at once, and the two still reach each other (Menger's theorem). Each way more
is found as one more unit of flow in the graph in which every hub may be passed once:

```
a ──▶ b ──▶ d      one way found: a b d
 └──▶ c ──▶ b      a second one comes to b, which is taken: it may go on from a hub before b on the first way, so that
            c ─▶ d the two exchange what is behind: a c d stays, or there is none
```

No state. Cost: a look at each link of the mesh for each way, 1 µs a link; less where the hubs are near each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from hub.mesh.tree import Links

__all__ = ["has_ways"]

_Side = tuple[bytes, bool]
"""A hub as a way comes to it, or, with True, as it goes on from there."""


def has_ways(links: Links, start: bytes, end: bytes, count: int, *, but_direct: bool = False) -> bool:
    """Return whether there are `count` ways that have no hub between `start` and `end` in common.

    Args:
        links: Of the mesh.
        start: A hub.
        end: Another one.
        count: At least 1.
        but_direct: Whether the link between the two, if there is one, is left out.
    """
    if start not in links or end not in links:
        return False
    taken: set[tuple[bytes, bytes]] = set()  # the links of the ways that are found, in their direction
    if start in links[end]:
        taken.add((start, end))
        count -= not but_direct
    while count > 0:
        if not _find_way(links, start, end, taken):
            return False
        count -= 1
    return True


def _find_way(links: Links, start: bytes, end: bytes, taken: set[tuple[bytes, bytes]]) -> bool:
    """Look for one more way, and exchange what must be exchanged with those that are found."""
    before = {hub: previous for previous, hub in taken if hub != end}
    came_from: dict[_Side, _Side] = {}
    ahead: deque[_Side] = deque([(start, True)])
    while ahead:
        side = ahead.popleft()
        for following in _following(links, side, before, taken):
            if following[0] == start or following in came_from:
                continue
            came_from[following] = side
            if following[0] == end:
                _take(following, came_from, taken)
                return True
            ahead.append(following)
    return False


def _following(
    links: Links, side: _Side, before: Mapping[bytes, bytes], taken: set[tuple[bytes, bytes]]
) -> list[_Side]:
    """Return where a way may go on."""
    hub, goes_on = side
    if goes_on:
        onward = [(other, False) for other in links[hub] if (hub, other) not in taken]
        return [*onward, (hub, False)] if hub in before else onward
    previous = before.get(hub)
    return [(hub, True)] if previous is None else [(previous, True)]


def _take(last: _Side, came_from: Mapping[_Side, _Side], taken: set[tuple[bytes, bytes]]) -> None:
    """Put the links of a way to those that are taken; a link that it goes backwards is free again."""
    side = last
    while side in came_from:
        previous = came_from[side]
        if previous[0] != side[0]:
            if previous[1]:
                taken.add((previous[0], side[0]))
            else:
                taken.discard((side[0], previous[0]))
        side = previous
