"""`Peerings`: what all connections of a hub to Broker endpoints share.

The registry, the hub's endpoint id (that of the hub, if its stores know none from before), the form in which batches
are written, the forwarding between data stores, and how statuses are told: to subscribers of `$hub/peers/...`, with
Broker's codes beside the hub's.

Owner of the state: the hub's event loop. Cost: a batch is brought into Broker's form once for all
peers, `peers.values.forms`.
"""

from __future__ import annotations

import uuid

from hub.batch import Batch
from hub.errors import CloseCode
from hub.events import PeerCodes, peer_status
from peers.connections.broker_stores import Stores
from peers.node.node import Node
from peers.values import from_msgpack
from peers.values.forms import Form, Made
from peers.zeek.broker.messages import BrokerCode
from peers.zeek.broker.registry import Registry
from peers.zeek.broker.writing import data_envelopes

__all__ = ["Peerings", "endpoint_text"]

_PEER_ADDED, _PEER_REMOVED, _PEER_LOST = 1, 2, 3
"""Broker's status codes."""


def endpoint_text(endpoint_id: bytes) -> str:
    """Write an endpoint's id as Broker does: `11111111-1111-4111-8111-111111111111`; empty for nil."""
    return str(uuid.UUID(bytes=endpoint_id)) if any(endpoint_id) else ""


class Peerings:
    """The Zeek side of a hub.

    Args:
        node: The hub.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.registry = Registry()
        self.stores = Stores(node)

    @property
    def own_id(self) -> bytes:
        """The hub's endpoint id; the same from when its stores are open."""
        return self.node.zeek_stores.own_id

    def form(self, _: Batch) -> Form:
        """Give a batch its form for Broker peers: data envelopes of this hub. For `Batch.form`."""
        return Form(self._make)

    def _make(self, batch: Batch) -> Made:
        return data_envelopes(batch, self.own_id, from_msgpack)

    def fail_tls(self, address: str, reason: str) -> None:
        """A far side has connected to a listener with TLS, and no handshake came about."""
        self.node.zeek_tls_failures += 1
        self.node.log.warning("TLS handshake with a Zeek failed", address=address, reason=reason)

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
        self.node.core.own_events.announce(peer_status(what, endpoint_text(endpoint_id), address, reason, codes))
