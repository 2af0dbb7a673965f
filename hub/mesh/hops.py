"""`Hops`: by which neighbour messages go on from one hub, of each origin, where certain hubs are linked.

Owner: whoever knows the links: `Graph` of this hub, `Mesh` of what its neighbours know. Invariant: the links stay as
they are. Cost: a tree, when it is first asked for, 0.5 µs a link of the mesh; a hub with one link makes no tree but its
own, as nothing goes on from there.
"""

from __future__ import annotations

from typing import Final

from hub.mesh.tree import Links, onward, parents

__all__ = ["Hops"]

_TREES_LIMIT: Final = 4_096
"""Most trees that are kept: one for each hub that publishes."""


class Hops:
    """The neighbours by which messages go on from a hub.

    Args:
        hub: Which.
        links: Who is linked with whom.
    """

    __slots__ = ("_beneath", "_hub", "_links")

    def __init__(self, hub: bytes, links: Links) -> None:
        self._hub = hub
        self._links = links
        # Origin → hub beneath this one → the neighbour that leads there; made when it is asked for.
        self._beneath: dict[bytes, dict[bytes, bytes]] = {}

    def beneath(self, origin: bytes) -> dict[bytes, bytes]:
        """Return hub beneath this one in the tree of `origin` → the neighbour that leads there."""
        found = self._beneath.get(origin)
        if found is None:
            if len(self._beneath) >= _TREES_LIMIT:
                self._beneath.clear()
            found = self._beneath[origin] = self._find(origin)
        return found

    def _find(self, origin: bytes) -> dict[bytes, bytes]:
        if origin != self._hub and len(self._links.get(self._hub, ())) <= 1:
            return {}
        return onward(self._hub, parents(origin, self._links))
