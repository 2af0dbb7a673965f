"""Conversations: what a client's messages do to the hub, once the WebSocket is open.

```
path            tongue                        conversation
/v1/hub         hub.v1.json, hub.v1.msgpack   HubConversation (here)
another's path  its own                       one of the same shape, such as that of `peers.zeek.api`
```

Owner: one `peers.websocket.connection.WebSocketConnection`, which makes it when it has accepted the handshake and
brings it every message of the client. Plain and synchronous. Invariant: a client becomes a handler with its first
message: before that it can receive nothing, and then its name is known when it is announced.

Not here: frames (`peers.websocket.session`), the socket and its ends (`peers.websocket.connection`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import UNSET

from hub.errors import CloseCode, InvalidTopicError, RejectedError
from hub.handler import Handler, Poster
from hub.overflow import QueueLimits
from hub.requests.layout import Reply, Request
from peers.node import Node
from peers.websocket.journal_requests import JournalRequests
from peers.websocket.messages import (
    Claim,
    ClientMessage,
    Fetch,
    Hello,
    Publication,
    RefusedError,
    Release,
    Serve,
    Subscribe,
    SubscribeRules,
    Unserve,
    Unsubscribe,
    UnsubscribeRules,
    Welcome,
)
from peers.websocket.names import NameRequests
from peers.websocket.requests import Requests
from peers.websocket.rules import change_rules
from peers.websocket.session import Session
from peers.wire.hello import grant

__all__ = ["Conversation", "HubConversation", "Seat", "publish", "subscribe"]


class Seat(Protocol):
    """The connection, as far as a conversation needs it."""

    def join(self, name: str, limits: QueueLimits, poster: Poster | None = None) -> Handler:
        """Make the client a handler of the core, with that name and queue; a poster for one that asks and serves."""

    def write(self, frames: list[bytes]) -> None:
        """Write ready frames, behind what the session has to say."""

    def owe(self) -> None:
        """The client is owed answers: do not read on while it does not read."""

    def speak(self) -> None:
        """Write what the session has to say, soon: it was answered outside of a read."""

    def when_writable(self, act: Callable[[], None]) -> None:
        """Call `act` whenever the client reads again."""

    def when_gone(self, act: Callable[[], None]) -> None:
        """Call `act` when nobody is there to be answered any more."""

    def end(self, code: int, text: str) -> None:
        """Close the connection, with a code and a text that says why."""


class Conversation(Protocol):
    """What differs between those that may be held over a WebSocket, beside their tongues."""

    def begin(self) -> None:
        """The handshake is over."""

    def act(self, message: ClientMessage) -> None:
        """Do what the client asks for, and answer it."""

    def overflow(self, text: str) -> tuple[int, str]:
        """Return the code and the reason of the Close for a client whose queue was full, which `text` explains."""


class HubConversation:
    """The hub's own: welcome, hello, subscriptions, publications, confirmations, the journal, requests.

    Args:
        node: The hub.
        session: Where it answers.
        queue: Queue of the client if it has no wish.
        seat: Its connection.
    """

    __slots__ = ("_handler", "_hello_due", "_journal", "_names", "_node", "_queue", "_requests", "_seat", "_session")

    def __init__(self, node: Node, session: Session, queue: QueueLimits, seat: Seat) -> None:
        self._node = node
        self._session = session
        self._queue = queue
        self._seat = seat
        self._hello_due = True
        self._handler: Handler | None = None
        self._requests = Requests(node, session, seat)
        self._journal: JournalRequests | None = None  # once it is asked for something
        self._names: NameRequests | None = None  # once it claims one

    def begin(self) -> None:
        """Welcome the client."""
        self._welcome(self._queue)

    def act(self, message: ClientMessage) -> None:
        """Do what the client asks for."""
        match message:
            case Publication():
                self._publish(message)
            case Subscribe() | Unsubscribe() | SubscribeRules() | UnsubscribeRules():
                self._change_subscription(message)
            case Fetch():
                self._fetch(message)
            case Request() | Reply() | Serve() | Unserve():
                self._requests.act(self._joined(), message)
            case Claim() | Release():
                self._name_requests().act(message)
            case Hello():
                self._greet(message)

    def overflow(self, text: str) -> tuple[int, str]:
        """The hub's own code."""
        return CloseCode.OVERFLOW, text

    def _publish(self, publication: Publication) -> None:
        refused = publish(self._node, self._joined(), publication)
        if refused is not None:
            self._session.reject(refused)
        elif publication.confirm:
            self._journal_requests().confirm(publication)
        else:
            self._session.confirm(publication.request)

    def _change_subscription(self, change: Subscribe | Unsubscribe | SubscribeRules | UnsubscribeRules) -> None:
        handler = self._joined()
        if isinstance(change, Unsubscribe):
            self._node.core.unsubscribe(handler, change.prefixes)
            self._session.confirm(change.request)
            return
        if isinstance(change, Subscribe):
            refused = subscribe(self._node, handler, change)
        else:
            refused = change_rules(self._node, handler, change)
        if refused is not None:
            self._session.reject(refused)
        elif isinstance(change, UnsubscribeRules):
            self._session.confirm(change.request)
        else:  # within the same step: what is recorded from here on is delivered, and nothing that was before
            self._session.confirm(change.request, self._node.journal.position())

    def _fetch(self, fetch: Fetch) -> None:
        self._joined()
        try:
            self._journal_requests().fetch(fetch)
        except RefusedError as error:
            self._session.reject(error)

    def _journal_requests(self) -> JournalRequests:
        if self._journal is None:
            self._journal = JournalRequests(self._node, self._session, self._seat)
        return self._journal

    def _name_requests(self) -> NameRequests:
        if self._names is None:
            self._names = NameRequests(self._node, self._joined(), self._session, self._seat)
        return self._names

    def _greet(self, hello: Hello) -> None:
        """The client says who it is."""
        if not self._hello_due:
            self._session.reject(RefusedError(CloseCode.NOT_ALLOWED, "hello is taken as the first message only"))
            return
        most = self._node.settings.queue_max
        limits = grant(hello.queue, self._queue, most.messages, most.bytes)
        self._take_in(hello.name, limits)
        self._welcome(limits)

    def _joined(self) -> Handler:
        return self._handler or self._take_in("", self._queue)

    def _take_in(self, name: str, limits: QueueLimits) -> Handler:
        self._hello_due = False
        self._handler = self._seat.join(name, limits, self._requests)
        return self._handler

    def _welcome(self, limits: QueueLimits) -> None:
        node = self._node
        frame_bytes = node.settings.limits.frame_bytes
        journal = node.journal.id.hex() or UNSET
        self._session.send(Welcome(node.id.hex(), node.name, limits, frame_bytes, journal=journal))


def publish(node: Node, handler: Handler, publication: Publication) -> RefusedError | None:
    """Publish for a client; return why it was refused, None if it was not."""
    routes = node.core.routes
    size_bytes = len(publication.frame)
    request = publication.request
    if size_bytes > node.settings.limits.frame_bytes:
        text = f"publish: {size_bytes} bytes as msgpack, the limit is {node.settings.limits.frame_bytes}"
        return RefusedError(CloseCode.TOO_BIG, text, request, publication.messages)
    try:
        route = routes.table.get(publication.routing_key) or routes.miss(publication.routing_key)
        node.core.check_sender(handler, route)
    except RejectedError as error:
        return RefusedError(error.code, error.text, request, publication.messages)
    node.core.publish(handler, route, publication.batch)
    return None


def subscribe(node: Node, handler: Handler, change: Subscribe) -> RefusedError | None:
    """Subscribe a client; return why it was refused, None if it was not."""
    try:
        node.core.subscribe(handler, change.prefixes)
    except RejectedError as error:
        return RefusedError(error.code, error.text, change.request)
    except InvalidTopicError as error:
        return RefusedError(CloseCode.BAD_DATA, str(error), change.request)
    return None
