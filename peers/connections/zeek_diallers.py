"""Diallers of Zeeks; see `peers.connections.dialler`."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from hub.overflow import QueueLimits
from hub.topics import check_prefix
from peers.connections.bridge import BridgeConversation
from peers.connections.broker import BrokerConversation, broker_connection
from peers.connections.broker_peerings import Peerings
from peers.connections.broker_tls import client_context
from peers.connections.connection import Connection
from peers.connections.dialler import Attempt, Dialler
from peers.connections.zeek_cluster.cluster import Cluster, FarCluster, Member
from peers.connections.zeek_cluster.far_end import NO_CURVE
from peers.connections.zeek_cluster.sockets import publisher_connection, subscriber_connection
from peers.node.node import Node
from peers.transport.backoff import Backoff
from peers.transport.endpoints import Endpoint, Scheme
from peers.zeek.broker.messages import BrokerCode
from peers.zeek.zmtp.session import Mechanism

_REDUNDANT = f"(Broker code {int(BrokerCode.REDUNDANT_CONNECTION)},"


class _Attempt:
    """See `peers.connections.dialler.Attempt`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._conversation = connection.conversation  # the connection drops it when it ends

    @property
    def was_linked(self) -> bool:
        if isinstance(self._conversation, BridgeConversation):
            return self._conversation.is_acknowledged
        return self.connection.has_joined

    @property
    def is_to_be_repeated(self) -> bool:
        """Whether the hub wants other topics of a Zeek's WebSocket server by now."""
        return isinstance(self._conversation, BridgeConversation) and self._conversation.is_renewed

    @property
    def far_id(self) -> bytes:
        return self._conversation.session.peer_id if isinstance(self._conversation, BrokerConversation) else b""


class _Zeek:
    """See `peers.connections.dialler.Peer`: any number of connections may lead there, without TLS."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect

    def attempt(self) -> Attempt:
        return _Attempt(self._connect())

    def tls(self) -> ssl.SSLContext | None:
        return None

    def is_held(self, reason: str) -> bool:  # noqa: ARG002 -- see `Peer`
        return False

    def is_linked(self, far_id: bytes) -> bool:  # noqa: ARG002 -- as above
        return False

    def failed(self, reason: str) -> None:
        """It is logged."""


class _Broker(_Zeek):
    def __init__(self, peerings: Peerings, endpoint: Endpoint, queue: QueueLimits) -> None:
        super().__init__(lambda: broker_connection(peerings, queue, dialled=True, address=endpoint.location))
        self._peerings = peerings
        self._endpoint = endpoint

    def tls(self) -> ssl.SSLContext | None:
        zeek = self._peerings.node.settings.zeek
        return client_context(zeek) if self._endpoint.scheme is Scheme.ZEEK else None

    def is_held(self, reason: str) -> bool:
        """Whether there is a connection to that endpoint already, which may have dialled this hub: no failure."""
        return _REDUNDANT in reason

    def is_linked(self, far_id: bytes) -> bool:
        return far_id in self._peerings.registry

    def failed(self, reason: str) -> None:
        """Announce `$hub/peers/unavailable`."""
        if not self.is_held(reason):
            self._peerings.unavailable(bytes(16), self._endpoint.location, reason)


def broker_dialler(
    peerings: Peerings, endpoint: Endpoint, queue: QueueLimits, backoff: Backoff | None = None
) -> Dialler:
    """Keep a peering with a Broker endpoint."""
    return Dialler(peerings.node, endpoint, _Broker(peerings, endpoint, queue), backoff)


def bridge_dialler(node: Node, endpoint: Endpoint, queue: QueueLimits, backoff: Backoff | None = None) -> Dialler:
    """Keep a connection to a Zeek's WebSocket server, which gets what is published under `endpoint.publish`.

    Raises:
        InvalidTopicError: One of those is no prefix.
    """
    publish = tuple(check_prefix(prefix) for prefix in endpoint.publish)

    def connect() -> Connection:
        def make(connection: Connection) -> BridgeConversation:
            return BridgeConversation(node, queue, endpoint, publish, connection)

        return Connection(node, make, address=endpoint.location)

    return Dialler(node, endpoint, _Zeek(connect), backoff)


def cluster_diallers(
    node: Node,
    endpoint: Endpoint,
    queue: QueueLimits,
    backoff: Callable[[], Backoff] = Backoff.for_link,
    mechanism: Callable[[], Mechanism] = NO_CURVE.dialled,
) -> tuple[Dialler, Dialler]:
    """Keep both connections to the central broker of a Zeek cluster, to its XPUB and, at the port `xsub`, its XSUB."""
    make = Member if endpoint.name else FarCluster
    cluster = make(node, endpoint.location, name=endpoint.name, serializer=endpoint.serializer, mechanism=mechanism)

    def dialler(at: Endpoint, connect: Callable[[Cluster, QueueLimits, str], Connection]) -> Dialler:
        return Dialler(node, at, _Zeek(lambda: connect(cluster, queue, at.location)), backoff())

    second = endpoint.with_port(endpoint.xsub)
    return dialler(endpoint, publisher_connection), dialler(second, subscriber_connection)
