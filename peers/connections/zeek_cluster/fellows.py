"""`Fellows`: which other hubs have joined the same Zeek cluster, and whether this one leaves it to one of them.

```
each hub that joins subscribes to topichub.hub.<its id>. ─▶ the broker tells all ─▶ those who are of one mesh
                                                                                   ─▶ the lowest id has the cluster
```

Every event would come twice to all clients of a mesh of which two hubs have joined, and clients' events twice to nodes.
So one of them has the cluster: the others ask for nothing, and give nothing, until it has gone. A cluster has no id by
which hubs could find that out among themselves: they may have dialled it under other names.

A hub that is linked with others leaves a cluster to them until the broker has told who is there: what comes with a
subscription is told behind what was told before. It looks again whenever a hub comes or goes there, and each second, as
the mesh may have changed.

Owner: one cluster. Invariant: `on_change` is called for each change of `is_left`. Not here: what it means
(`cluster`, `publisher`, `subscriber`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from peers.node.node import Node

__all__ = ["HUB_TOPIC", "Fellows"]

HUB_TOPIC: Final = b"topichub.hub."
"""What the topics begin with to which hubs subscribe: the id follows in hexadecimal digits, and a dot."""

_LOOK_S: Final = 1.0
"""How often it is looked whether the mesh has changed, seconds."""

_SETTLE_S: Final = 0.05
"""How long it is waited for what else the broker tells in the same breath, seconds."""


class Fellows:
    """Hubs in a cluster.

    Args:
        node: This one.
        address: Where the broker is, for people.
        on_change: Called when this hub leaves the cluster to another one, and when it does so no more.
    """

    __slots__ = ("_address", "_has", "_hubs", "_is_told", "_looking", "_node", "_on_change", "is_left", "topic")

    def __init__(self, node: Node, address: str, on_change: Callable[[], object]) -> None:
        self._node = node
        self._address = address
        self._on_change = on_change
        self.topic = HUB_TOPIC + node.id.hex().encode() + b"."
        """What this hub subscribes to."""
        self.is_left = False
        """Whether this hub leaves the cluster to another one."""
        # The hub that has it; None before the broker has told for the first time who is there.
        self._has: bytes | None = None
        # Those that are there, with this one, once the broker has told it; as far as it has told since it is connected.
        self._hubs: set[bytes] = set()
        self._is_told = False
        self._looking: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The broker tells from now on who is there."""
        self._hubs.clear()
        self._is_told = False
        if self._has is None:
            self._leave(is_left=len(self._node.core.mesh.graph.reached) > 1)
        self._look_in(_LOOK_S)

    def end(self) -> None:
        """It tells nothing any more; as long as that is so, nothing changes."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def appeared(self, topic: bytes) -> None:
        """Somebody has subscribed to a topic that begins with `HUB_TOPIC`; once more, perhaps."""
        self._is_told = self._is_told or topic == self.topic
        hub = _hub_of(topic)
        if hub and hub not in self._hubs:
            self._hubs.add(hub)
            self._look_in(_SETTLE_S)

    def gone(self, topic: bytes) -> None:
        """Nobody has subscribed to it any more."""
        self._hubs.discard(_hub_of(topic))
        self._look_in(0)

    def _look_in(self, seconds: float) -> None:
        self.end()
        self._looking = self._node.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._look_in(_LOOK_S)
        if not self._is_told:
            return
        reached = self._node.core.mesh.graph.reached
        before, self._has = self._has, min((hub for hub in self._hubs if hub in reached), default=self._node.id)
        is_left = self._has != self._node.id
        if self._has != before and (before is not None or is_left):
            text = "Zeek cluster left to another hub of the mesh" if is_left else "Zeek cluster taken over"
            self._node.log.info(text, cluster=self._address, hub=self._has.hex())
        self._leave(is_left=is_left)

    def _leave(self, *, is_left: bool) -> None:
        if is_left != self.is_left:
            self.is_left = is_left
            self._node.zeek_clusters_left += 1 if is_left else -1
            self._on_change()


def _hub_of(topic: bytes) -> bytes:
    """Return the id in a topic; empty where there is none."""
    try:
        return bytes.fromhex(topic[len(HUB_TOPIC) : -1].decode())
    except ValueError:
        return b""
