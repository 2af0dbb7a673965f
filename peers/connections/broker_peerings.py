"""`Peerings`: all connections of a hub to Broker endpoints, with the `Gateway` and the `Registry` of endpoints.

The registry decides which of two connections to one endpoint stays. The gateway is the one hub of the mesh that
exchanges messages with an endpoint:

```
claim ─▶ core.leaves ─▶ told to the mesh ─ GATEWAY_S later, when others have told theirs ─▶ the handshake goes on
                   └──▶ on_turn, whenever this hub becomes the gateway, or is it no longer
```

A hub that has links waits in the handshake, so nothing comes twice while two hubs are peered with one endpoint.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from hub.errors import CloseCode
from hub.handlers.handler import Handler
from hub.messages.batch import Batch
from hub.statistics.events import PeerCodes, peer_status
from peers.connections.broker_stores import Stores
from peers.server.server import Server
from peers.values import from_msgpack
from peers.values.forms import Form, Made
from peers.zeek.broker.envelopes import data_envelopes
from peers.zeek.broker.messages import BrokerCode


class Verdict(Enum):
    """What becomes of a connection whose far side has told its id."""

    PROCEED = "go on with the handshake"
    WAIT = "another connection to that endpoint is in its handshake"
    REDUNDANT = "that endpoint is peered already"


class Claimant(Protocol):
    """A connection that is to become the peering with an endpoint."""

    def proceed(self) -> None:
        """Go on with the handshake, as the connection that it waited for has failed."""

    def give_way(self) -> None:
        """End, as the connection that it waited for is peered."""


class _Claims:
    """The connections to one endpoint."""

    __slots__ = ("holder", "peered", "waiting")

    def __init__(self, holder: Claimant) -> None:
        self.holder = holder
        self.peered = False
        self.waiting: list[Claimant] = []


class Registry:
    """Connections by the id of the far endpoint."""

    __slots__ = ("_claims",)

    def __init__(self) -> None:
        self._claims: dict[bytes, _Claims] = {}

    def __len__(self) -> int:
        """Return how many endpoints are peered."""
        return sum(claims.peered for claims in self._claims.values())

    def __contains__(self, endpoint_id: bytes) -> bool:
        """Whether a connection to that endpoint is peered."""
        claims = self._claims.get(endpoint_id)
        return claims is not None and claims.peered

    def claim(self, endpoint_id: bytes, claimant: Claimant) -> Verdict:
        """Ask to become the peering with an endpoint; every claimant must be given to `release` in the end."""
        claims = self._claims.get(endpoint_id)
        if claims is None:
            self._claims[endpoint_id] = _Claims(claimant)
            return Verdict.PROCEED
        if claims.holder is claimant:
            return Verdict.PROCEED
        if claims.peered:
            return Verdict.REDUNDANT
        claims.waiting.append(claimant)
        return Verdict.WAIT

    def settle(self, endpoint_id: bytes) -> None:
        """The holder's handshake is done: connections that wait for it give way."""
        claims = self._claims[endpoint_id]
        claims.peered = True
        waiting, claims.waiting = claims.waiting, []
        for other in waiting:
            other.give_way()

    def release(self, endpoint_id: bytes, claimant: Claimant) -> None:
        """Forget a connection that is over; harmless if it neither was the holder nor waited."""
        claims = self._claims.get(endpoint_id)
        if claims is None:
            return
        if claims.holder is not claimant:
            if claimant in claims.waiting:
                claims.waiting.remove(claimant)
            return
        if not claims.waiting:
            del self._claims[endpoint_id]
            return
        claims.holder = claims.waiting.pop(0)
        claims.peered = False
        claims.holder.proceed()


GATEWAY_S = 0.25
"""How long to wait for claims of other hubs to the same endpoint, seconds: an announcement crosses a mesh in far less.
"""


def _nothing() -> None: ...


class Gateway:
    """The gateway of one endpoint; `on_turn` is called when this hub becomes it, or is it no longer."""

    __slots__ = ("_endpoint", "_on_turn", "_server", "_waiting", "hub")

    def __init__(self, server: Server, on_turn: Callable[[], object]) -> None:
        self._server = server
        self._on_turn = on_turn
        self._endpoint = b""
        self._waiting: asyncio.TimerHandle | None = None
        self.hub = b""
        """The id of the hub that is the gateway; empty before `claim`."""

    @property
    def is_here(self) -> bool:
        """Whether this hub is the gateway."""
        return self.hub == self._server.id

    def claim(self, endpoint: bytes, on_known: Callable[[], object]) -> bool:
        """Claim an endpoint; return whether its gateway is known already, else `on_known` is called when it is."""
        core = self._server.core
        self._endpoint = endpoint
        self.hub = core.leaves.claim(endpoint, self._server.wall_us(), self._turn)
        if not core.mesh.links:
            return True
        self._waiting = self._server.loop.call_later(GATEWAY_S, on_known)
        return False

    def _turn(self, hub: bytes) -> None:
        was_here = self.is_here
        self.hub = hub
        if self.is_here is not was_here:
            self._on_turn()

    def join(self, handler: Handler) -> None:
        """The endpoint is peered."""
        self._server.core.leaves.join(self._endpoint, handler)

    def release(self) -> None:
        """The endpoint is gone, or was never peered; may be called several times."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        if self._endpoint:
            self._server.core.leaves.release(self._endpoint)
            self._endpoint = b""
        self._on_turn = _nothing  # so that whoever is told of turns is freed at once

    def log(self, name: str) -> None:
        """Log which hub is the gateway."""
        record = self._server.core.mesh.records.get(self.hub)
        event = "this hub is the gateway of a Zeek now" if self.is_here else "a Zeek is left to another hub"
        self._server.log.info(event, name=name, hub=self.hub.hex(), hub_name="" if record is None else record.name)


_PEER_ADDED, _PEER_REMOVED, _PEER_LOST = 1, 2, 3
"""Broker's status codes."""


def endpoint_text(endpoint_id: bytes) -> str:
    """Write an endpoint's id as Broker does: `11111111-1111-4111-8111-111111111111`; empty for nil."""
    return str(uuid.UUID(bytes=endpoint_id)) if any(endpoint_id) else ""


class Peerings:
    """The Zeek side of a hub."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.registry = Registry()
        self.stores = Stores(server)

    @property
    def own_id(self) -> bytes:
        """The hub's endpoint id; the same from when its stores are open."""
        return self.server.zeek.forwarder.own_id

    def form(self, _: Batch) -> Form:
        """Give a batch its form for Broker peers: data envelopes of this hub. For `Batch.form`."""
        return Form(self._make)

    def _make(self, batch: Batch) -> Made:
        return data_envelopes(batch, self.own_id, from_msgpack)

    def fail_tls(self, address: str, reason: str) -> None:
        """A TLS handshake at a listener has failed."""
        self.server.zeek.tls_failures += 1
        self.server.log.warning("TLS handshake with a Zeek failed", address=address, reason=reason)

    # Statuses.

    def added(self, endpoint_id: bytes, address: str) -> None:
        """A peering is up."""
        self._tell("added", endpoint_id, address, "handshake successful", PeerCodes(0, "peer_added", _PEER_ADDED))

    def removed(self, endpoint_id: bytes, address: str, reason: str, code: int) -> None:
        """This hub has ended a peering."""
        self._tell("removed", endpoint_id, address, reason, PeerCodes(code, "peer_removed", _PEER_REMOVED))

    def lost(self, endpoint_id: bytes, address: str, reason: str) -> None:
        """The far side has ended a peering."""
        codes = PeerCodes(CloseCode.GOING_AWAY, "peer_lost", _PEER_LOST)
        self._tell("lost", endpoint_id, address, reason, codes)

    def unavailable(self, endpoint_id: bytes, address: str, reason: str) -> None:
        """An attempt to peer has failed."""
        codes = PeerCodes(CloseCode.TRY_AGAIN_LATER, "peer_unavailable", BrokerCode.PEER_UNAVAILABLE)
        self._tell("unavailable", endpoint_id, address, reason, codes)

    def _tell(self, what: str, endpoint_id: bytes, address: str, reason: str, codes: PeerCodes) -> None:
        self.server.core.system_events.announce(peer_status(what, endpoint_text(endpoint_id), address, reason, codes))
