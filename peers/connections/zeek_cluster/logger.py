"""`Logger`: the PUSH of a Zeek node, which brings its logs.

```
log batches ─▶ runs of records ─▶ core.publish, under /zeek/LOG/PATH
```

ZeroMQ confirms nothing: a node counts a batch as delivered once its socket has taken it. What the hub does not read
waits at the node, whose queue drops then (`log_sndhwm`).

Owner: one `Connection`. Cost: see `peers.zeek.zmtp.log_batch`. Not here: what a batch looks like
(`peers.zeek.zmtp.log_session`).
"""

from __future__ import annotations

from collections.abc import Callable

from hub.overflow import QueueLimits
from hub.routes import Route
from peers.connections.connection import Connection
from peers.connections.zeek_cluster.far_end import PROOF_COST, FarEnd
from peers.connections.zeek_cluster.mechanisms import NO_CURVE
from peers.node.node import Node
from peers.zeek.zmtp.event_reading import NoEvent
from peers.zeek.zmtp.log_session import LogSession
from peers.zeek.zmtp.mechanism import Mechanism
from peers.zeek.zmtp.session import Ended, Event, Proving, Ready

__all__ = ["Logger", "logger_connection"]


def logger_connection(
    node: Node, queue: QueueLimits, mechanism: Callable[[], Mechanism] = NO_CURVE.served
) -> Connection:
    """Make a connection to the PUSH of a node.

    Args:
        node: The hub.
        queue: Queue of its handler, in which nothing ever waits.
        mechanism: Makes what the connection gets one of.
    """
    return Connection(node, lambda connection: Logger(node, queue, connection, mechanism()))


class Logger(FarEnd):
    """One node. See `peers.connections.conversation.Conversation`."""

    __slots__ = ()

    scheme = "zeek+log"
    changes: frozenset[type] = frozenset({Proving, Ready})

    def __init__(self, node: Node, queue: QueueLimits, connection: Connection, mechanism: Mechanism) -> None:
        session: LogSession[Route] = LogSession(
            node.settings.limits.frame_bytes, node.core.routes, mechanism, waits=True
        )
        super().__init__(node, queue, connection, session)

    def act(self, event: Event | NoEvent) -> int:
        """Do what an event asks for; return its share of a turn."""
        match event:
            case Proving():
                return PROOF_COST
            case Ready():
                if self._join():
                    self._node.log.info("Zeek node logs", address=self._connection.address)
            case NoEvent():
                self.skip(event.reason)
            case Ended():
                self._finish(event)
        return 1
