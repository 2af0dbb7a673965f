"""`FirstByte`: which protocol is spoken on a Unix socket, where there is one listener for all of them.

```
first byte   A to Z: GET, POST, …            ─▶ WebSocketConversation: HTTP, and what begins with it
             all others; HELLO begins with 0  ─▶ the conversation that is there already
```

Purpose: `curl --unix-socket`, without a listener of its own. It stands in place of the session until the first read,
and is gone then: what follows does not pass here.

Owner: one connection. Invariant: nothing was said before, unless this side has ended it, in the hub's own protocol.
"""

from __future__ import annotations

from typing import Any, Final

from hub.overflow import QueueLimits
from peers.connections.connection import Connection
from peers.connections.conversation import Session
from peers.connections.websocket import WebSocketConversation

__all__ = ["hear_http"]

_LETTERS: Final = range(ord("A"), ord("Z") + 1)
"""What a request of HTTP begins with. A frame begins with the length of its body: 65 for its first byte would be 1 GiB
of HELLO."""


def hear_http(connection: Connection, queue: QueueLimits) -> Connection:
    """Have a connection look at what comes first; return it."""
    connection.session = FirstByte(connection, queue)
    return connection


class FirstByte:
    """Of one connection. See `peers.connections.conversation.Session`.

    Args:
        connection: That has a conversation already.
        queue: Queue that its handler gets if the client has no wish.
    """

    __slots__ = ("_connection", "_queue", "_usual")

    has_more = False

    def __init__(self, connection: Connection, queue: QueueLimits) -> None:
        self._connection = connection
        self._queue = queue
        self._usual: Session = connection.session

    @property
    def closed(self) -> bool:
        """Whether this side has ended the conversation."""
        return self._usual.closed

    @property
    def has_outgoing(self) -> bool:
        """Whether something waits to be written."""
        return self._usual.has_outgoing

    @property
    def rejected_messages(self) -> int:
        """None: nothing has come."""
        return 0

    @property
    def held_bytes(self) -> int:
        """Nothing."""
        return 0

    @property
    def unfinished(self) -> int:
        """Nothing."""
        return 0

    def feed(self, data: bytes) -> None:
        """Look at the first byte, and hand all on."""
        connection, queue = self._connection, self._queue
        if data[0] in _LETTERS and not self.closed:
            node = connection.node
            connection.become(WebSocketConversation(node, queue, connection, loopback=True, any_host=True))
        else:
            connection.session = self._usual
        connection.session.feed(data)

    def next_event(self) -> Any:
        """Return what the usual session says."""
        return self._usual.next_event()

    def take_outgoing(self) -> bytes:
        """Return what is to be written."""
        return self._usual.take_outgoing()
