"""`MeshNews`: what this hub knows of the mesh, on its way to a peer hub.

```
core.mesh ─▶ due ─▶ what has changed, merged until it is taken ─▶ ROUTING, in portions
```

Behind news of links stands a PING: the PONG says that the far side sends messages by ways that fit them from then on.

Owner: one connection. Invariants: what was taken of the mesh is told whole, and before anything that is taken later;
messages stand behind the news by which they are routed (`peers.links.onward`), but for what is more than a turn's work.
Not here: what is told (`hub.mesh`), how it is written (`peers.wire.routing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from struct import Struct
from typing import Final

from hub.frame import encode_frame
from hub.handler import Handler
from hub.mesh.announcement import Told
from hub.mesh.mesh import Mesh
from hub.origin import Origin
from peers.links.outbox import PORTIONS_PER_TURN
from peers.wire.kinds import Kind
from peers.wire.origin import encode_origin
from peers.wire.routing import encode_routing

__all__ = ["MeshNews"]

_FRAMES_PER_PORTION = 8
"""Frames that are written at once: of 1,000 prefixes at most each, 10 ms."""

_MARK: Final = b"mesh"
"""How the body of a PING begins that stands behind news."""

_CONFIRMED: Final = Struct(">4sQ")


class MeshNews:
    """What is still to be told.

    Args:
        due: Called with this object when there is something to tell.
        limit_bytes: Largest body that the peer takes.
        mesh: Has what the peer is to be told.
        link: The handler of the peer.
    """

    __slots__ = ("_due", "_generation", "_limit_bytes", "_link", "_mesh", "_rest", "is_due", "said")

    is_due: bool
    """Whether there may be something to tell: from `tell` until `take` has returned nothing."""

    def __init__(self, due: Callable[[MeshNews], None], limit_bytes: int, mesh: Mesh[Handler], link: Handler) -> None:
        self.is_due = False
        self._due = due
        self._limit_bytes = limit_bytes
        self._mesh = mesh
        self._link = link
        # The generation of the graph that the peer is to confirm behind what was taken; 0 for none.
        self._generation = 0
        # What was taken and is not written yet; None for nothing.
        self._rest: Iterator[bytes] | None = None
        self.said: Origin | None = None
        """What the far side takes for the origin of what comes next; None before the first."""

    def tell(self) -> None:
        """There is something to tell."""
        self.is_due = True
        self._due(self)

    def take(self) -> bytes:
        """Return the next portion."""
        if self._rest is None:
            news = self._mesh.take(self._link)
            self._generation = self._mesh.asks(self._link)
            self._rest = chain.from_iterable(self._encoded(told) for told in news)
        portion = b"".join(islice(self._rest, _FRAMES_PER_PORTION))
        if portion:
            self._due(self)  # there may be more
            return portion
        self._rest = None
        self.is_due = False
        generation, self._generation = self._generation, 0
        return encode_frame(Kind.PING, _CONFIRMED.pack(_MARK, generation)) if generation else b""

    def _encoded(self, told: Told) -> Iterable[bytes]:
        if isinstance(told, Origin):
            self.said = told
            return [encode_origin(told)]
        return encode_routing(told, self._limit_bytes)

    def take_turn(self) -> bytes:
        """Return as many portions as one turn has room for."""
        return b"".join(islice(iter(self.take, b""), PORTIONS_PER_TURN))

    def confirm(self, body: bytes) -> bool:
        """Take the answer to a PING; return False if it is not one of these."""
        if len(body) != _CONFIRMED.size or not body.startswith(_MARK):
            return False
        _, generation = _CONFIRMED.unpack(body)
        self._mesh.confirm(self._link, generation)
        return True
