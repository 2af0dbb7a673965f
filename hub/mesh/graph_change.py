"""`GraphChange`: what has become of the graph, for people who watch it.

Owner: nobody; it is a value. Cost: a look at each hub, and at each link of those whose links have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hub.mesh.tree import Links

__all__ = ["GraphChange", "difference"]


class GraphChange(NamedTuple):
    """What is otherwise than before. Hubs are told by their ids, and a link by the lower one of its two first."""

    appeared: tuple[bytes, ...]
    """Hubs that were not known before; they may be linked with nobody yet."""
    forgotten: tuple[bytes, ...]
    """Hubs that are known no longer: none of their announcements has come for long, and nothing leads there."""
    linked: tuple[tuple[bytes, bytes, int], ...]
    """Links that were not there before, or had another cost, with the cost."""
    cut: tuple[tuple[bytes, bytes], ...]
    """Links that are no longer there."""

    @property
    def hubs(self) -> set[bytes]:
        """All hubs that are named in it."""
        linked = (hub for a, b, _ in self.linked for hub in (a, b))
        cut = (hub for link in self.cut for hub in link)
        return {*self.appeared, *self.forgotten, *linked, *cut}


def difference(before: Links, now: Links) -> GraphChange:
    """Return what has become of the graph, which has each hub that is known, and each link in both directions."""
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
