"""`HttpConversation`: what a connection carries on which clients publish, or follow events, over plain HTTP.

```
WebSocketConversation ─ a request for /v1/publish, /v1/events ─▶ HttpConversation
   Asked ─▶ Host, Origin ─▶ who is it? ─▶ handler ─┬─ POST ─▶ Publishing ─▶ one answer, and the next request
                                                   └─ GET  ─▶ Stream ─▶ events, until one side goes
```

Purpose: a client over HTTP is one like all others: it has a handler, so it is shown, closed, charged and held back like
them, and what it asks for is done by the same verbs.

Owner: one `Connection`. Invariants: each request shows who asks, and a connection belongs to one user; the answer to a
POST says what was published, all of it or up to the line that was refused.

Cost: about 150 µs a request. Not here: how requests are read (`peers.websocket.http.session`), what a stream does
(`peers.connections.http.stream`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import cast

from websockets.http11 import Request

from hub.batch import Batch
from hub.delivery import Role
from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.request_frame import Item
from peers.connections.connection import ELSEWHERE, Connection
from peers.connections.door import enter, rights_of, take_place
from peers.connections.http.gate import CHALLENGE, bearer, foreign
from peers.connections.http.stream import LIVE_HEADERS, Stream
from peers.node.node import Node
from peers.values.event_stream import closed_event
from peers.verbs.verbs import CHANGES, Verbs
from peers.websocket.http.content import JSON_TYPE, TYPES, Values, content_of, error_body, status_of
from peers.websocket.http.head import Head
from peers.websocket.http.publishing import HttpFarSide, Publishing
from peers.websocket.http.query import EVENTS, is_served, target_of, wanted_of
from peers.websocket.http.session import Asked, Done, Event, HttpSession, Phase, Piece, Refused
from peers.websocket.zeek import client_name
from peers.wire.hello import grant

__all__ = ["HttpConversation"]

_REQUEST_EVENTS = 10
"""What a request costs of a turn's share: 100 to 200 µs."""

_PIECE_ENVELOPE_BYTES = 64 * 1024
"""How much a piece of the journal may have around its largest value."""

_METHODS = {EVENTS: "GET"}
"""The method of each path; all others are for publishing."""

_HOUR_S = "3600"

_LAST_LOOK = 0.9
"""The part of the time for an answer to a ping after which it is looked once more whether a stream is read."""


class HttpConversation:
    """One client. See `peers.connections.conversation.Conversation`.

    Args:
        node: The hub.
        queue: The queue of a stream that has no wish.
        connection: That carries it.
        loopback: Whether the listener is bound to a loopback address.
        any_host: Whether nobody can have made a name point here, as at a Unix socket.
        refusal: Why the hub takes no further connection; empty if it does.
    """

    __slots__ = (
        "_any_host",
        "_connection",
        "_far",
        "_loopback",
        "_node",
        "_publishing",
        "_queue",
        "_refusal",
        "_shared_headers",
        "_shown",
        "_stream",
        "_verbs",
        "session",
    )

    scheme = "http"
    far_name = ""  # it is known with the handler, which has it
    changes = CHANGES | {Asked}
    unsaid = "the client closed"
    is_held = False

    def __init__(  # noqa: PLR0913 -- what is known of a connection is told at once
        self,
        node: Node,
        queue: QueueLimits,
        connection: Connection,
        *,
        loopback: bool,
        any_host: bool,
        refusal: str,
    ) -> None:
        settings = node.settings
        self._node = node
        self._queue = queue
        self._connection = connection
        self._loopback = loopback
        self._any_host = any_host
        self._refusal = refusal
        self.session = HttpSession(settings.limits.handshake_bytes, settings.http.body_bytes)
        self._far = HttpFarSide(settings.limits.frame_bytes + _PIECE_ENVELOPE_BYTES)
        self._verbs: Verbs | None = None
        """Made with the handler, by the first request of somebody who is let in."""
        self._publishing: Publishing | None = None
        """The POST that is being read, or waits for the journal."""
        self._stream: Stream | None = None
        """Once events were asked for."""
        self._shown: bytes | None = None
        """A hash of the token that was shown with the first request: those that follow must show it, too."""
        self._shared_headers: dict[str, str] = {}
        """What tells a browser that the page that asks may have the answer."""

    # What the connection asks.

    @property
    def is_open(self) -> bool:
        """Whether the client was let in."""
        return self._verbs is not None

    @property
    def is_quiet(self) -> bool:
        """Whether nobody was let in."""
        return self._connection.handler is None

    @property
    def is_bell(self) -> bool:
        """Whether what the handler is offered only says that there is something in the journal."""
        return self._stream is not None and self._stream.is_recorded

    def begin(self, refusal: str) -> None:
        """Say nothing: the client speaks first."""

    def end_of_stream(self) -> None:
        """Say nothing: the client wants to hear no more."""

    def act(self, event: Event) -> int:
        """Do what the client asks for."""
        match event:
            case Piece():
                self.session.read()
                return event.cost
            case Asked():
                self._asked(event.head)
                return _REQUEST_EVENTS
            case Values() if self._publishing is not None:
                cost = self._publishing.publish(event)
                self._answer_if_settled()
                return cost
            case Done() if self._publishing is not None:
                self._publishing.is_done = True
                self._answer_if_settled()
            case Refused() if self._publishing is not None:
                self._node.rejected_messages += 1
                self._publishing.refuse(event.code, event.text, event.line)
                self._answer_if_settled()
            case Refused():
                self._refuse(event.status, event.code, event.text)
            case _:
                pass
        return 1

    # A request.

    def _asked(self, head: Head) -> None:
        request = head.request
        path, _, query = request.path.partition("?")
        self._shared_headers = {}
        refused = foreign(request, self._node, loopback=self._loopback, any_host=self._any_host)
        if refused is not None:
            self._node.log.warning("connection refused", address=self._connection.address, reason=refused.text)
            self._refuse(refused.status, CloseCode.FORBIDDEN, refused.text)
            return
        origins = request.headers.get_all("Origin")
        if origins:
            self._shared_headers = {"Access-Control-Allow-Origin": origins[0], "Vary": "Origin"}
            if origins[0].partition("://")[2] == request.headers.get("Host"):
                # A page of this hub: its browser would ask for further files of it over this connection.
                self._shared_headers["Connection"] = "close"
        method = _METHODS.get(path, "POST")
        if not is_served(path):
            text = "there is nothing here: ask for the page, health and metrics on a connection of their own"
            self._refuse(HTTPStatus.NOT_FOUND, CloseCode.BAD_DATA, text)
        elif request.method == "OPTIONS":
            self._allow(method)
        elif request.method != method:
            text = f"{method} is answered here"
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, CloseCode.BAD_DATA, text, Allow=f"{method}, OPTIONS")
        elif self._lets_in(request):
            self._serve(head, path, query)

    def _allow(self, method: str) -> None:
        """Tell a browser what a page may ask for."""
        headers = {
            "Access-Control-Allow-Methods": method,
            "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
            "Access-Control-Max-Age": _HOUR_S,
            "Allow": f"{method}, OPTIONS",
        }
        self._respond(HTTPStatus.NO_CONTENT, b"", headers)

    def _lets_in(self, request: Request) -> bool:
        """Return whether the client is somebody who may ask; if not, it is refused, perhaps later."""
        connection = self._connection
        token = bearer(request.headers.get_all("Authorization"))
        shown = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        if self._verbs is not None:
            if shown == self._shown:
                return True
            text = "this connection belongs to whoever asked first; ask over another one"
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, CloseCode.NOT_ALLOWED, text, Connection="close")
            return False
        if self._refusal:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, CloseCode.TRY_AGAIN_LATER, self._refusal)
            return False
        try:
            enter(self._node, connection, token)
        except NotRecognisedError as error:
            connection.turn_away(error)
            return False
        try:
            take_place(self._node, connection)
        except RejectedError as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, error.code, error.text)
            return False
        self._shown = shown
        self._join(request)
        return True

    def _join(self, request: Request) -> None:
        """Make the client a handler of the core."""
        node, connection = self._node, self._connection
        handler = Handler(
            connection,
            role=Role.CLIENT,
            limits=self._queue,
            name=client_name(request.headers),
            address=connection.address,
            frame_limit_bytes=node.settings.limits.frame_bytes,
            rights=rights_of(node, connection),
        )
        connection.join(handler)
        node.core.attach(handler)
        connection.charge_user()
        self._verbs = Verbs(node, handler, self._far)
        self._far.act = self._verbs.act
        connection.opened()
        node.log.info("client connected", address=connection.address, name=handler.name, protocol=connection.protocol)

    def _serve(self, head: Head, path: str, query: str) -> None:
        try:
            if path == EVENTS:
                self._follow(head, query)
            else:
                self._receive(head, path, query)
        except RejectedError as error:
            self._refuse(status_of(error.code), error.code, error.text)

    # POST.

    def _receive(self, head: Head, path: str, query: str) -> None:
        """Publish what the body of a request holds."""
        target = target_of(path, query)
        headers = head.request.headers
        if not head.has_length:
            text = "how long is the body? Say Content-Length, or send it in chunks"
            self._refuse(HTTPStatus.LENGTH_REQUIRED, CloseCode.BAD_DATA, text)
            return
        content = content_of(", ".join(headers.get_all("Content-Type")), self._node.settings.limits.frame_bytes)
        if content is None or headers.get_all("Content-Encoding"):
            text = f"Content-Type: one of {TYPES} is taken, as it is"
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, CloseCode.WRONG_KIND, text)
            return
        refused = self.session.receive(head, content)
        if refused is not None:
            self._refuse(refused.status, refused.code, refused.text)
            return
        self._publishing = Publishing(target, cast("Verbs", self._verbs).act, self._told)
        self._far.listener = self._publishing

    def _answer_if_settled(self) -> None:
        """Answer the POST that was read, or wait until the journal has it."""
        publishing = self._publishing
        if publishing is None or not (publishing.is_done or publishing.is_refused):
            return
        if not publishing.is_settled:
            self._connection.stop_reading(ELSEWHERE)
            return
        self._publishing = None
        self._respond(*publishing.answer())

    def _told(self) -> None:
        """The journal has told something."""
        publishing = self._publishing
        if publishing is not None and publishing.is_settled:
            self._answer_if_settled()
            if not self.session.closed:
                self._connection.go_on()

    # GET.

    def _follow(self, head: Head, query: str) -> None:
        """Begin a stream of events."""
        if head.has_body:
            raise RejectedError(CloseCode.BAD_DATA, "a GET has no body")
        wanted = wanted_of(query, head.request.headers.get_all("Last-Event-ID"))
        handler = cast("Handler", self._connection.handler)
        most = self._node.settings.queue_max
        handler.limits = grant(wanted.queue, self._queue, most.messages, most.bytes)
        handler.name = wanted.name or handler.name
        stream = Stream(self._node, handler, cast("Verbs", self._verbs), self, wanted)
        self._stream = self._far.listener = stream
        stream.begin()

    # What a stream asks for, see `peers.connections.http.stream.Shell`.

    @property
    def is_choked(self) -> bool:
        """Whether the client has much to read yet."""
        return self._connection.is_choked

    def accept(self) -> None:
        """The stream begins: say so."""
        self.session.stream({"Date": formatdate(usegmt=True)} | LIVE_HEADERS | self._shared_headers)
        self.write_later()

    def refuse(self, error: RejectedError) -> None:
        """The stream does not begin."""
        self._stream = None
        self._refuse(status_of(error.code), error.code, error.text)
        self._connection.write_outgoing()

    def say(self, text: bytes) -> None:
        """Write events, at the end of the read, or soon."""
        self.session.say(text)
        self.write_later()

    def write_later(self) -> None:
        """Write soon what the session has to say."""
        self._connection.write_later()

    def write(self, text: bytes) -> None:
        """Write events now."""
        if not self.session.closed:
            self._connection.write([text])

    def end(self, code: int, text: str) -> None:
        """End the stream."""
        self._connection.end(code, text)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` after so long, if the client is still there."""
        self._node.loop.call_later(seconds, lambda: self._connection.guard(act))

    def after_turn(self, act: Callable[[], None]) -> None:
        """Call `act` once this turn is over."""
        self._connection.after_turn(act)

    # Answers.

    def _refuse(self, status: HTTPStatus, code: int, text: str, **headers: str) -> None:
        self._connection.reason = f"{text} (HTTP {status.value})"
        self._respond(status, error_body(code, text), headers)

    def _respond(self, status: HTTPStatus, body: bytes, headers: dict[str, str] | None = None) -> None:
        kind = {
            "Date": formatdate(usegmt=True),
            "Content-Type": JSON_TYPE,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        }
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            kind["Retry-After"] = "1"
        is_more = self.session.respond(status, kind | self._shared_headers | (headers or {}), body)
        if not is_more:
            self._connection.reason = self._connection.reason or f"answered with HTTP {status.value}"
            self._connection.linger()

    def close(self, code: int, text: str) -> str:
        """End the session: what is being answered is answered so, and a stream is told."""
        session = self.session
        if session.phase is Phase.STREAM:
            session.say(closed_event(code, text))
        elif session.phase is not Phase.HEAD:
            published = {} if self._publishing is None else {"messages": self._publishing.messages}
            headers = CHALLENGE if code == CloseCode.NOT_RECOGNISED else {}
            headers = headers | {"Content-Type": JSON_TYPE, "Connection": "close"} | self._shared_headers
            status = status_of(code)
            if code == CloseCode.PROTOCOL_ERROR:  # it was waited for too long
                status, text = HTTPStatus.REQUEST_TIMEOUT, "the request was not complete in time"
            session.respond(status, headers, error_body(code, text, **published))
        session.close()
        return f"{text} ({int(code)})"

    def time_out(self) -> None:
        """Nobody was let in, and nothing more was asked."""
        self._connection.end(CloseCode.PROTOCOL_ERROR, "no request of somebody who was let in")

    # What the handler writes.

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches as events; or ring, where they are read from the journal."""
        stream = self._stream
        if stream is None or self.session.phase is not Phase.STREAM:
            return []
        frames, lost = stream.render(batches)
        if lost:  # the client is told among the events
            self._connection.lose(lost)
        return frames

    def render_items(self, items: list[Item]) -> list[bytes]:  # noqa: ARG002 -- nobody is asked over HTTP
        """Nothing: such a handler takes none."""
        return []

    def render_gap(self, lost_messages: int) -> bytes:
        """Tell how many messages are missing."""
        return b"" if self._stream is None else self._stream.render_gap(lost_messages)

    def write_more(self) -> None:
        """The client reads on."""
        if self._stream is not None:
            self._stream.go_on()

    def ping(self) -> None:
        """Say something into a stream; whoever has taken all that was written gives a sign of life by that."""
        if self._stream is not None:
            self._look_for_life()
            self.later(self._node.settings.limits.ping_timeout_s * _LAST_LOOK, self._look_for_life)

    def _look_for_life(self) -> None:
        if self._stream is not None and self._stream.is_alive(self._connection.transport):
            self._connection.hear()

    # Ends.

    def drain(self, text: str) -> None:
        """The hub stops."""
        self._connection.end(CloseCode.GOING_AWAY, text)

    def leave(self, reason: str) -> None:  # noqa: ARG002 -- the core announces it
        """Nobody is there to be answered any more."""
        if self._verbs is not None:
            self._verbs.close()
        self._far.let_go()

    def conclude(self) -> None:
        """Let go of all that knows this conversation."""
        self._verbs = self._publishing = self._stream = None
        self._far.let_go()
