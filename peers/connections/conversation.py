"""`Conversation`: one protocol with one far side. It acts on the core; authentication is the same for all protocols.

```
socket ─ Connection ─▶ Session.feed, next_event ─▶ Conversation.act ─▶ core, journal
connection, token   ─▶ Proof ─▶ server.access ─▶ Identity, kept on the connection ─▶ place ─▶ rights of its handler
                                     │                                           └── RejectedError: one too many
                                     └── NotRecognisedError: answered after a delay, nothing is read meanwhile
```

A token is checked once and kept nowhere; an authenticated far side stays the same user for as long as it is connected.
No far side learns that it is authenticated before it has a place, or it would reconnect at once.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import ANY_FRAME_BYTES, Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.request_frame import Item
from hub.names.claim import Change
from hub.policy.policy import ZEEK, Rights
from peers.commands.commands import Commands
from peers.transport.transport import NO_TRANSPORT
from peers.users.identity import Identity, Proof
from peers.values.forms import Form
from peers.wire.scanner import NEED_DATA
from peers.zeek.zmtp.z85 import encode_key

if TYPE_CHECKING:
    from peers.connections.connection import Connection

_CREDENTIALS = Struct("3i")  # SO_PEERCRED: process, user, group


_ENVELOPE_BYTES = 64 * 1024  # room for the rest of an answer around its largest value


class Session(Protocol):
    """The state of a protocol: bytes in, events out. All of these but `feed` and `next_event` may be attributes."""

    @property
    def closed(self) -> bool: ...

    @property
    def has_outgoing(self) -> bool: ...

    @property
    def has_more(self) -> bool:
        """False if `next_event` would return `NEED_DATA`."""

    @property
    def rejected_messages(self) -> int:
        """Messages of the far side that were rejected, except those that the conversation counts itself."""

    @property
    def held_bytes(self) -> int:
        """Bytes that were read and not acted on; 0 once the conversation is over."""

    @property
    def unfinished(self) -> int:
        """The number of the message of several frames whose last one has not come; 0 if there is none."""

    def feed(self, data: bytes) -> None: ...

    def next_event(self) -> Any:
        """Return the next event; `NEED_DATA` if there is none, None if the session has handled it itself."""

    def take_outgoing(self) -> bytes: ...


class Conversation:
    """A protocol with one far side; `session` stays the same object."""

    __slots__ = ("_connection", "_queue", "_server", "session")

    session: Session
    changes: ClassVar[frozenset[type]] = frozenset()  # events that change the hub, see `peers.server.reading`
    unsaid = "the other side closed"  # the reason of an end for which the far side gave none

    def __init__(self, connection: Connection, queue: QueueLimits, session: Session) -> None:
        self._server, self._connection, self._queue, self.session = connection.server, connection, queue, session

    @property
    def scheme(self) -> str:
        """The protocol, as the scheme of a URL without TLS."""
        raise NotImplementedError

    @property
    def far_name(self) -> str:
        return ""

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over, so that pings make sense."""
        return self._connection.handler is not None

    @property
    def is_held(self) -> bool:
        """Whether the far side must do more than read before its handler may write on."""
        return False

    @property
    def is_bell(self) -> bool:
        """Whether the handler's messages only announce records of the journal, so that it never waits."""
        return False

    @property
    def is_quiet(self) -> bool:
        """Whether its end is logged for debugging only, as after a plain HTTP request."""
        return False

    def begin(self, refusal: str) -> None:
        """The socket is connected; `refusal` is why the hub takes no further connection, or empty."""
        if refusal:
            self._connection.end(CloseCode.TRY_AGAIN_LATER, refusal)

    def act(self, event: Any) -> int:
        raise NotImplementedError

    def end_of_stream(self) -> None:
        """The far side has ended its stream in order."""

    def render(self, batches: list[Batch], /) -> list[bytes]:
        raise NotImplementedError

    def render_items(self, items: list[Item]) -> list[bytes]:  # noqa: ARG002 -- most take part in no requests
        return []

    def render_gap(self, lost_messages: int) -> bytes:  # noqa: ARG002 -- the log and `$hub/overflow` report it anyway
        """Return the notice that messages were lost here; empty where the protocol has none."""
        return b""

    def write_more(self) -> None:
        """The transport takes bytes again, and the handler's queue is written: write all else that was put off."""

    def ping(self) -> None: ...

    def time_out(self) -> None:
        """The handshake has taken too long: end it."""
        raise NotImplementedError

    def drain(self, text: str) -> None:
        """The hub stops, and its queue is written: say so."""
        self._connection.end(CloseCode.GOING_AWAY, text)

    def close(self, code: int, text: str) -> str:
        """End the session from this side; return the reason as it was sent."""
        raise NotImplementedError

    def leave(self, reason: str) -> None:
        """The far side has left the hub. May be called several times."""

    def conclude(self) -> None:
        """The socket is closed, and everything was given back: drop references, so that all is freed at once."""

    def forms(self, batches: list[Batch], make: Callable[[Batch], Form]) -> list[bytes]:
        """Return batches in a form that connections share, and count messages that have none."""
        frames = []
        lost = 0
        for batch in batches:
            form = batch.form(make)
            frames.append(form.frames(batch))
            lost += form.lost_messages
        if lost:
            self._connection.lose(lost)
        return frames

    # Authentication.

    @property
    def _rights(self) -> Rights | None:
        """The rights of the far side; None for all, as for a peer hub that this hub has dialled."""
        identity = self._connection.identity
        return None if identity is None else self._server.access.rights(identity)

    def _enter(self, token: str = "") -> Rights | None:
        """Authenticate the far side, keep its identity, and return its rights.

        Raises:
            NotRecognisedError: It is unknown; the caller rejects it (`Connection.turn_away`).
        """
        self._connection.identity = self._server.access.recognise(_proof_of(self._connection, token))
        return self._rights

    def _take_place(self) -> None:
        """Charge the connection to its user.

        Raises:
            RejectedError: The user has as many connections as they may have.
        """
        rights = self._rights
        if rights is not None:
            self._connection.take_place(rights.user)

    def _renew(self, token: str) -> None:
        """Take a fresh token in place of the earlier proof.

        Raises:
            RejectedError: It is unknown, or another user's. The earlier proof stays valid.
        """
        connection, server = self._connection, self._server
        before = connection.identity
        try:
            identity = server.access.recognise(_proof_of(connection, token))
        except NotRecognisedError as error:
            connection.bar(error.delay_s)  # as long as for a stranger: else tokens could be guessed faster from within
            raise RejectedError(error.code, error.text) from None
        if before is not None and identity.user != before.user:
            raise RejectedError(CloseCode.NOT_ALLOWED, "this token is of another user; open a new connection for it")
        connection.identity = identity
        connection.look_in(0.0)  # it may end sooner
        if connection.handler is not None:  # the token may have other roles than the one before
            server.core.authority.give_rights(connection.handler, self._rights)

    def _join(
        self,
        role: Role,
        *,
        name: str = "",
        limits: QueueLimits | None = None,
        posts: bool = False,
        frame_limit_bytes: int = ANY_FRAME_BYTES,
    ) -> Handler:
        """Make the far side a handler, which is to be attached to the core; `posts` lets it send requests and serve."""
        connection = self._connection
        handler = Handler(
            connection,
            role=role,
            limits=limits or self._queue,
            name=name,
            address=connection.address,
            poster=connection if posts else None,
            frame_limit_bytes=frame_limit_bytes,
            rights=self._rights,
        )
        connection.join(handler)
        return handler


class ClientConversation(Conversation):
    """A far side with commands, whose `Replies` it is."""

    __slots__ = ("_commands",)

    def __init__(self, connection: Connection, queue: QueueLimits, session: Session) -> None:
        super().__init__(connection, queue, session)
        self._commands: Commands | None = None  # set when the far side has joined

    def _join_client(self, name: str, limits: QueueLimits, *, posts: bool) -> Handler:
        frame_limit_bytes = self._server.settings.limits.frame_bytes
        handler = self._join(Role.CLIENT, name=name, limits=limits, posts=posts, frame_limit_bytes=frame_limit_bytes)
        self._server.core.attach(handler)
        self._connection.charge_user()
        return handler

    @property
    def frame_limit_bytes(self) -> int:
        return self._server.settings.limits.frame_bytes + _ENVELOPE_BYTES

    def confirm(
        self, request: int, offset: int | None = None, *, text: str = "", messages: int = 0, again: bool = False
    ) -> None:
        raise NotImplementedError

    def reject(self, error: RejectedError, request: int = 0) -> None:
        raise NotImplementedError

    def reject_messages(self, error: RejectedError, count: int, request: int = 0) -> None:  # noqa: ARG002 -- one for each
        self.reject(error, request)

    def recorded(self, request: int, offset: int, messages: int) -> None:
        raise NotImplementedError

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:  # noqa: ARG002 -- it has a number
        self.reject(error, request)

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        raise NotImplementedError

    def tell_name(self, change: Change) -> None: ...

    def put_off(self, rest: Any) -> None:
        if self._commands is not None:  # at once: as much as a client may have is about its share of a turn
            self._commands.act(rest)

    def write_later(self) -> None:
        self._connection.write_later()

    def write_more(self) -> None:
        if self._commands is not None:
            self._commands.write_more()

    def leave(self, reason: str) -> None:  # noqa: ARG002 -- the core announces it
        if self._commands is not None:
            self._commands.close()

    def conclude(self) -> None:
        self._commands = None


class ZeekConversation(Conversation):
    """A Zeek, which is a leaf of the hub. It is charged to its user as it joins: it gets no answer before."""

    def _enter_zeek(self, *, dialled: bool, key: bytes = b"") -> None:
        """Authenticate a Zeek by the setting `zeek.role`, or without it by its certificate.

        A Zeek that this hub has dialled needs neither: the hub's configuration names it.

        Args:
            dialled: Whether this hub has dialled it.
            key: The public CURVE key that it has proved to have, and that is allowed; empty for none.

        Raises:
            NotRecognisedError: It is unknown; the caller rejects it.
        """
        server, connection = self._server, self._connection
        role = "" if server.access.is_open else server.settings.zeek.role
        if key and (role or server.access.is_open):
            connection.identity = Identity(ZEEK, frozenset({role} if role else ()), "curve", key=encode_key(key))
        elif role:
            connection.identity = Identity(ZEEK, frozenset({role}), "setting")
        elif not dialled:
            self._enter()

    def _refuse_messages(self, error: RejectedError, messages: int) -> None:
        """Count and log messages that the Zeek may not publish: none of its protocols can report that."""
        server, connection = self._server, self._connection
        if connection.handler is not None:
            server.audit.refused(connection.handler, "publish", error, messages)
        server.rejected_messages += messages
        text = "messages of a Zeek refused"
        server.log.warning(text, address=connection.address, messages=messages, reason=error.text)


def _proof_of(connection: Connection, token: str) -> Proof:
    transport = connection.transport
    certificate = transport.get_extra_info("peercert") or None
    sock = transport.get_extra_info("socket") if transport is not NO_TRANSPORT else None
    uid = _account(sock)
    return Proof(connection.address, token, certificate, uid, uid is not None or _is_loopback(sock))


def _account(sock: socket.socket | None) -> int | None:
    """Return the account that the other end of a Unix socket runs under; None for others."""
    if sock is None or sock.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):  # Linux has that
        return None
    with suppress(OSError):
        packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uid: int = _CREDENTIALS.unpack(packed)[1]
        return uid
    return None


def _is_loopback(sock: socket.socket | None) -> bool:
    if sock is None:
        return False
    with suppress(OSError, ValueError, IndexError):
        here = ipaddress.ip_address(sock.getsockname()[0].partition("%")[0])
        return (getattr(here, "ipv4_mapped", None) or here).is_loopback
    return False


class _Ended:
    """Conversation and session of every connection that is over, so that it and its own are freed at once."""

    __slots__ = ()

    closed = is_quiet = True
    has_more = has_outgoing = is_open = is_held = is_bell = False
    held_bytes = unfinished = rejected_messages = 0
    scheme = far_name = unsaid = ""
    changes: frozenset[type] = frozenset()

    @property
    def session(self) -> _Ended:
        return self

    def feed(self, data: bytes) -> None: ...

    def next_event(self) -> Any:
        return NEED_DATA

    def take_outgoing(self) -> bytes:
        return b""

    def render_items(self, items: list[Item]) -> list[bytes]:  # noqa: ARG002 -- see `Connection.post`
        return []

    def leave(self, reason: str) -> None: ...


ENDED = cast("Conversation", _Ended())
