"""`MeshNews`: what this hub knows of the mesh, on its way to a peer hub.

```
core.mesh ─▶ due ─▶ what has changed, merged until it is taken ─▶ ROUTING, in portions
```

Owner: one connection. Invariant: what was taken of the mesh is told whole, and before anything that is taken later.
Not here: what is told (`hub.mesh`), how it is written (`peers.wire.routing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice

from hub.mesh.announcement import Told
from peers.wire.routing import encode_routing

__all__ = ["MeshNews"]

_FRAMES_PER_PORTION = 8
"""Frames that are written at once: of 1,000 prefixes at most each, 10 ms."""


class MeshNews:
    """What is still to be told.

    Args:
        due: Called with this object when there is something to tell.
        limit_bytes: Largest body that the peer takes.
        take: Returns what the peer is to be told, and forgets it.
        version: Of the mesh that the peer speaks.
    """

    __slots__ = ("_due", "_limit_bytes", "_rest", "_take", "_version")

    def __init__(
        self, due: Callable[[MeshNews], None], limit_bytes: int, take: Callable[[], list[Told]], version: int
    ) -> None:
        self._due = due
        self._limit_bytes = limit_bytes
        self._take = take
        self._version = version
        # What was taken and is not written yet; None for nothing.
        self._rest: Iterator[bytes] | None = None

    def tell(self) -> None:
        """There is something to tell."""
        self._due(self)

    def take(self) -> bytes:
        """Return the next portion."""
        if self._rest is None:
            version = self._version
            self._rest = chain.from_iterable(encode_routing(told, self._limit_bytes, version) for told in self._take())
        portion = b"".join(islice(self._rest, _FRAMES_PER_PORTION))
        if portion:
            self._due(self)  # there may be more
        else:
            self._rest = None
        return portion
