"""`Onward`: messages on their way to a peer hub, with ORIGIN in front of what has entered the mesh elsewhere.

```
batches:  [origin A][origin A][origin B]  ─▶  ORIGIN A, frames, frames, ORIGIN B, frames      (A was not said yet)
news of the mesh by which they were routed, and which are not told yet  ─▶  ROUTING, in front of them
```

Without the news the far side might not know yet that the messages are to go on from there: they would be lost.

Owner: one connection. Invariant: the far side knows the origin of everything that it is sent. Cost: a few comparisons a
write, and a frame of 28 bytes where the origin changes; messages are written as they came, and what is written as it
came is not counted here, as the handler has counted it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import attrgetter

from hub.batch import Batch
from hub.request_frame import Item
from peers.links.mesh_news import MeshNews
from peers.wire.origin import encode_origin

__all__ = ["Onward"]

_origin = attrgetter("origin")


class Onward:
    """What was said of origins on one link.

    Args:
        fit: Returns batches as frames that the far side takes; None where it takes them as they came.
        news: What the far side is told of the mesh.
    """

    __slots__ = ("_fit", "_news", "beside_bytes")

    def __init__(self, fit: Callable[[list[Batch]], list[bytes]] | None, news: MeshNews) -> None:
        self._fit = fit
        self._news = news
        self.beside_bytes = 0
        """How much more was written than the handler has counted: ORIGIN, news in front of messages, and heads of
        requests and replies, without what the far side was not sent, as it is too large for it."""

    def post(self, items: list[Item], frames: list[bytes]) -> list[bytes]:
        """Return the frames of requests and replies, which are about to be written."""
        self.beside_bytes += sum(map(len, frames)) - sum(item.size_bytes for item in items)
        return frames

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches as frames, with ORIGIN where it changes."""
        news, fit = self._news, self._fit
        is_behind = news.is_due
        if len(batches) == 1 and batches[0].origin is news.said and not is_behind and fit is None:  # most often
            return [batches[0].frames]
        frames = [news.take_turn()] if is_behind else []
        for origin, some in groupby(batches, _origin):
            if origin != news.said:
                frames.append(encode_origin(origin))
                news.said = origin
            same = list(some)
            frames += [batch.frames for batch in same] if fit is None else fit(same)
        self.beside_bytes += sum(map(len, frames)) - sum(batch.frames_bytes for batch in batches)
        return frames
