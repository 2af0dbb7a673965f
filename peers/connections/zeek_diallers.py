"""Diallers of Zeeks; see `peers.connections.dialler`.

`broker_dialler` keeps a peering with one Broker endpoint. A failed attempt is told as `$hub/peers/unavailable`. If it
was dropped because there is another connection to the same endpoint already (it may have dialled us), that is no
failure: it is tried again when that one goes.

`bridge_dialler` keeps a connection to one Zeek's WebSocket server. Towards the hub its events are published as they
come; towards the Zeek goes what is published on this hub, also by its peers, under the prefixes that the endpoint lists
in `publish`. Where the connection ended because the hub wants other topics by now, the next one follows at once.

`cluster_diallers` keep both connections to the central broker of a Zeek cluster: the hub's XSUB to the broker's XPUB
(subscriptions there, events back), and its XPUB to the broker's XSUB. Each is made again by itself.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from hub.overflow import QueueLimits
from hub.topics import check_prefix
from peers.connections.bridge import BridgeConversation
from peers.connections.broker import BrokerConversation
from peers.connections.broker_peerings import Peerings
from peers.connections.broker_tls import client_context
from peers.connections.connection import Connection
from peers.connections.dialler import Attempt, Dialler
from peers.connections.zeek_cluster.cluster import Cluster, FarCluster
from peers.connections.zeek_cluster.far_end import NO_CURVE
from peers.connections.zeek_cluster.member import Member
from peers.connections.zeek_cluster.sockets import publisher_connection, subscriber_connection
from peers.node.node import Node
from peers.transport.backoff import Backoff
from peers.transport.endpoints import Endpoint, Scheme
from peers.zeek.broker.messages import BrokerCode
from peers.zeek.zmtp.session import Mechanism

_REDUNDANT = f"(Broker code {int(BrokerCode.REDUNDANT_CONNECTION)},"


class _Attempt:
    """See `peers.connections.dialler.Attempt`."""

    is_to_be_repeated = False
    far_id = b""
    connection: Connection

    @property
    def was_linked(self) -> bool:
        """Whether the handshake was done."""
        return self.connection.has_joined


class _Zeek:
    """See `peers.connections.dialler.Peer`: any number of connections may lead there, without TLS.

    Args:
        attempt: Makes one attempt.
    """

    def __init__(self, attempt: Callable[[], Attempt]) -> None:
        self.attempt = attempt

    def tls(self) -> ssl.SSLContext | None:
        """There is none."""
        return None

    def is_held(self, reason: str) -> bool:  # noqa: ARG002 -- see above
        """It never is."""
        return False

    def is_linked(self, far_id: bytes) -> bool:  # noqa: ARG002 -- as above
        """It is never asked."""
        return False

    def failed(self, reason: str) -> None:
        """It is logged, and no more."""


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
    return Dialler(peerings.node, endpoint, _Broker(peerings, endpoint, queue), backoff)


class _BrokerAttempt(_Attempt):
    def __init__(self, peerings: Peerings, endpoint: Endpoint, queue: QueueLimits) -> None:
        self._conversation: BrokerConversation

        def make(connection: Connection) -> BrokerConversation:
            self._conversation = BrokerConversation(peerings, queue, connection, dialled=True)
            return self._conversation

        self.connection = Connection(peerings.node, make, address=endpoint.location)

    @property
    def far_id(self) -> bytes:  # type: ignore[override]
        """The id of the endpoint, nil before it has said it."""
        return self._conversation.session.peer_id


class _Broker(_Zeek):
    def __init__(self, peerings: Peerings, endpoint: Endpoint, queue: QueueLimits) -> None:
        super().__init__(lambda: _BrokerAttempt(peerings, endpoint, queue))
        self._peerings = peerings
        self._endpoint = endpoint

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


def bridge_dialler(node: Node, endpoint: Endpoint, queue: QueueLimits, backoff: Backoff | None = None) -> Dialler:
    """Keep a connection up.

    Args:
        node: The hub.
        endpoint: Where the Zeek listens; its `publish` names the prefixes of what is sent there.
        queue: For what waits to be sent there.
        backoff: How long to wait between attempts.

    Raises:
        InvalidTopicError: One of those is no prefix.
    """
    publish = tuple(check_prefix(prefix) for prefix in endpoint.publish)
    return Dialler(node, endpoint, _Zeek(lambda: _BridgeAttempt(node, queue, endpoint, publish)), backoff)


class _BridgeAttempt(_Attempt):
    def __init__(self, node: Node, queue: QueueLimits, endpoint: Endpoint, publish: tuple[str, ...]) -> None:
        self._conversation: BridgeConversation

        def make(connection: Connection) -> BridgeConversation:
            self._conversation = BridgeConversation(node, queue, endpoint, publish, connection)
            return self._conversation

        self.connection = Connection(node, make, address=endpoint.location)

    @property
    def was_linked(self) -> bool:
        """Whether the Zeek has heard what is wanted."""
        return self._conversation.is_acknowledged

    @property
    def is_to_be_repeated(self) -> bool:  # type: ignore[override]
        """Whether the hub wants other topics by now."""
        return self._conversation.is_renewed


def cluster_diallers(
    node: Node,
    endpoint: Endpoint,
    queue: QueueLimits,
    backoff: Callable[[], Backoff] = Backoff.for_link,
    mechanism: Callable[[], Mechanism] = NO_CURVE.dialled,
) -> tuple[Dialler, Dialler]:
    """Keep both connections to a broker.

    Args:
        node: The hub.
        endpoint: Where the broker's XPUB is; its `xsub` is the port of the other one.
        queue: For what waits to be sent there.
        backoff: Makes what says how long to wait between attempts, for each of the two.
        mechanism: Makes what each connection gets one of.
    """
    make = Member if endpoint.name else FarCluster
    cluster = make(node, endpoint.location, name=endpoint.name, serializer=endpoint.serializer, mechanism=mechanism)

    def dialler(at: Endpoint, connect: Callable[[Cluster, QueueLimits, str], Connection]) -> Dialler:
        def attempt() -> Attempt:
            made = _Attempt()
            made.connection = connect(cluster, queue, at.location)
            return made

        return Dialler(node, at, _Zeek(attempt), backoff())

    second = endpoint.with_port(endpoint.xsub)
    return dialler(endpoint, publisher_connection), dialler(second, subscriber_connection)
