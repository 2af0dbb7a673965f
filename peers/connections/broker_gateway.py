"""`Gateway`: which hub of the mesh is the gateway of the endpoint at the far side of one peering.

```
claim ─▶ core.leaves ─▶ told to the mesh ─ GATEWAY_S later, by when others have told theirs ─▶ the handshake goes on
                   └──▶ on_turn, whenever this hub becomes the gateway, or is it no longer
```

A hub that has links waits in the handshake, before anything is said that matters: so nothing comes twice while two hubs
are peered with one endpoint at about the same time, and nothing is lost by that. The endpoint notices that it takes
longer to be peered.

Owner: one `BrokerConversation`. Invariant: the core knows of the endpoint from `claim` to `release`.
Not here: who becomes the gateway (`hub.leaves`), what a gateway does (`peers.connections.broker`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hub.handler import Handler
from peers.node.node import Node

__all__ = ["GATEWAY_S", "Gateway"]

GATEWAY_S = 0.25
"""How long claims of other hubs to the same endpoint are waited for, seconds: what is announced
crosses a mesh in far less."""


def _nothing() -> None:
    """Stand in for whoever is told of turns, once nobody is."""


class Gateway:
    """Of one endpoint.

    Args:
        node: This hub.
        on_turn: Called when this hub has become the gateway, or is it no longer.
    """

    __slots__ = ("_endpoint", "_node", "_on_turn", "_waiting", "hub")

    def __init__(self, node: Node, on_turn: Callable[[], object]) -> None:
        self._node = node
        self._on_turn = on_turn
        self._endpoint = b""
        """Its id, while it is claimed."""
        self._waiting: asyncio.TimerHandle | None = None
        """Set while claims of others are waited for."""
        self.hub = b""
        """The id of the hub that is the gateway; empty before `claim`."""

    @property
    def is_here(self) -> bool:
        """Whether this hub is the gateway."""
        return self.hub == self._node.id

    def claim(self, endpoint: bytes, on_known: Callable[[], object]) -> bool:
        """Claim an endpoint.

        Returns:
            Whether it is known already who is the gateway; otherwise `on_known` is called when it is. A hub without
            links has nobody to wait for.
        """
        core = self._node.core
        self._endpoint = endpoint
        self.hub = core.leaves.claim(endpoint, self._node.wall_us(), self._turn)
        if not core.mesh.links:
            return True
        self._waiting = self._node.loop.call_later(GATEWAY_S, on_known)
        return False

    def _turn(self, hub: bytes) -> None:
        was_here = self.is_here
        self.hub = hub
        if self.is_here is not was_here:
            self._on_turn()

    def join(self, handler: Handler) -> None:
        """The endpoint is peered."""
        self._node.core.leaves.join(self._endpoint, handler)

    def release(self) -> None:
        """The endpoint is gone, or was never peered; once or more."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        if self._endpoint:
            self._node.core.leaves.release(self._endpoint)
            self._endpoint = b""
        self._on_turn = _nothing  # so that whoever is told of turns is freed at once

    def log(self, name: str) -> None:
        """Tell people who the gateway is."""
        record = self._node.core.mesh.records.get(self.hub)
        event = "this hub is the gateway of a Zeek now" if self.is_here else "a Zeek is left to another hub"
        self._node.log.info(event, name=name, hub=self.hub.hex(), hub_name="" if record is None else record.name)
