"""`cluster_diallers`: be a node of a Zeek cluster with a central broker of its own; see `peers.connections.dialler`.

```
hub, its XSUB ── dials ──▶ XPUB of the broker: subscriptions there, events back
hub, its XPUB ── dials ──▶ XSUB of the broker: events there, subscriptions back
```

Each of the two is made again by itself, whichever breaks. All that was told before holds no more then, and the broker
tells all again, as this hub does. Not here: what is said (`peers.connections.zeek_cluster`).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from hub.overflow import QueueLimits
from peers.connections.connection import Connection
from peers.connections.dialler import Attempt, Dialler
from peers.connections.zeek_cluster.cluster import Cluster, FarCluster
from peers.connections.zeek_cluster.far_end import NO_CURVE
from peers.connections.zeek_cluster.member import Member
from peers.connections.zeek_cluster.sockets import publisher_connection, subscriber_connection
from peers.node.node import Node
from peers.transport.backoff import Backoff
from peers.transport.endpoints import Endpoint
from peers.zeek.zmtp.handshake import Mechanism

__all__ = ["cluster_diallers"]

_Connect = Callable[[Cluster, QueueLimits, str], Connection]


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
    second = endpoint.with_port(endpoint.xsub)
    return (
        Dialler(node, endpoint, _Broker(cluster, endpoint, queue, publisher_connection), backoff()),
        Dialler(node, second, _Broker(cluster, second, queue, subscriber_connection), backoff()),
    )


class _ClusterAttempt:
    """See `peers.connections.dialler.Attempt`."""

    is_to_be_repeated = False
    far_id = b""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @property
    def was_linked(self) -> bool:
        """Whether the handshake was done."""
        return self.connection.has_joined


class _Broker:
    """One of its sockets. See `peers.connections.dialler.Peer`."""

    def __init__(self, cluster: Cluster, endpoint: Endpoint, queue: QueueLimits, connect: _Connect) -> None:
        self._cluster = cluster
        self._endpoint = endpoint
        self._queue = queue
        self._connect = connect

    def attempt(self) -> Attempt:
        """Dial it."""
        return _ClusterAttempt(self._connect(self._cluster, self._queue, self._endpoint.location))

    def tls(self) -> ssl.SSLContext | None:
        """There is none."""
        return None

    def is_held(self, reason: str) -> bool:  # noqa: ARG002 -- a broker takes any number of connections
        """It never is."""
        return False

    def is_linked(self, far_id: bytes) -> bool:  # noqa: ARG002 -- as above
        """It is never asked."""
        return False

    def failed(self, reason: str) -> None:
        """Nobody is told; it is logged."""
