"""`MeshNews`: what is written on a link to a peer hub: news of the mesh, and messages with their origins.

```
core.mesh ─▶ on_due ─▶ tell: changes merge in the mesh ─ end of the turn, while the peer reads ─▶ ROUTING, in portions
batches:  [origin A][origin A][origin B]  ─▶  ROUTING, ORIGIN A, frames, frames, ORIGIN B, frames
```

News stand in front of the messages that were routed by them, but for what is more than a turn's work: otherwise the
peer might not know yet where the messages go on, and they would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Final

from hub.handlers.handler import Handler
from hub.mesh.announcement import Told
from hub.mesh.mesh import Mesh
from hub.messages.batch import Batch
from hub.messages.origin import Origin
from hub.messages.request_frame import Item
from peers.wire.control import encode_origin
from peers.wire.routing import encode_routing

PORTIONS_PER_TURN: Final = 4
"""How much is written in one turn, so that a link that comes up does not hold up the rest."""

_FRAMES_PER_PORTION: Final = 8
"""Frames of 1,000 prefixes at most each, 10 ms."""

_origin = attrgetter("origin")


class MeshNews:
    """Of one link.

    Args:
        mesh: Has the news.
        link: The handler of the peer.
        limit_bytes: Largest body that the peer takes.
        later: Calls a function after this turn of the loop.
        write: Writes frames to the peer.
        fit: Returns batches as frames that the peer takes; None where it takes them as they came.
    """

    __slots__ = (
        "_fit",
        "_is_awaited",
        "_later",
        "_limit_bytes",
        "_link",
        "_mesh",
        "_rest",
        "_said",
        "_write",
        "beside_bytes",
        "is_due",
    )

    def __init__(  # noqa: PLR0913, PLR0917 -- both ends of it
        self,
        mesh: Mesh[Handler],
        link: Handler,
        limit_bytes: int,
        later: Callable[[Callable[[], object]], object],
        write: Callable[[list[bytes]], object],
        fit: Callable[[list[Batch]], list[bytes]] | None,
    ) -> None:
        self._mesh, self._link, self._limit_bytes = mesh, link, limit_bytes
        self._later, self._write, self._fit = later, write, fit
        # Whether there may be news: from `tell` until the mesh has none.
        self.is_due = False
        # Whether `write_more` will be called after this turn.
        self._is_awaited = False
        # News that were taken from the mesh and are not written yet.
        self._rest: Iterator[bytes] | None = None
        # What the peer takes for the origin of what comes next; None before the first.
        self._said: Origin | None = None
        self.beside_bytes = 0
        """How much more was written than the handler has counted: ORIGIN, news in front of messages, and heads of
        requests and replies, without what was not sent, as it is too large for the peer."""

    # News.

    def tell(self) -> None:
        """There is something to tell."""
        self.is_due = True
        self._write_later()

    def _write_later(self) -> None:
        if not self._is_awaited:
            self._is_awaited = True
            self._later(self.write_more)

    def write_more(self) -> None:
        """Write news while the peer reads: a turn's portions, the rest in the next turn."""
        self._is_awaited = False
        for _ in range(PORTIONS_PER_TURN):
            if not (self.is_due and self._link.writable):
                return
            portion = self.take()
            if portion:
                self._write([portion])
        if self.is_due:
            self._write_later()

    def close(self) -> None:
        """The peer is gone."""
        self.is_due = False

    def take(self) -> bytes:
        """Return the next portion; nothing if there are no news any more."""
        while self.is_due:
            if self._rest is None:
                news = self._mesh.take(self._link)
                self.is_due = bool(news)
                self._rest = chain.from_iterable(map(self._encoded, news))
            portion = b"".join(islice(self._rest, _FRAMES_PER_PORTION))
            if portion:
                return portion
            self._rest = None
        return b""

    def _encoded(self, told: Told) -> Iterable[bytes]:
        if isinstance(told, Origin):
            self._said = told
            return [encode_origin(told)]
        return encode_routing(told, self._limit_bytes)

    # Messages, requests and replies.

    def post(self, items: list[Item], frames: list[bytes]) -> list[bytes]:
        """Return the frames of requests and replies, which are about to be written."""
        self.beside_bytes += sum(map(len, frames)) - sum(item.size_bytes for item in items)
        return frames

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches as frames, with ORIGIN where it changes."""
        fit = self._fit
        if len(batches) == 1 and batches[0].origin is self._said and not self.is_due and fit is None:  # most often
            return [batches[0].frames]
        frames = list(islice(iter(self.take, b""), PORTIONS_PER_TURN))
        for origin, some in groupby(batches, _origin):
            if origin != self._said:
                frames.append(encode_origin(origin))
                self._said = origin
            same = list(some)
            frames += [batch.frames for batch in same] if fit is None else fit(same)
        self.beside_bytes += sum(map(len, frames)) - sum(batch.frames_bytes for batch in batches)
        return frames
