"""`ZeekDialogue`: what a client of Zeek's WebSocket API does to the hub.

The client subscribes with its first message, once and for all; then it is acknowledged, and from that moment gets what
it has asked for. What it publishes does not come back to it, and what the hub says of itself comes only to a client
that asks for `$hub/` by that name: `[""]` is everything that others publish. The acknowledgement stands before any
message: the session answers before the handler writes.

| end | code, reason |
|---|---|
| the first message is no array of strings, or has prefixes that the hub does not take | 1008, the error again |
| what it has subscribed to is no longer granted | 1008, what was taken away |
| binary message | 1003 |
| queue full, policy disconnect | 1011, `backpressure_overflow` and the hub's own text |
| a ping without an answer | 1011, `Ping timeout` |
| another path than the API's | 1008, `Invalid URI - use /v1/messages/json`, behind an error that says the same |
| others | as for the hub's own clients |

Owner: one `peers.connections.websocket.WebSocketConversation`. No I/O.
"""

from __future__ import annotations

import re
import uuid

from websockets.datastructures import Headers
from websockets.http11 import Request

from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.overflow import QueueLimits
from peers.node.node import Node
from peers.transport.liveness import NO_ANSWER
from peers.verbs.far_side import INVALID, rejection
from peers.verbs.publish import Publication, publish
from peers.websocket.dialogue import Carrier
from peers.websocket.messages import ClientMessage, RefusedError, Welcome
from peers.websocket.session import Session
from peers.websocket.zeek.codec import refusal_of
from peers.wire.events import SubscriptionChange
from peers.wire.hello import NAME_LIMIT_BYTES, fitting_name

INTERNAL_ERROR = 1011
"""What Broker closes with when a buffer is full, and Zeek's server when a ping is not answered. The hub's own codes
mean nothing to their clients."""

_APPLICATION_NAME = re.compile(rf"[A-Za-z0-9\-/_.=:*@]{{1,{NAME_LIMIT_BYTES}}}")


class ZeekDialogue:
    """One client. See `peers.websocket.dialogue.Dialogue`.

    Args:
        node: The hub.
        session: Where it answers.
        queue: Queue of the client.
        carrier: Its connection.
        name: What it calls itself, see `client_name`.
    """

    __slots__ = ("_carrier", "_handler", "_name", "_node", "_queue", "_session")

    def __init__(self, node: Node, session: Session, queue: QueueLimits, carrier: Carrier, name: str) -> None:
        self._node = node
        self._session = session
        self._queue = queue
        self._name = name
        self._carrier = carrier
        self._handler: Handler | None = None

    def begin(self) -> None:
        """Say nothing: the client speaks first."""

    def act(self, message: ClientMessage) -> int:
        """Subscribe or publish."""
        match message:
            case SubscriptionChange():
                self._subscribe(message)
                return len(message.prefixes)
            case Publication() if self._handler is not None:
                self._publish(self._handler, message)
        return 0

    def end(self, code: int, text: str) -> tuple[int, str]:
        """Say it in Broker's words, or in those of Zeek's server, which pings."""
        if code == CloseCode.OVERFLOW:
            return INTERNAL_ERROR, f"backpressure_overflow: {text}"
        if text.startswith(NO_ANSWER):
            return INTERNAL_ERROR, "Ping timeout"
        return code, text

    def _subscribe(self, wanted: SubscriptionChange) -> None:
        node, session = self._node, self._session
        handler = self._handler = self._carrier.join(self._name, self._queue)
        handler.restrict(itself=False, hub=False)
        try:
            node.core.subscribe(handler, dict.fromkeys(wanted.prefixes))
        except INVALID as error:
            refused = rejection(error)
            session.reject(RefusedError(refused.code, refused.text))
            self._carrier.end(CloseCode.NOT_ALLOWED, refused.text)
            return
        node.core.authority.on_revoked[handler] = self._revoke
        session.send(Welcome(_endpoint_of(node, handler).hex, node.name, self._queue, node.settings.limits.frame_bytes))

    def _revoke(self, error: RejectedError) -> None:
        """End: what the client has subscribed to, once and for all, is no longer granted."""
        self._carrier.end(CloseCode.NOT_ALLOWED, error.text)

    def _publish(self, handler: Handler, publication: Publication) -> None:
        try:
            publish(self._node, handler, publication)
        except RejectedError as error:
            if error.code == CloseCode.NOT_ALLOWED:
                self._node.audit.refused(handler, "publish", error, publication.messages)
            self._session.reject(refusal_of(error.text, publication.request))


def _endpoint_of(node: Node, handler: Handler) -> uuid.UUID:
    """Return the id that the acknowledgement gives a client: no two clients of a hub have the same.

    Programs made for Zeek tell by it whether they are two, and Zeek's own server gives each client another.
    """
    return uuid.uuid5(uuid.UUID(bytes=node.id), str(handler.id))


def is_astray(request: Request) -> bool:
    """Tell whether a request with another path was meant for the API: it is for a WebSocket, without a subprotocol.

    Zeek's server takes such a handshake, says which path it is, and closes; programs made for it expect that.
    """
    headers = request.headers
    upgrades = [value.strip().lower() for line in headers.get_all("Upgrade") for value in line.split(",")]
    return "websocket" in upgrades and not headers.get_all("Sec-WebSocket-Protocol")


def client_name(headers: Headers) -> str:
    """Return what a client calls itself: its application's name if that is one, else its software, else nothing."""
    for name in headers.get_all("X-Application-Name"):
        if _APPLICATION_NAME.fullmatch(name):
            return name
    for agent in headers.get_all("User-Agent"):
        if agent.isprintable():
            return fitting_name(agent)
    return ""
