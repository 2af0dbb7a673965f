"""A connection on the WebSocket port, to a browser or any other program.

```
Handshake ─▶ page, health, metrics; HttpConversation: publish, or follow events
         ├─▶ HubClient: the hub's own protocol, `hub.v1.json` or `hub.v1.msgpack`, at /v1/hub
         └─▶ ZeekClient: Zeek's, at /v1/messages/json
```

A client becomes a handler with its first message; as `hello` comes first, its name is known when it is announced.
Answers of the session are written before the messages that the same read causes, and `dropped` where the lost messages
would have stood.
"""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from msgspec import UNSET
from websockets.frames import Opcode
from websockets.http11 import Request, Response

from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.frame import HEADER, HEADER_BYTES
from hub.messages.request_frame import Item, Reply, Status, failure
from hub.names.claim import Change
from peers.commands.commands import CHANGES, INVALID, Commands, Publication, publish, rejection
from peers.connections.connection import Connection
from peers.connections.conversation import ClientConversation
from peers.connections.http import HttpConversation
from peers.connections.http_pages import (
    CHALLENGE,
    answer,
    ask_all,
    bearer,
    denied,
    gathered,
    is_guarded,
    plain,
    refused,
)
from peers.server.server import Server
from peers.transport.timing import NO_ANSWER
from peers.websocket import zeek_codec as zeek
from peers.websocket.batches import encode_message
from peers.websocket.codec import json_item, msgpack_item, singly
from peers.websocket.http_session import Head as HttpHead
from peers.websocket.http_session import Piece, path_of
from peers.websocket.messages import (
    ClientMessage,
    Confirmed,
    Dropped,
    Error,
    Hello,
    NameStanding,
    Ping,
    Recorded,
    RefusedError,
    Welcome,
)
from peers.websocket.session import Event, Head, Phase, Session
from peers.wire.control import Renewal, decode_notice
from peers.wire.events import Closing, SubscriptionChange
from peers.wire.hello import SOFTWARE_CHARACTERS, grant
from peers.wire.kinds import Kind

PATH = "/v1/hub"

_PATHS = frozenset({PATH, zeek.PATH})

_MESSAGE_EVENTS = 2  # the share of a turn that a message takes: it is decoded and answered by itself, 10 to 30 µs
_HANDSHAKE_EVENTS = 10  # the share of a handshake, or a page: 100 to 200 µs
_TOKEN_EVENTS = 10  # the share of a fresh token, beyond reading it: a signature may have to be checked, 100 µs

_BYTES_PER_EVENT = 512  # of a publication, that cost as much as one event more: they are converted

_FORMLESS = "a value has no JSON form, or is too large for one"


def websocket_connection(server: Server, queue: QueueLimits, *, loopback: bool) -> Connection:
    return Connection(server, lambda connection: Handshake(connection, queue, loopback=loopback))


class WebSocketConversation(ClientConversation):
    """One client of any protocol."""

    __slots__ = ()

    session: Session
    changes = CHANGES | {Head, Request, HttpHead, Hello, Renewal}
    unsaid = "the client closed without Close"

    @property
    def scheme(self) -> str:
        return "ws"

    @property
    def is_open(self) -> bool:
        return self.session.phase is Phase.OPEN and self._connection.identity is not None

    @property
    def is_quiet(self) -> bool:
        return self._connection.handler is None

    def act(self, event: Event) -> int:
        match event:
            case Head() | Piece():
                self.session.read()
                return event.cost
            case Closing():
                text = f"{event.text} ({event.code})" if event.text else f"closed with {event.code}"
                self._connection.reason = text
                self._connection.linger()
                return 1
            case Publication():
                return _MESSAGE_EVENTS + len(event.frame) // _BYTES_PER_EVENT + self._do(event)
            case _:
                return _MESSAGE_EVENTS + self._do(event)

    def _do(self, message: Any) -> int:
        """Carry out a message of the client; return its share of a turn, beyond reading it."""
        raise NotImplementedError

    def _turn_away(self, error: NotRecognisedError) -> None:
        self.session.hold()
        self._connection.turn_away(error)

    def render(self, batches: list[Batch]) -> list[bytes]:
        return self.forms(batches, self.session.codec.form)

    def render_gap(self, lost_messages: int) -> bytes:
        return self.session.encode(Dropped(lost_messages))

    def ping(self) -> None:
        self.session.ping()

    def time_out(self) -> None:
        text = f"no token within {self._server.settings.limits.handshake_s:g} s; send it in `hello`"
        self._connection.end(CloseCode.NOT_RECOGNISED, text)

    def close(self, code: int, text: str) -> str:
        self.session.close(code, text)
        return f"{text} ({int(code)})"


class Handshake(WebSocketConversation):
    """The first request of a connection, after which another conversation goes on."""

    __slots__ = ("_any_host", "_loopback", "_refusal")

    def __init__(self, connection: Connection, queue: QueueLimits, *, loopback: bool, any_host: bool = False) -> None:
        limits = connection.server.settings.limits
        super().__init__(connection, queue, Session(limits.frame_bytes, limits.handshake_bytes))
        self._loopback = loopback
        self._any_host = any_host  # whether no name can have been made to point here, as at a Unix socket
        self._refusal = ""  # why the hub takes no further connection, until the client has made its request

    def begin(self, refusal: str) -> None:
        self._refusal = refusal

    def act(self, event: Event) -> int:
        match event:
            case Request():
                self._answer(event)
                return _HANDSHAKE_EVENTS
            case HttpHead():
                rest = self.session.leave()
                other = HttpConversation(
                    self._connection, self._queue, self._refusal, loopback=self._loopback, any_host=self._any_host
                )
                other.session.begin(event, rest)
                self._connection.become(other)
                return _HANDSHAKE_EVENTS
            case _:
                return super().act(event)

    def _answer(self, request: Request) -> None:
        path = path_of(request)
        is_websocket = path in _PATHS or zeek.is_astray(request)
        foreign = refused(
            request,
            self._server,
            loopback=self._loopback,
            any_host=self._any_host,
            is_websocket=is_websocket,
            is_page=not is_websocket,
        )
        if foreign is not None:
            self._log_refusal(foreign.text)
            self._refuse(*foreign)
        elif not self._knows(request, path, is_websocket=is_websocket):
            pass
        elif is_websocket:
            self._shake_hands(request, path)
        elif (later := ask_all(self._server, request)) is not None:
            self.session.hold()
            later.then(lambda: self._connection.guard(lambda: self._respond(request, gathered(request, later))))
        else:
            self._respond(request, answer(self._server, request))

    def _respond(self, request: Request, response: Response) -> None:
        if self.session.phase is not Phase.CLOSED and not self._connection.is_lost:
            self._connection.reason = f"answered {request.method} {path_of(request)}"
            self.session.respond(response)
            self._connection.linger()

    def _knows(self, request: Request, path: str, *, is_websocket: bool) -> bool:
        """Return whether the request may be answered; if not, it was rejected.

        A client of the hub's own protocol may show its token in its first message instead.
        """
        server, connection = self._server, self._connection
        if not is_websocket and (server.access.is_open or not is_guarded(path)):
            return True
        token = bearer(request.headers.get_all("Authorization"))
        if path == PATH and not token and not server.access.takes_strangers:
            return True
        if not (is_websocket or token or connection.transport.get_extra_info("peercert")):
            self._refuse(HTTPStatus.UNAUTHORIZED, "this needs `Authorization: Bearer` with a token", **CHALLENGE)
            return False
        try:
            rights = self._enter(token)
        except NotRecognisedError as error:
            self._turn_away(error)
            return False
        text = "" if is_websocket else denied(path, rights)
        if text:
            self._refuse(HTTPStatus.FORBIDDEN, text)
        return not text

    def _shake_hands(self, request: Request, path: str) -> None:
        connection, identity = self._connection, self._connection.identity
        # A client without a token may still show it in `hello`.
        is_known = path != PATH or self._server.access.is_open or (identity is not None and identity.how != "anonymous")
        if is_known and not self._refusal:
            try:
                self._take_place()
            except RejectedError as error:
                self._refusal = error.text
        if self._refusal:
            self._log_refusal(self._refusal)
        if self._refusal and not request.headers.get_all("Origin"):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, self._refusal)
        elif not self.session.accept(request, None if path == PATH else zeek.zeek_codec(), is_known=is_known):
            connection.reason = "no WebSocket handshake"
            connection.linger()
        elif self._refusal:  # a browser shows its page the reason of a Close, but not of an HTTP error
            connection.end(CloseCode.TRY_AGAIN_LATER, self._refusal)
        elif path not in _PATHS:
            self.session.send_ready(memoryview(zeek.INVALID_PATH))
            connection.end(CloseCode.NOT_ALLOWED, zeek.INVALID_PATH_TEXT)
        else:
            connection.software = ", ".join(request.headers.get_all("User-Agent"))[:SOFTWARE_CHARACTERS]
            if path == zeek.PATH:
                name = zeek.client_name(request.headers)
                connection.conversation = ZeekClient(connection, self._queue, self.session, name)
            else:
                client = connection.conversation = HubClient(connection, self._queue, self.session)
                client.welcome(self._queue)
            if identity is not None:
                connection.opened()

    def _refuse(self, status: HTTPStatus, text: str, **headers: str) -> None:
        self._connection.reason = f"{text} (HTTP {status.value})"
        self.session.respond(plain(status, text, **headers))
        self._connection.linger()

    def _log_refusal(self, text: str) -> None:
        self._server.log.warning("connection refused", address=self._connection.address, reason=text)

    def time_out(self) -> None:
        text = f"no request within {self._server.settings.limits.handshake_s:g} s"
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, text)

    def close(self, code: int, text: str) -> str:
        if self.session.phase is not Phase.OPENING:
            return super().close(code, text)
        if code == CloseCode.NOT_RECOGNISED:
            self.session.respond(plain(HTTPStatus.UNAUTHORIZED, text, **CHALLENGE))
        else:
            self.session.respond(plain(HTTPStatus.SERVICE_UNAVAILABLE, text))
        return f"{text} ({int(code)})"


class HubClient(WebSocketConversation):
    """A client of the hub's own protocol; also the `Replies` of its commands."""

    __slots__ = ()

    def _do(self, message: ClientMessage) -> int:
        match message:
            case Hello():
                if self._let_in(message.token):
                    most = self._server.settings.queue_max
                    limits = grant(message.queue, self._queue, most.messages, most.bytes)
                    self._begin(message.name, limits, narrow=message.narrow)
                    self.welcome(limits)
            case Ping():
                pass  # the session has answered it
            case Renewal():
                self._take_token(message)
                return _TOKEN_EVENTS
            case _:
                if self._connection.handler is None and self._let_in(""):
                    self._begin("", self._queue)
                return 0 if self._commands is None else self._commands.act(message)
        return 0

    def _let_in(self, token: str) -> bool:
        """Return whether the client may join, by this token or by its earlier proof; if not, it was rejected."""
        connection = self._connection
        was_known = connection.identity is not None
        try:
            if token or not was_known:
                self._enter(token)
            self._take_place()
        except NotRecognisedError as error:
            self._turn_away(error)
            return False
        except RejectedError as error:
            connection.end(CloseCode.TRY_AGAIN_LATER, error.text)
            return False
        self.session.let_in()
        if not was_known:
            connection.opened()
        return True

    def _begin(self, name: str, limits: QueueLimits, *, narrow: bool = False) -> None:
        server = self._server
        handler = self._join_client(name, limits, posts=True)
        _log_connected(self._connection, name, limits)
        handler.narrows = narrow
        self._commands = Commands(server, handler, self)

    def _take_token(self, renewal: Renewal) -> None:
        if self._connection.handler is None and not self._let_in(""):
            return
        try:
            self._renew(renewal.token)
        except RejectedError as error:
            self.session.reject(RefusedError(error.code, error.text, renewal.request))
            return
        if renewal.request:
            left_s = self._connection.proof_left_s()
            self.session.send(Confirmed(renewal.request, until=None if left_s == math.inf else max(0.0, left_s)))

    def welcome(self, limits: QueueLimits) -> None:
        server, left_s = self._server, self._connection.proof_left_s()
        self.session.send(
            Welcome(
                server.id.hex(),
                server.name,
                limits,
                server.settings.limits.frame_bytes,
                journal=server.journal.id.hex() or UNSET,
                until=UNSET if left_s == math.inf else max(0.0, left_s),
                user=self._connection.user or UNSET,
                anonymous=server.access.anonymous or UNSET,
            )
        )

    def render_items(self, items: list[Item]) -> list[bytes]:
        frames: list[bytes] = []
        for item in items:
            self._render_item(item, frames)
        return frames

    def _render_item(self, item: Item, frames: list[bytes]) -> None:
        opcode = self.session.codec.opcode
        message = json_item(item) if opcode is Opcode.TEXT else msgpack_item(item)
        if message is not None:
            frames.append(encode_message(opcode, message))
            return
        pieces = list(singly(item))
        for piece in pieces:
            self._render_item(piece, frames)
        if pieces:
            return
        failed = failure(item.first, item.requests, Status.FAILED, _FORMLESS)
        handler = self._connection.handler
        if isinstance(item, Reply):
            self._render_item(failed, frames)
        elif handler is not None:
            self._server.core.requests.answer(handler, failed)

    # Replies to commands.

    def confirm(
        self,
        request: int,
        offset: int | None = None,
        *,
        text: str = "",
        messages: int = 0,  # noqa: ARG002 -- only COMMIT has it, which does not exist over WebSockets
        again: bool = False,  # noqa: ARG002 -- the same
    ) -> None:
        if request:
            self.session.send(Confirmed(request, offset, text))

    def reject(self, error: RejectedError, request: int = 0) -> None:
        self.session.send(Error(error.code, error.text, request))

    def recorded(self, request: int, offset: int, messages: int) -> None:
        self.session.send(Recorded(request, offset, messages))

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        _, kind, _, _ = HEADER.unpack_from(answer)
        body = memoryview(answer)[HEADER_BYTES:]
        if kind == Kind.RECORDS:
            self.session.send_ready(body)
            return
        notice = decode_notice(bytes(body))
        self.session.send(Error(notice.code, notice.text, request, notice.offset))

    def tell_name(self, change: Change) -> None:
        self.session.send(NameStanding(change.name, change.standing.value, change.text))


class ZeekClient(WebSocketConversation):
    """A client of Zeek's WebSocket API, see `peers.websocket.zeek_codec`."""

    __slots__ = ("_name",)

    def __init__(self, connection: Connection, queue: QueueLimits, session: Session, name: str) -> None:
        super().__init__(connection, queue, session)
        self._name = name

    def _do(self, message: ClientMessage) -> int:
        match message:
            case SubscriptionChange():
                self._subscribe(message)
                return len(message.prefixes)
            case Publication():
                self._publish(message)
        return 0

    def _subscribe(self, wanted: SubscriptionChange) -> None:
        server, session = self._server, self.session
        handler = self._join_client(self._name, self._queue, posts=False)
        _log_connected(self._connection, self._name, self._queue)
        handler.restrict(itself=False, hub=False)
        try:
            server.core.subscribe(handler, dict.fromkeys(wanted.prefixes))
        except INVALID as error:
            refusal = rejection(error)
            session.reject(RefusedError(refusal.code, refusal.text))
            self._revoke(refusal)
            return
        server.core.authority.on_revoked[handler] = self._revoke
        endpoint = zeek.endpoint_of(server.id, handler.id)
        session.send(Welcome(endpoint, server.name, self._queue, server.settings.limits.frame_bytes))

    def _revoke(self, error: RejectedError) -> None:
        self._connection.end(CloseCode.NOT_ALLOWED, error.text)

    def _publish(self, publication: Publication) -> None:
        handler = self._connection.handler
        if handler is None:
            return
        try:
            publish(self._server, handler, publication)
        except RejectedError as error:
            if error.code == CloseCode.NOT_ALLOWED:
                self._server.audit.refused(handler, "publish", error, publication.messages)
            self.session.reject(zeek.refusal_of(error.text, publication.request))

    def close(self, code: int, text: str) -> str:
        """Close in Broker's words, or in those of Zeek's server, which pings."""
        if code == CloseCode.OVERFLOW:
            code, text = zeek.INTERNAL_ERROR, f"backpressure_overflow: {text}"
        elif text.startswith(NO_ANSWER):
            code, text = zeek.INTERNAL_ERROR, "Ping timeout"
        return super().close(code, text)


def _log_connected(connection: Connection, name: str, limits: QueueLimits) -> None:
    overflow = limits.overflow.value
    connection.server.log.info(
        "client connected", address=connection.address, name=name, user=connection.user, overflow=overflow
    )
