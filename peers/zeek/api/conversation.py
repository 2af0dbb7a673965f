"""`ZeekConversation`: what a client of Zeek's WebSocket API does to the hub.

The client subscribes with its first message, once and for all; then it is acknowledged, and from that moment gets what
it has asked for. What it publishes does not come back to it. The acknowledgement stands before any message: the session
answers before the handler writes.

| end | code, reason |
|---|---|
| the first message is no array of strings, or has prefixes that the hub does not take | 1008, the error again |
| binary message | 1003 |
| queue full, policy disconnect | 1011, `backpressure_overflow` and the hub's own text |
| others | as for the hub's own clients |

Owner: one `peers.websocket.connection.WebSocketConnection`. No I/O.
"""

from __future__ import annotations

import re

from websockets.datastructures import Headers

from hub.errors import CloseCode
from hub.handler import Handler
from hub.overflow import QueueLimits
from peers.node import Node
from peers.websocket.conversation import Seat, publish, subscribe
from peers.websocket.messages import ClientMessage, Publication, Subscribe, Welcome
from peers.websocket.session import Session
from peers.wire.hello import NAME_LIMIT_BYTES
from peers.zeek.api.tongue import refusal_of

__all__ = ["OVERFLOW_CODE", "ZeekConversation", "client_name"]

OVERFLOW_CODE = 1011
"""What Broker closes with when a buffer is full. The hub's own code means nothing to its clients."""

_APPLICATION_NAME = re.compile(rf"[A-Za-z0-9\-/_.=:*@]{{1,{NAME_LIMIT_BYTES}}}")


class ZeekConversation:
    """One client. See `peers.websocket.conversation.Conversation`.

    Args:
        node: The hub.
        session: Where it answers.
        queue: Queue of the client.
        seat: Its connection.
        name: What it calls itself, see `client_name`.
    """

    __slots__ = ("_handler", "_name", "_node", "_queue", "_seat", "_session")

    def __init__(self, node: Node, session: Session, queue: QueueLimits, seat: Seat, name: str) -> None:
        self._node = node
        self._session = session
        self._queue = queue
        self._name = name
        self._seat = seat
        self._handler: Handler | None = None

    def begin(self) -> None:
        """Say nothing: the client speaks first."""

    def act(self, message: ClientMessage) -> None:
        """Subscribe or publish."""
        match message:
            case Subscribe():
                self._subscribe(message)
            case Publication() if self._handler is not None:
                self._publish(self._handler, message)

    def overflow(self, text: str) -> tuple[int, str]:
        """Say it in Broker's words."""
        return OVERFLOW_CODE, f"backpressure_overflow: {text}"

    def _subscribe(self, subscription: Subscribe) -> None:
        node, session = self._node, self._session
        handler = self._handler = self._seat.join(self._name, self._queue)
        handler.restrict(itself=False)
        refused = subscribe(node, handler, Subscribe(list(dict.fromkeys(subscription.prefixes))))
        if refused is not None:
            session.reject(refused)
            self._seat.end(CloseCode.NOT_ALLOWED, refused.text)
            return
        session.send(
            Welcome(hub=node.id.hex(), name=node.name, queue=self._queue, frame=node.settings.limits.frame_bytes)
        )

    def _publish(self, handler: Handler, publication: Publication) -> None:
        refused = publish(self._node, handler, publication)
        if refused is not None:
            self._session.reject(refusal_of(refused.text, publication.request))


def client_name(headers: Headers) -> str:
    """Return what a client calls itself: its application's name if that is one, else its software, else nothing."""
    for name in headers.get_all("X-Application-Name"):
        if _APPLICATION_NAME.fullmatch(name):
            return name
    for agent in headers.get_all("User-Agent"):
        if agent.isprintable():
            return agent.encode("utf-8", "replace")[:NAME_LIMIT_BYTES].decode("utf-8", "ignore")
    return ""
