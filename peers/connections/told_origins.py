"""`ToldOrigins`: for a client that has asked, ORIGIN in front of messages that have entered the mesh at another hub.

```
batches:  [here][far][far][here]  ─▶  frames, ORIGIN far, frames, frames, ORIGIN here, frames
```

Owner: one `TcpConversation`. Invariant: the client knows by which hub each message has come; before the first ORIGIN
that is the hub it is connected with. Epochs mean nothing to clients, so a new one alone is not told. Cost: a comparison
a batch, and a frame of 28 bytes where the hub changes; messages are written as they came. Whoever has not asked pays
nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from hub.batch import Batch
from hub.origin import Origin
from peers.wire.origin import encode_origin

__all__ = ["ToldOrigins"]


class ToldOrigins:
    """What was said of origins to one client.

    Args:
        hub: The id of this hub.
        render: Returns batches as frames that the client takes.
    """

    __slots__ = ("_hub", "_render", "_said")

    def __init__(self, hub: bytes, render: Callable[[list[Batch]], list[bytes]]) -> None:
        self._hub = hub
        self._render = render
        # The hub that the client takes for the origin of what comes next.
        self._said = hub

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches as frames, with ORIGIN where the hub changes."""
        frames: list[bytes] = []
        start = 0
        for place, batch in enumerate(batches):
            before = self.before(batch)
            if before:
                frames += [*self._render(batches[start:place]), before] if place > start else [before]
                start = place
        return frames + self._render(batches[start:]) if frames else self._render(batches)

    def before(self, batch: Batch) -> bytes:
        """Return what stands in front of a batch, which comes next: ORIGIN, or nothing."""
        origin = batch.origin
        hub = self._hub if origin is None else origin.hub
        if hub == self._said:
            return b""
        self._said = hub
        return encode_origin(Origin(hub, 0) if origin is None else origin)
