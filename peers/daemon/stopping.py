"""`Stopping`: in which order those who are connected are told that the hub stops, so that as little as can be is lost.

```
who only publishes ──CLOSE──▶ is heard until it has read that ─┐
what has arrived of the others is read ────────────────────────┤
who publishes and subscribes ──CLOSE──▶ is heard in the same way ─▶ the others: queues run out ──CLOSE──▶ closed
                                                                             └─ at the end of the time: cut off
```

Messages of a client are not answered, so a publisher cannot know what the hub has read when it is told. So publishers
are told first, and what they had sent by then goes to those who are still there. Whoever publishes and subscribes
cannot be told and given something at once: what such clients send each other arrives if it had arrived at the hub when
that began to stop.

Owner: the daemon, once. It takes no longer than `limits.drain_s`. Not here: who is connected (`peers.node`), what each
is told (`peers.connections`), the journal.
"""

from __future__ import annotations

import asyncio
import contextlib

from peers.connections.ending import LINGER_S
from peers.node.node import Connected, Node

__all__ = ["Stopping"]

_HEARD_PART = 4
"""One in so many parts of what is left of the time is waited for publishers at most. It takes the far side a moment to
read CLOSE; one that never does must not take the time of those whose queues run out."""

_READ_TURNS = 1_000
"""For how many turns of the loop what had arrived is read at most. A turn reads 256 KiB of each, or more."""


class Stopping:
    """The last `limits.drain_s` of a hub.

    Args:
        node: Whose connections are closed; it admits none any more.
        until_s: When its time ends, of the loop's clock; `limits.drain_s` from now if it is not said.
    """

    def __init__(self, node: Node, until_s: float | None = None) -> None:
        self._node = node
        self._until_s = node.loop.time() + node.settings.limits.drain_s if until_s is None else until_s

    async def hear(self) -> None:
        """Take what publishers have sent, and close them."""
        if self._node.settings.limits.drain_s > 0:
            await self._hear(only=True)
            await self._read()
            await self._hear(only=False)

    async def _hear(self, *, only: bool) -> None:
        """Close publishers, without those who subscribe if `only`, and take what they send until they know."""
        heard = [one.drain_publisher(only=only) for one in list(self._node.connections)]
        publishers = [lost for lost in heard if lost is not None]
        if publishers:
            left_s = self._until_s - self._node.loop.time()
            await asyncio.wait(publishers, timeout=max(0.0, min(left_s / _HEARD_PART, LINGER_S)))

    async def _read(self) -> None:
        """Let each of the others be read until nothing is left, once: more may come without end."""
        unread: list[Connected] = list(self._node.connections)
        for _ in range(_READ_TURNS):
            unread = [one for one in unread if one.has_unread]
            if not unread or self._node.loop.time() >= self._until_s:
                break
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Close all, each once its queue has run out; cut off who has not read it by then."""
        for connection in list(self._node.connections):
            connection.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._until_s):
                await self._node.wait_released()
        for connection in list(self._node.connections):
            connection.abort()
        await asyncio.sleep(0)
