"""`HttpConversation`: clients that publish, or follow events, over plain HTTP on the WebSocket port.

```
WebSocketConversation ─ a request for /v1/publish, /v1/events ─▶ HttpConversation
   Asked ─▶ Host, Origin ─▶ who is it? ─▶ handler ─┬─ POST ─▶ Publishing ─▶ one answer, and the next request
                                                   └─ GET  ─▶ Stream ─▶ events, until one side closes
```

A client over HTTP has a handler, so it is listed, closed, charged and paced like all others, and its requests go to the
same commands. A connection belongs to one user. A request costs about 150 µs.
"""

from __future__ import annotations

import hashlib
from email.utils import formatdate
from http import HTTPStatus
from typing import cast

from websockets.http11 import Request

from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.frame import HEADER, HEADER_BYTES
from peers.commands.commands import CHANGES, Commands
from peers.connections.connection import ELSEWHERE, Connection
from peers.connections.conversation import ClientConversation
from peers.connections.http_pages import CHALLENGE, bearer, refused
from peers.connections.http_stream import LIVE_HEADERS, Stream
from peers.values.event_stream import closed_event
from peers.websocket.http_content import (
    EVENTS,
    JSON_TYPE,
    TYPES,
    Publishing,
    Values,
    content_of,
    error_body,
    is_served,
    status_of,
    target_of,
    wanted_of,
)
from peers.websocket.http_session import Asked, Done, Event, Head, HttpSession, Phase, Piece, Refused
from peers.websocket.zeek_codec import client_name
from peers.wire.control import decode_notice
from peers.wire.hello import grant
from peers.wire.kinds import Kind

_REQUEST_EVENTS = 10  # share of a turn for a request: 100 to 200 µs
_METHODS = {EVENTS: "GET"}  # the method of each path; all others are for publishing

_HOUR_S = "3600"

_LAST_LOOK = 0.9  # the part of the time for an answer to a ping after which a stream's progress is checked once more


class HttpConversation(ClientConversation):
    """One client; also the `Replies` of its commands.

    Args:
        connection: Its connection.
        queue: The queue of a stream that has no wish.
        refusal: Why the hub takes no further connection; empty if it does.
        loopback: Whether the listener is bound to a loopback address.
        any_host: Whether no name can have been made to point here, as at a Unix socket.
    """

    __slots__ = ("_any_host", "_loopback", "_publishing", "_refusal", "_shared_headers", "_stream", "_token_hash")

    session: HttpSession
    changes = CHANGES | {Asked}
    unsaid = "the client closed"

    def __init__(
        self, connection: Connection, queue: QueueLimits, refusal: str, *, loopback: bool, any_host: bool
    ) -> None:
        settings = connection.server.settings
        super().__init__(connection, queue, HttpSession(settings.limits.handshake_bytes, settings.http.body_bytes))
        self._refusal, self._loopback, self._any_host = refusal, loopback, any_host
        self._publishing: Publishing | None = None  # the POST that is being read, or waits for the journal
        self._stream: Stream | None = None
        self._token_hash: bytes | None = None  # of the first request's token: later ones must have the same
        self._shared_headers: dict[str, str] = {}  # they let a browser give the answer to the page that asks

    @property
    def scheme(self) -> str:
        return "http"

    @property
    def is_open(self) -> bool:
        return self._commands is not None

    @property
    def is_quiet(self) -> bool:
        return self._connection.handler is None

    @property
    def is_bell(self) -> bool:
        return self._stream is not None and self._stream.is_recorded

    def act(self, event: Event) -> int:
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
                self._server.rejected_messages += 1
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
        foreign = refused(request, self._server, loopback=self._loopback, any_host=self._any_host)
        if foreign is not None:
            self._server.log.warning("connection refused", address=self._connection.address, reason=foreign.text)
            self._refuse(foreign.status, CloseCode.FORBIDDEN, foreign.text)
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
            headers = {
                "Access-Control-Allow-Methods": method,
                "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
                "Access-Control-Max-Age": _HOUR_S,
                "Allow": f"{method}, OPTIONS",
            }
            self._respond(HTTPStatus.NO_CONTENT, b"", headers)
        elif request.method != method:
            text = f"{method} is answered here"
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, CloseCode.BAD_DATA, text, Allow=f"{method}, OPTIONS")
        elif self._lets_in(request):
            try:
                if path == EVENTS:
                    self._follow(head, query)
                else:
                    self._receive(head, path, query)
            except RejectedError as error:
                self._stream = None
                self._refuse(status_of(error.code), error.code, error.text)

    def _lets_in(self, request: Request) -> bool:
        """Return whether the client may ask; if not, it is rejected, perhaps later."""
        connection = self._connection
        token = bearer(request.headers.get_all("Authorization"))
        token_hash = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        if self._commands is not None:
            if token_hash == self._token_hash:
                return True
            text = "this connection belongs to the user of its first request; ask over another one"
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, CloseCode.NOT_ALLOWED, text, Connection="close")
            return False
        if self._refusal:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, CloseCode.TRY_AGAIN_LATER, self._refusal)
            return False
        try:
            self._enter(token)
            self._take_place()
        except NotRecognisedError as error:
            connection.turn_away(error)
            return False
        except RejectedError as error:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, error.code, error.text)
            return False
        self._token_hash = token_hash
        handler = self._join_client(client_name(request.headers), self._queue, posts=False)
        self._commands = Commands(self._server, handler, self)
        connection.opened()
        name, protocol = handler.name, connection.protocol
        self._server.log.info("client connected", address=connection.address, name=name, protocol=protocol)
        return True

    # POST.

    def _receive(self, head: Head, path: str, query: str) -> None:
        target = target_of(path, query)
        headers = head.request.headers
        if not head.has_length:
            text = "how long is the body? Say Content-Length, or send it in chunks"
            self._refuse(HTTPStatus.LENGTH_REQUIRED, CloseCode.BAD_DATA, text)
            return
        content = content_of(", ".join(headers.get_all("Content-Type")), self._server.settings.limits.frame_bytes)
        if content is None or headers.get_all("Content-Encoding"):
            text = f"Content-Type: one of {TYPES} is taken, as it is"
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, CloseCode.WRONG_KIND, text)
            return
        refused = self.session.receive(head, content)
        if refused is not None:
            self._refuse(refused.status, refused.code, refused.text)
            return
        self._publishing = Publishing(target, cast("Commands", self._commands).act)

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

    # GET.

    def _follow(self, head: Head, query: str) -> None:
        if head.has_body:
            raise RejectedError(CloseCode.BAD_DATA, "a GET has no body")
        wanted = wanted_of(query, head.request.headers.get_all("Last-Event-ID"))
        handler = cast("Handler", self._connection.handler)
        most = self._server.settings.queue_max
        handler.limits = grant(wanted.queue, self._queue, most.messages, most.bytes)
        handler.name = wanted.name or handler.name
        self._stream = Stream(self._connection, self, cast("Commands", self._commands), wanted)
        self._stream.begin()

    def accept_stream(self) -> None:
        self.session.stream({"Date": formatdate(usegmt=True)} | LIVE_HEADERS | self._shared_headers)
        self._connection.write_later()

    def refuse_stream(self, error: RejectedError) -> None:
        self._stream = None
        self._refuse(status_of(error.code), error.code, error.text)
        self._connection.write_outgoing()

    # Replies to commands.

    def confirm(
        self,
        request: int,
        offset: int | None = None,
        *,
        text: str = "",  # noqa: ARG002 -- of claims
        messages: int = 0,  # noqa: ARG002 -- of COMMIT
        again: bool = False,  # noqa: ARG002 -- the same
    ) -> None:
        if self._publishing is not None:
            self._publishing.confirmed(request)
        elif self._stream is not None:
            self._stream.confirmed(offset)

    def reject(self, error: RejectedError, request: int = 0) -> None:
        if self._publishing is not None:
            self._publishing.refused(error, request)
        elif self._stream is not None:
            self._stream.refused(error, request)

    def recorded(self, request: int, offset: int, messages: int) -> None:
        if self._publishing is not None:
            self._publishing.recorded(request, offset, messages)

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        stream = self._stream
        if stream is None:
            return
        _, kind, _, _ = HEADER.unpack_from(answer)
        body = memoryview(answer)[HEADER_BYTES:]
        if kind == Kind.RECORDS:
            stream.records(body)
            return
        notice = decode_notice(bytes(body))
        if notice.code == CloseCode.GONE and notice.offset is not None:
            stream.gone(notice.text, notice.offset)
        else:
            stream.refused(RejectedError(notice.code, notice.text), request)

    def write_later(self) -> None:
        """The journal has said something about a POST."""
        publishing = self._publishing
        if publishing is not None and publishing.is_settled:
            self._answer_if_settled()
            if not self.session.closed:
                self._connection.go_on()

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
        self._connection.end(CloseCode.PROTOCOL_ERROR, "no request of an authenticated client")

    # The handler's messages.

    def render(self, batches: list[Batch]) -> list[bytes]:
        stream = self._stream
        return [] if stream is None or self.session.phase is not Phase.STREAM else stream.render(batches)

    def render_gap(self, lost_messages: int) -> bytes:
        return b"" if self._stream is None else self._stream.render_gap(lost_messages)

    def write_more(self) -> None:
        if self._stream is not None:
            self._stream.go_on()

    def ping(self) -> None:
        if self._stream is not None:
            self._stream.look_for_life()
            self._stream.later(self._server.settings.limits.ping_timeout_s * _LAST_LOOK, self._stream.look_for_life)

    def leave(self, reason: str) -> None:
        super().leave(reason)
        self._publishing = self._stream = None

    def conclude(self) -> None:
        super().conclude()
        self._publishing = self._stream = None
