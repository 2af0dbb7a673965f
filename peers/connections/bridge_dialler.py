"""`bridge_dialler`: keep a connection to one Zeek's WebSocket server, forever; see `peers.connections.dialler`.

Where the connection ended because the hub wants other topics by now, the next one follows at once.

Towards the hub the Zeek's events are published as they come. Towards the Zeek goes what is published on this hub, also
by its peers, under the prefixes that the endpoint lists in `publish`; nothing, if it lists none.
"""

from __future__ import annotations

import ssl

from hub.overflow import QueueLimits
from hub.topics import check_prefix
from peers.connections.bridge import BridgeConversation
from peers.connections.connection import Connection
from peers.connections.dialler import Attempt, Dialler
from peers.node.node import Node
from peers.transport.backoff import Backoff
from peers.transport.endpoints import Endpoint

__all__ = ["bridge_dialler"]


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
    return Dialler(node, endpoint, _Zeek(node, endpoint, queue), backoff)


class _BridgeAttempt:
    """See `peers.connections.dialler.Attempt`."""

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
    def is_to_be_repeated(self) -> bool:
        """Whether the hub wants other topics by now."""
        return self._conversation.is_renewed

    far_id = b""


class _Zeek:
    """See `peers.connections.dialler.Peer`."""

    def __init__(self, node: Node, endpoint: Endpoint, queue: QueueLimits) -> None:
        self._node = node
        self._endpoint = endpoint
        self._queue = queue
        self._publish = tuple(check_prefix(prefix) for prefix in endpoint.publish)

    def attempt(self) -> Attempt:
        """Dial the Zeek."""
        return _BridgeAttempt(self._node, self._queue, self._endpoint, self._publish)

    def tls(self) -> ssl.SSLContext | None:
        """There is none."""
        return None

    def is_held(self, reason: str) -> bool:  # noqa: ARG002 -- a Zeek takes any number of connections
        """It never is."""
        return False

    def is_linked(self, far_id: bytes) -> bool:  # noqa: ARG002 -- as above
        """It is never asked."""
        return False

    def failed(self, reason: str) -> None:
        """Nobody is told; it is logged."""
