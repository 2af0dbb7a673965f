"""Diallers of Zeeks; see `peers.connections.dialler`."""

from __future__ import annotations

from collections.abc import Callable

from hub.limits import QueueLimits
from hub.topics import check_prefix
from peers.connections.bridge import BridgeConversation
from peers.connections.broker import broker_connection
from peers.connections.broker_peerings import Peerings
from peers.connections.broker_tls import client_context
from peers.connections.connection import Connection
from peers.connections.dialler import Dialler, Peer
from peers.connections.zeek_cluster.cluster import Cluster, Member, RemoteCluster
from peers.connections.zeek_cluster.remote_end import NO_CURVE
from peers.connections.zeek_cluster.sockets import publisher_connection, subscriber_connection
from peers.server.server import Server
from peers.transport.backoff import Backoff
from peers.transport.endpoints import Endpoint, Scheme
from peers.zeek.broker.messages import BrokerCode
from peers.zeek.zmtp.session import Mechanism

_REDUNDANT = f"(Broker code {int(BrokerCode.REDUNDANT_CONNECTION)},"


def broker_dialler(
    peerings: Peerings, endpoint: Endpoint, queue: QueueLimits, backoff: Backoff | None = None
) -> Dialler:
    """Keep a peering with a Broker endpoint; announce failed attempts as `$hub/peers/unavailable`."""

    def is_held(reason: str) -> bool:
        """Whether there is a connection to that endpoint already, which may have dialled this hub: no failure."""
        return _REDUNDANT in reason

    def failed(reason: str) -> None:
        if not is_held(reason):
            peerings.unavailable(bytes(16), endpoint.location, reason)

    peer = Peer(
        lambda: broker_connection(peerings, queue, dialled=True, address=endpoint.location),
        lambda: client_context(peerings.server.settings.zeek) if endpoint.scheme is Scheme.ZEEK else None,
        far_id=lambda conversation: conversation.session.peer_id,
        is_held=is_held,
        is_linked=lambda far_id: far_id in peerings.registry,
        failed=failed,
    )
    return Dialler(peerings.server, endpoint, peer, backoff)


def bridge_dialler(server: Server, endpoint: Endpoint, queue: QueueLimits, backoff: Backoff | None = None) -> Dialler:
    """Keep a connection to a Zeek's WebSocket server, which gets what is published under `endpoint.publish`.

    Raises:
        InvalidTopicError: One of those is no prefix.
    """
    publish = tuple(check_prefix(prefix) for prefix in endpoint.publish)

    def connect() -> Connection:
        def make(connection: Connection) -> BridgeConversation:
            return BridgeConversation(server, queue, endpoint, publish, connection)

        return Connection(server, make, address=endpoint.location)

    peer = Peer(
        connect,
        was_linked=lambda _, conversation: conversation.is_acknowledged,
        is_to_be_repeated=lambda conversation: conversation.is_renewed,
    )
    return Dialler(server, endpoint, peer, backoff)


def cluster_diallers(
    server: Server,
    endpoint: Endpoint,
    queue: QueueLimits,
    backoff: Callable[[], Backoff] = Backoff.for_link,
    mechanism: Callable[[], Mechanism] = NO_CURVE.dialled,
) -> tuple[Dialler, Dialler]:
    """Keep both connections to the central broker of a Zeek cluster, to its XPUB and, at the port `xsub`, its XSUB."""
    make = Member if endpoint.name else RemoteCluster
    cluster = make(server, endpoint.location, name=endpoint.name, serializer=endpoint.serializer, mechanism=mechanism)

    def dialler(at: Endpoint, connect: Callable[[Cluster, QueueLimits, str], Connection]) -> Dialler:
        return Dialler(server, at, Peer(lambda: connect(cluster, queue, at.location)), backoff())

    second = endpoint.with_port(endpoint.xsub)
    return dialler(endpoint, publisher_connection), dialler(second, subscriber_connection)
