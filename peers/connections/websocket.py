"""`WebSocketConversation`: a connection on the WebSocket port, to a browser or any other program.

```
Session ─▶ Request  ─▶ page, health, metrics; or the handshake
       └─▶ messages ─▶ Dialogue: the hub's own, or Zeek's, by the path
handler ── render ──▶ frames that all clients of one encoding share
```

Answers of the session are written before the messages that it lets through, and `dropped` where the lost messages would
have stood.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import cast

from websockets.http11 import Request, Response

from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.request_frame import Item
from hub.policy.policy import Rights
from peers.commands.commands import CHANGES
from peers.commands.publish import Publication
from peers.connections.authentication import enter, join_client, renew, take_place
from peers.connections.connection import Connection
from peers.connections.http.answers import answer, ask_all, denied, gathered, is_guarded, path_of, plain
from peers.connections.http.conversation import HttpConversation
from peers.connections.http.gate import ANY_HOST, CHALLENGE, bearer, refused
from peers.server.server import Server
from peers.websocket.dialogue import Dialogue, HubDialogue
from peers.websocket.http.head import Head as HttpHead
from peers.websocket.http.session import Piece
from peers.websocket.messages import ClientMessage, Dropped, Hello
from peers.websocket.session import Event, Head, Phase, Session
from peers.websocket.zeek.codec import INVALID_PATH, INVALID_PATH_TEXT, ZeekDialogue, client_name, is_astray, zeek_codec
from peers.websocket.zeek.codec import PATH as ZEEK_PATH
from peers.wire.control import Renewal
from peers.wire.events import Closing
from peers.wire.hello import SOFTWARE_CHARACTERS

PATH = "/v1/hub"

_PATHS = frozenset({PATH, ZEEK_PATH})

_ANY = frozenset({ANY_HOST})

_MESSAGE_EVENTS = 2
"""What a message costs of a turn's share: it is decoded and answered by itself, 10 to 30 µs."""

_HANDSHAKE_EVENTS = 10
"""What a handshake costs, or a page: 100 to 200 µs."""

_BYTES_PER_EVENT = 512
"""Bytes of a publication that cost as much as one event more: they are decoded, and encoded again."""


def websocket_connection(server: Server, queue: QueueLimits, *, loopback: bool) -> Connection:
    """Make a connection that was accepted on the WebSocket port."""
    return Connection(server, lambda connection: WebSocketConversation(server, queue, connection, loopback=loopback))


class WebSocketConversation:
    """One client. See `peers.connections.conversation.Conversation`."""

    __slots__ = (
        "_any_host",
        "_connection",
        "_dialogue",
        "_hub",
        "_loopback",
        "_queue",
        "_refusal",
        "_server",
        "session",
    )

    scheme = "ws"
    far_name = ""  # it is known with the handler, which has it
    changes = CHANGES | {Head, Request, HttpHead, Hello, Renewal}
    unsaid = "the client closed without Close"
    is_held = is_bell = False

    def __init__(
        self, server: Server, queue: QueueLimits, connection: Connection, *, loopback: bool, any_host: bool = False
    ) -> None:
        limits = server.settings.limits
        self._server = server
        self._queue = queue
        self._connection = connection
        self._loopback = loopback
        self._any_host = any_host
        """Whether no name can have been made to point here, as at a Unix socket."""
        self._refusal = ""
        """Why the hub takes no further connection, until the client has made its request."""
        self._dialogue: Dialogue | None = None
        """Set once the handshake is over: what follows is said by the path."""
        self._hub: HubDialogue | None = None
        """The dialogue, if it is in the hub's own protocol."""
        self.session = Session(limits.frame_bytes, limits.handshake_bytes)

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over, and the client authenticated."""
        return self.session.phase is Phase.OPEN and self._connection.identity is not None

    @property
    def is_quiet(self) -> bool:
        """Whether it was plain HTTP, or no client joined."""
        return self._connection.handler is None

    def begin(self, refusal: str) -> None:
        """Wait: the client speaks first."""
        self._refusal = refusal

    def end_of_stream(self) -> None:
        """Do nothing: a client that closes without Close wants no answer."""

    def act(self, event: Event) -> int:
        """Do what the client asks for."""
        match event:
            case Head() | Piece():
                self.session.read()
                return event.cost
            case Request():
                self._answer(event)
                return _HANDSHAKE_EVENTS
            case HttpHead():
                self._hand_over(event)
                return _HANDSHAKE_EVENTS
            case Closing():
                text = f"{event.text} ({event.code})" if event.text else f"closed with {event.code}"
                self._connection.reason = text
                self._connection.linger()
            case _:
                return _cost(event) + cast("Dialogue", self._dialogue).act(event)
        return 1

    # The handshake.

    def _hand_over(self, head: HttpHead) -> None:
        """It is no WebSocket: another conversation goes on."""
        rest = self.session.leave()
        other = HttpConversation(
            self._server,
            self._queue,
            self._connection,
            loopback=self._loopback,
            any_host=self._any_host,
            refusal=self._refusal,
        )
        other.session.begin(head, rest)
        self._connection.become(other)

    def _answer(self, request: Request) -> None:
        """Answer the only HTTP request of a connection."""
        path = path_of(request)
        is_websocket = path in _PATHS or is_astray(request)
        foreign = refused(
            request,
            self._server.settings.websocket,
            self._server.host_names | _ANY if self._any_host else self._server.host_names,
            loopback=self._loopback,
            is_websocket=is_websocket,
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
        """Return whether the request may be answered; if not, its client is turned away.

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
            rights = enter(server, connection, token)
        except NotRecognisedError as error:
            self._turn_away(error)
            return False
        return is_websocket or self._may_read(path, rights)

    def _may_read(self, path: str, rights: Rights | None) -> bool:
        text = denied(path, rights)
        if text:
            self._refuse(HTTPStatus.FORBIDDEN, text)
        return not text

    def _turn_away(self, error: NotRecognisedError) -> None:
        """Read nothing more of a client that is not authenticated, and say so when its answer is due."""
        self.session.hold()
        self._connection.turn_away(error)

    def _shake_hands(self, request: Request, path: str) -> None:
        is_known = path != PATH or self._is_known()
        if is_known and not self._refusal:
            self._refusal = self._take_place()
        if self._refusal:
            self._log_refusal(self._refusal)
        if self._refusal and not request.headers.get_all("Origin"):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, self._refusal)
        elif not self.session.accept(request, None if path == PATH else zeek_codec(), is_known=is_known):
            self._connection.reason = "no WebSocket handshake"
            self._connection.linger()
        elif self._refusal:  # a browser tells its page the reason of a Close, but not of an HTTP error
            self._connection.end(CloseCode.TRY_AGAIN_LATER, self._refusal)
        elif path not in _PATHS:
            self.session.send_ready(memoryview(INVALID_PATH))
            self._connection.end(CloseCode.NOT_ALLOWED, INVALID_PATH_TEXT)
        else:
            self._open(request, path)

    def _is_known(self) -> bool:
        """Return whether the client is authenticated; one without a token may show it in `hello` yet."""
        identity = self._connection.identity
        return self._server.access.is_open or (identity is not None and identity.how != "anonymous")

    def _take_place(self) -> str:
        """Charge the connection to its user; return why not, if it is one too many."""
        try:
            take_place(self._server, self._connection)
        except RejectedError as error:
            return error.text
        return ""

    def _open(self, request: Request, path: str) -> None:
        self._connection.software = ", ".join(request.headers.get_all("User-Agent"))[:SOFTWARE_CHARACTERS]
        if path == ZEEK_PATH:
            name = client_name(request.headers)
            self._dialogue = ZeekDialogue(self._server, self.session, self._queue, self, name)
        else:
            self._dialogue = self._hub = HubDialogue(self._server, self.session, self._queue, self)
        self._dialogue.begin()
        if self._connection.identity is not None:
            self._connection.opened()

    def _refuse(self, status: HTTPStatus, text: str, **headers: str) -> None:
        self._connection.reason = f"{text} (HTTP {status.value})"
        self.session.respond(plain(status, text, **headers))
        self._connection.linger()

    def _log_refusal(self, text: str) -> None:
        self._server.log.warning("connection refused", address=self._connection.address, reason=text)

    def time_out(self) -> None:
        """No request has come, or no token behind it."""
        within = f"within {self._server.settings.limits.handshake_s:g} s"
        if self.session.phase is Phase.OPEN:
            self._connection.end(CloseCode.NOT_RECOGNISED, f"no token has come {within}; say it in `hello`")
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"no request {within}")

    # What a dialogue asks for, see `peers.websocket.dialogue.Carrier`.

    @property
    def proof_left_s(self) -> float:
        """Seconds before the client's proof of identity ends."""
        return self._connection.proof_left_s()

    @property
    def user(self) -> str:
        """The client's user; empty before that is known, and where there are no users."""
        identity = self._connection.identity
        return "" if identity is None or self._server.access.is_open else identity.user

    def let_in(self, token: str) -> bool:
        """Return whether the client may come in; if not, it is turned away."""
        connection = self._connection
        was_known = connection.identity is not None
        if token or not was_known:
            try:
                enter(self._server, connection, token)
            except NotRecognisedError as error:
                self._turn_away(error)
                return False
        refusal = self._take_place()
        if refusal:
            connection.end(CloseCode.TRY_AGAIN_LATER, refusal)
            return False
        self.session.let_in()
        if not was_known:
            connection.opened()
        return True

    def renew(self, token: str) -> None:
        """Take a fresh token."""
        renew(self._server, self._connection, token)

    def join(self, name: str, limits: QueueLimits) -> Handler:
        """Make the client a handler of the core."""
        connection = self._connection
        poster = None if self._hub is None else connection
        handler = join_client(self._server, connection, name, limits, poster=poster)
        self._server.log.info("client connected", address=connection.address, name=name, overflow=limits.overflow.value)
        return handler

    def write_later(self) -> None:
        """Write the session's answers after this turn."""
        self._connection.write_later()

    def write(self, frames: list[bytes]) -> None:
        """Write ready frames, behind the session's answers."""
        self._connection.write(frames)

    def owe(self) -> None:
        """Do not read on while the client does not read its answers."""
        self._connection.wait_for_reader()

    def end(self, code: int, text: str) -> None:
        """Close the connection."""
        self._connection.end(code, text)

    # What the handler writes.

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches in this client's encoding."""
        make = self.session.codec.form
        frames = []
        lost = 0
        for batch in batches:
            form = batch.form(make)
            frames.append(form.frames(batch))
            lost += form.lost_messages
        if lost:  # the client is told among the frames
            self._connection.lose(lost)
        return frames

    def render_items(self, items: list[Item]) -> list[bytes]:
        """Have the dialogue write requests and replies."""
        if self._hub is not None:
            self._hub.post(items)
        return []

    def render_gap(self, lost_messages: int) -> bytes:
        """Tell how many messages are missing; Zeek's clients have no word for it."""
        return self.session.encode(Dropped(lost_messages))

    def write_more(self) -> None:
        """Let the dialogue write what it had put off."""
        if self._hub is not None:
            self._hub.write_more()

    # Ends.

    def ping(self) -> None:
        """Ask for a sign of life."""
        self.session.ping()

    def drain(self, text: str) -> None:
        """The hub stops."""
        self._connection.end(CloseCode.GOING_AWAY, text)

    def close(self, code: int, text: str) -> str:
        """End the session, in the words of what is spoken."""
        if self._dialogue is not None:
            code, text = self._dialogue.end(code, text)
        if self.session.phase is not Phase.OPENING:
            self.session.close(code, text)
        elif code == CloseCode.NOT_RECOGNISED:
            self.session.respond(plain(HTTPStatus.UNAUTHORIZED, text, **CHALLENGE))
        else:
            self.session.respond(plain(HTTPStatus.SERVICE_UNAVAILABLE, text))
        return f"{text} ({int(code)})"

    def leave(self, reason: str) -> None:  # noqa: ARG002 -- the core announces it
        """Answer nothing any more."""
        if self._hub is not None:
            self._hub.leave()

    def conclude(self) -> None:
        """Drop references."""
        self._dialogue = self._hub = None


def _cost(message: ClientMessage) -> int:
    if isinstance(message, Publication):
        return _MESSAGE_EVENTS + len(message.frame) // _BYTES_PER_EVENT
    return _MESSAGE_EVENTS
