"""`broker_dialler`: keep a peering with one Broker endpoint, forever; see `peers.connections.dialler`.

Each failed attempt is told as `$hub/peers/unavailable`. One that was dropped because there is another connection to the
same endpoint already (it may have dialled us) is no failure: it is tried again when that one goes.
"""

from __future__ import annotations

import ssl

from hub.overflow import QueueLimits
from peers.connections.broker import BrokerConversation
from peers.connections.broker_peerings import Peerings
from peers.connections.broker_tls import client_context
from peers.connections.connection import Connection
from peers.connections.dialler import Attempt, Dialler
from peers.transport.backoff import Backoff
from peers.transport.endpoints import Endpoint, Scheme
from peers.zeek.broker.messages import BrokerCode

__all__ = ["broker_dialler"]

_REDUNDANT = f"(Broker code {int(BrokerCode.REDUNDANT_CONNECTION)},"


def broker_dialler(
    peerings: Peerings, endpoint: Endpoint, queue: QueueLimits, backoff: Backoff | None = None
) -> Dialler:
    """Keep a peering up.

    Args:
        peerings: Of the hub.
        endpoint: Where the far side listens; its scheme says whether there is TLS.
        queue: Queue of its handler.
        backoff: How long to wait between attempts.
    """
    return Dialler(peerings.node, endpoint, _Endpoint(peerings, endpoint, queue), backoff)


class _BrokerAttempt:
    """See `peers.connections.dialler.Attempt`."""

    is_to_be_repeated = False

    def __init__(self, peerings: Peerings, endpoint: Endpoint, queue: QueueLimits) -> None:
        self._conversation: BrokerConversation

        def make(connection: Connection) -> BrokerConversation:
            self._conversation = BrokerConversation(peerings, queue, connection, dialled=True)
            return self._conversation

        self.connection = Connection(peerings.node, make, address=endpoint.location)

    @property
    def far_id(self) -> bytes:
        """The id of the endpoint, nil before it has said it."""
        return self._conversation.session.peer_id

    @property
    def was_linked(self) -> bool:
        """Whether the endpoint was peered."""
        return self.connection.has_joined


class _Endpoint:
    """See `peers.connections.dialler.Peer`."""

    def __init__(self, peerings: Peerings, endpoint: Endpoint, queue: QueueLimits) -> None:
        self._peerings = peerings
        self._endpoint = endpoint
        self._queue = queue

    def attempt(self) -> Attempt:
        """Dial the endpoint."""
        return _BrokerAttempt(self._peerings, self._endpoint, self._queue)

    def tls(self) -> ssl.SSLContext | None:
        """Return the context for Broker's TLS, None if the scheme says that there is none."""
        zeek = self._peerings.node.settings.zeek
        return client_context(zeek) if self._endpoint.scheme is Scheme.ZEEK else None

    def is_held(self, reason: str) -> bool:
        """Whether there is a connection to that endpoint already."""
        return _REDUNDANT in reason

    def is_linked(self, far_id: bytes) -> bool:
        """Whether that endpoint is peered."""
        return far_id in self._peerings.registry

    def failed(self, reason: str) -> None:
        """Tell `$hub/peers/unavailable`."""
        if not self.is_held(reason):
            self._peerings.unavailable(bytes(16), self._endpoint.location, reason)
