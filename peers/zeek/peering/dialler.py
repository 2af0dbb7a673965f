"""`ZeekDialler`: keep a peering with one Broker endpoint, forever; see `peers.tcp.dialler`.

Each failed attempt is told as `$hub/peers/unavailable`. One that was dropped because there is another connection to the
same endpoint already (it may have dialled us) is no failure: it is tried again, seldom, in case that one goes.
"""

from __future__ import annotations

import ssl

from hub.overflow import QueueLimits
from peers.backoff import Backoff
from peers.endpoints import Endpoint, Scheme
from peers.tcp.dialler import Dialled, Dialler
from peers.zeek.native.codes import BrokerCode
from peers.zeek.peering.connection import PeeringConnection
from peers.zeek.peering.peerings import Peerings
from peers.zeek.tls import client_context

__all__ = ["ZeekDialler"]

_REDUNDANT = f"(Broker code {int(BrokerCode.REDUNDANT_CONNECTION)},"


class ZeekDialler(Dialler):
    """Keeps one peering up.

    Args:
        peerings: Of the hub.
        endpoint: Where the far side listens; its scheme says whether there is TLS.
        queue: Queue of its handler.
        backoff: How long to wait between attempts.
    """

    __slots__ = ("_peerings",)

    def __init__(
        self, peerings: Peerings, endpoint: Endpoint, queue: QueueLimits, backoff: Backoff | None = None
    ) -> None:
        super().__init__(peerings.node, endpoint, queue, backoff)
        self._peerings = peerings

    def _make(self) -> Dialled:
        return PeeringConnection(self._peerings, self._queue, dialled=True, address=self._endpoint.location)

    def _tls(self) -> ssl.SSLContext | None:
        return client_context(self._node.settings.zeek) if self._endpoint.scheme is Scheme.ZEEK else None

    def _failed(self, reason: str) -> None:
        if _REDUNDANT in reason:
            self._backoff.hold()
        else:
            self._peerings.unavailable(bytes(16), self._endpoint.location, reason)
