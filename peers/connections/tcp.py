"""`TcpConversation`: the hub's own protocol with a client or a peer hub, over TCP or a Unix socket.

```
HELLO ─▶ authenticate ─▶ may it link? ─▶ has its user a place? ─▶ handler, HELLO in return, Commands
              │               │                │           └─▶ a hub: is it linked already? ─┬─ no  ─▶ Link
              └─ turned away  └─── rejected ───┘                                             └─ perhaps ─▶ wait
requests ─▶ Commands.act ─▶ core, journal                                   handler ── render ──▶ frames as they came
```

A client gets HELLO only once it has a place, or it would reconnect at once; a peer hub joins once `peers.server.links`
has decided that this link stays. A conversation costs about 100 µs to open.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import msgspec

from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import LINK_COST, QueueLimits
from hub.mesh.announcement import Digest, Wanted
from hub.messages.batch import Batch
from hub.messages.frame import Origin, encode_frame
from hub.messages.request_frame import Item
from hub.names.claim import Change, Standing
from hub.policy.policy import Rights
from hub.routing.routes import Route
from hub.settings.keys import ConfigError
from hub.topics import printable
from peers.commands.commands import CHANGES, Commands, Verb
from peers.connections.connection import Connection
from peers.connections.conversation import ClientConversation
from peers.server.link import Link, LinkProof
from peers.server.server import Server
from peers.transport.transport import keep_little_unsent
from peers.users.files import read_file
from peers.wire.control import LINK_ID_BYTES, TOKEN_LIMIT_BYTES, Account, Notice, Renewal, encode_notice, encode_origin
from peers.wire.events import Closing, Event, Pong
from peers.wire.hello import SOFTWARE_CHARACTERS, Hello, grant
from peers.wire.kinds import Kind
from peers.wire.oversize import fitting
from peers.wire.routing import AnnouncementPart
from peers.wire.session import Session

_COPIED_BYTES = 16 * 1024  # values up to this size are joined with their head; larger ones are written beside it
_GREETING_EVENTS = 10  # the share of a turn that a greeting takes: about 100 µs


def tcp_connection(  # noqa: PLR0913 -- as a conversation
    server: Server,
    queue: QueueLimits,
    *,
    dialled: bool = False,
    trusted: bool = False,
    address: str = "",
    cost: int | None = None,
) -> Connection:
    """Make a connection that speaks the hub's own protocol; `address` is given where this side has made both ends."""

    def make(connection: Connection) -> TcpConversation:
        return TcpConversation(connection, queue, dialled=dialled, trusted=trusted, cost=cost)

    return Connection(server, make, address=address)


class TcpConversation(ClientConversation):
    """One far side; also a `peers.server.links.Link`, and the `Replies` of its commands.

    Args:
        connection: Its connection.
        queue: Queue of the far side if it has no wish.
        dialled: Whether this side has connected, to link with a peer hub.
        trusted: Whether the far side is a process of this hub, which needs no authentication.
        cost: The cost of the link in the mesh; None where that is not configured.
    """

    __slots__ = (
        "_cost",
        "_far_frame_limit",
        "_link_id",
        "_origins",
        "_trusted",
        "dialled",
        "link",
        "render",
        "render_plainly",
    )

    session: Session[Route]
    render: Callable[[list[Batch]], list[bytes]]
    """Returns batches as bytes, with shared memory or origins. Chosen once, by HELLO: it is called for each write."""
    changes = CHANGES | {Hello, Renewal}
    unsaid = "the other side closed without CLOSE"

    def __init__(
        self,
        connection: Connection,
        queue: QueueLimits,
        *,
        dialled: bool = False,
        trusted: bool = False,
        cost: int | None = None,
    ) -> None:
        server = connection.server
        limits = server.settings.limits
        super().__init__(
            connection, queue, Session("hub", server.core.routes, limits.frame_bytes, limits.handshake_bytes)
        )
        self.dialled, self._trusted = dialled, trusted
        self._cost = LINK_COST if cost is None else cost
        self._link_id = secrets.token_bytes(LINK_ID_BYTES) if dialled else b""  # made by the side that dials
        self._far_frame_limit = limits.frame_bytes
        self.render_plainly: Callable[[list[Batch]], list[bytes]] = as_they_came  # without shared memory
        self.render = self.render_plainly
        self._origins: Origins | None = None  # origins for a client that has asked for them
        self.link: Link | None = None  # set once a link to a peer hub stands

    @property
    def scheme(self) -> str:
        return "unix" if self._connection.address.startswith("unix:") else "tcp"

    @property
    def far_name(self) -> str:
        return self.session.far.name if self.session.far is not None else ""

    @property
    def far_id(self) -> bytes:
        return self.session.far.id if self.session.far is not None else b""

    @property
    def _requests(self) -> Commands:
        return cast("Commands", self._commands)  # only behind HELLO

    def begin(self, refusal: str) -> None:
        if refusal or not self.dialled:
            super().begin(refusal)
            return
        try:
            token = own_token(self._server)
        except ConfigError as error:  # the far hub learns nothing of files
            self._connection.reason = str(error)
            self._connection.abort()
        else:
            self.session.send(self._server.hello(link=self._link_id, token=token).encode())

    # Events of the session.

    def act(self, event: Event) -> int:  # noqa: C901 -- a table
        match event:
            case Hello():
                self._greet(event)
                return _GREETING_EVENTS
            case Notice():
                self._take_notice(event)
            case Origin():
                cast("Handler", self._connection.handler).bring_from(event)
                if event.hub == self._server.id and self.link is not None:  # others have announced that of this hub
                    self.link.hear_of_mesh(event)
            case AnnouncementPart() | Digest() | Wanted():
                cast("Link", self.link).hear_of_mesh(event)
            case Account():
                if self.link is not None:  # none yet, if this side has closed a link that is one too many
                    self.link.hear(event)
            case Pong():
                self._server.links.answered(self.far_id, self, event.body)
                if self.link is not None:
                    self.link.answer(event.body)
            case Renewal():
                self._take_token(event)
                return _GREETING_EVENTS
            case Closing():
                self._finish(event)
            case _:
                return 1 + self._requests.act(cast("Verb", event))  # the session takes no others
        return 1

    def _take_notice(self, notice: Notice) -> None:
        if notice.kind == "dropped":
            cast("Link", self.link).miss(notice.count)
        elif notice.kind == "confirmed":
            cast("Link", self.link).confirm(notice)
        else:
            address = self._connection.address
            self._server.log.warning("notice from peer", address=address, code=notice.code, text=notice.text)

    def _take_token(self, renewal: Renewal) -> None:
        if self.dialled:
            refusal = RejectedError(CloseCode.NOT_ALLOWED, "TOKEN is for the hub that was dialled")
            self.session.reject(refusal, renewal.request)
            return
        try:
            self._renew(renewal.token)
        except RejectedError as error:
            self.session.reject(error, renewal.request)
            return
        if renewal.request:
            left_s = self._connection.proof_left_s()
            until = None if left_s == math.inf else max(0.0, left_s)
            self.session.tell(Notice("confirmed", request=renewal.request, until=until))

    def _finish(self, closing: Closing) -> None:
        reason = f"{closing.text} ({closing.code})" if closing.text else f"closed with {closing.code}"
        if closing.by_far_side:
            if self.link is not None:
                self.link.tell_last()
            self._connection.finish(reason)
        else:
            self._connection.reason = reason
            self._connection.linger()

    def refuse_messages(self, error: RejectedError, messages: int) -> None:
        """Report messages within runs that were rejected."""
        if error.code == CloseCode.NOT_ALLOWED and self._connection.handler is not None:
            self._server.audit.refused(self._connection.handler, "publish", error, messages)
        self.session.rejected_messages += messages
        self.session.refuse(error.code, error.text, messages)

    # The greeting.

    def _greet(self, hello: Hello) -> None:
        if not self.dialled:
            self._link_id = hello.link
        self._far_frame_limit = hello.frame
        if hello.frame < self._server.settings.limits.frame_bytes:
            self.render = self.render_plainly = self._fit
        if self.dialled and hello.role == "client":
            self._connection.end(CloseCode.PROTOCOL_ERROR, "a peer must be a hub, the other side is a client")
        elif self.dialled or self._trusted or self._recognise(hello):
            if hello.role == "hub":
                self._greet_hub(hello)
            else:
                self._greet_client(hello)

    def _recognise(self, hello: Hello) -> bool:
        """Return whether the far side is authenticated and has a place; otherwise it is rejected."""
        is_hub = hello.role == "hub"
        try:
            rights = self._enter(hello.token)
            if is_hub and not self._may_link(rights):
                return False
            self._take_place()
        except NotRecognisedError as error:
            self.session.hold()
            self._connection.turn_away(error)
        except RejectedError as error:
            (self.refuse if is_hub else self._connection.end)(error.code, error.text)
        else:
            return True
        return False

    def _may_link(self, rights: Rights | None) -> bool:
        """Return whether the far side may be a peer hub; otherwise it is rejected."""
        if rights is None or rights.may_link:
            return True
        text = f"user {printable(rights.user.name)} may not be a peer hub: no role of this user has `link`"
        self.refuse(CloseCode.NOT_ALLOWED, text)
        return False

    def _share_memory(self) -> int:
        """Share memory with a client that has asked for it; return from which size on, 0 for none."""
        return 0

    def _greet_client(self, hello: Hello) -> None:
        server = self._server
        if hello.origins:
            self._origins = Origins(server.id, self.render_plainly)  # before memory is shared
            self.render = self.render_plainly = self._origins.render
        shared_bytes = self._share_memory() if hello.shared else 0
        most = server.settings.queue_max
        limits = grant(hello.queue, self._queue, most.messages, most.bytes)
        handler = self._join_hub(hello, Role.CLIENT, limits)
        introduction = server.hello(limits, self._link_id, until_s=self._connection.proof_left_s())
        if shared_bytes:
            handler.take_shared()
        introduction = msgspec.structs.replace(introduction, origins=hello.origins, shared=shared_bytes)
        self.session.send(introduction.encode())
        server.core.attach(handler)
        self._opened(hello, handler, "client connected")

    def _greet_hub(self, hello: Hello) -> None:
        """Link with a peer hub, unless it is linked already; where that is unknown, wait."""
        server = self._server
        try:
            stands = server.links.add(hello.id, self, server.loop.time())
        except RejectedError as error:
            self.refuse(error.code, error.text)
            return
        if stands:
            self._begin_link(hello)
        else:
            self.session.hold()
            self._connection.hold(server.settings.limits.handshake_s)

    def _begin_link(self, hello: Hello) -> None:
        server, connection = self._server, self._connection
        handler = self._join_hub(hello, Role.LINK, self._queue)
        keep_little_unsent(connection.transport)
        if not self.dialled:
            left_s = connection.proof_left_s()
            self.session.send(server.hello(self._queue, self._link_id, until_s=left_s).encode())
        self.link = Link(
            server,
            handler,
            self.session,
            hello,
            self._link_id,
            write=connection.write,
            proof=LinkProof(partial(own_token, server), self._log_no_token) if self.dialled else None,
            fit=None if self.render_plainly is as_they_came else self.render_plainly,
            cost=self._cost,
        )
        self.render = self.link.news.render
        self._opened(hello, handler, "peer linked")

    def _log_no_token(self, reason: str) -> None:
        self._server.log.warning("no fresh token for a peer", address=self._connection.address, reason=reason)

    def _join_hub(self, hello: Hello, role: Role, limits: QueueLimits) -> Handler:
        handler = self._join(role, name=hello.name, limits=limits, posts=True, frame_limit_bytes=hello.frame)
        handler.narrows = handler.narrows or hello.narrow
        handler.is_inner = self._trusted
        return handler

    def _opened(self, hello: Hello, handler: Handler, text: str) -> None:
        server, connection = self._server, self._connection
        server.core.authority.on_refused[handler] = self.refuse_messages
        self._commands = Commands(server, handler, self)
        connection.charge_user()
        connection.software = hello.software[:SOFTWARE_CHARACTERS]
        connection.opened()
        server.log.info(
            text,
            address=connection.address,
            name=hello.name,
            user=connection.user,
            software=hello.software,
            overflow=handler.limits.overflow.value,
        )

    # A link of `peers.server.links`.

    @property
    def used(self) -> bool:
        """Whether both sides know of the link: the far side has sent a frame behind HELLO, or has answered it."""
        return self.is_open and (self.dialled or self.session.has_heard)

    def ask(self, token: bytes) -> None:
        """Another link would take the place of this one: check whether the far side answers."""
        self._connection.write([encode_frame(Kind.PING, token)])

    def proceed(self) -> None:
        connection, session = self._connection, self.session
        if not session.closed and not connection.transport.is_closing():
            session.release()
            if self._may_link(self._rights):  # there may be another policy by now
                self._begin_link(cast("Hello", session.far))
            connection.go_on()

    def refuse(self, code: int, text: str) -> None:
        """Close a link that is one too many. The side that has dialled learns which hub this is."""
        if not (self.is_open or self.dialled or self.session.closed):
            self.session.send(self._server.hello(link=self._link_id).encode())
        self._connection.end(code, text)

    # The handler's messages.

    def _fit(self, batches: list[Batch]) -> list[bytes]:
        """Return batches in frames that the far side takes, with a notice in place of lost messages."""
        frames: list[bytes] = []
        for piece in fitting(batches, self._far_frame_limit):
            if isinstance(piece, Batch):
                frames.append(piece.frames)
            else:
                self._connection.lose(piece)
                frames.append(self.render_gap(piece))
        return frames

    def render_items(self, items: list[Item]) -> list[bytes]:
        pieces = render_items(items)
        return pieces if self.link is None else self.link.news.post(items, pieces)

    def render_gap(self, lost_messages: int) -> bytes:
        return encode_notice(Notice("dropped", count=lost_messages))

    def write_more(self) -> None:
        super().write_more()
        if self.link is not None:
            self.link.news.write_more()

    # Replies to commands, as NOTICE frames.

    @property
    def frame_limit_bytes(self) -> int:
        return self._far_frame_limit

    def confirm(
        self, request: int, offset: int | None = None, *, text: str = "", messages: int = 0, again: bool = False
    ) -> None:
        if request:
            self.session.tell(
                Notice("confirmed", request=request, offset=offset, text=text, count=messages, again=again)
            )

    def reject(self, error: RejectedError, request: int = 0) -> None:
        self.session.reject(error, request)

    def reject_messages(self, error: RejectedError, count: int, request: int = 0) -> None:  # noqa: ARG002 -- runs have none
        self.session.refuse(error.code, error.text, count)  # one NOTICE for each reason, at the end of the read

    def recorded(self, request: int, offset: int, messages: int) -> None:  # noqa: ARG002 -- in order, unnumbered
        self.session.tell(Notice("recorded", count=messages, offset=offset))

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:  # noqa: ARG002 -- as `recorded`
        self.session.tell(Notice("unrecorded", count=messages, code=error.code, text=error.text))

    def send_records(self, answer: bytes | bytearray, request: int) -> None:  # noqa: ARG002 -- it is in the frame
        if not self.session.closed:
            self._connection.write([cast("bytes", answer)])
            self._connection.wait_for_reader()

    def tell_name(self, change: Change) -> None:
        code = 0 if change.standing is Standing.OWNED else CloseCode.NOT_ALLOWED
        self.session.tell(Notice(change.standing.value, name=change.name, code=code, text=change.text))

    def put_off(self, rest: Any) -> None:
        self.session.put_back(rest)

    # Ends.

    def ping(self) -> None:
        self.session.send(encode_frame(Kind.PING, b""))

    def time_out(self) -> None:
        text = f"no HELLO within {self._server.settings.limits.handshake_s:g} s"
        self._connection.end(CloseCode.PROTOCOL_ERROR, text)

    def close(self, code: int, text: str) -> str:
        if self.link is not None:
            self.link.tell_last()
        self.session.close(code, text)
        return f"{text} ({int(code)})"

    def leave(self, reason: str) -> None:
        server, handler = self._server, self._connection.handler
        if self.link is not None:
            self.link.leave()
        super().leave(reason)
        if handler is not None:
            server.core.detach(handler, reason)
        far = self.session.far
        if far is not None and far.role == "hub" and server.links.remove(far.id, self):
            server.vacancies.tell()  # another link may take the place of this one

    def conclude(self) -> None:
        if self.link is not None:
            self.link.conclude()
        super().conclude()
        self.link = self._origins = None  # they, and the bound methods, refer to this conversation
        self.render = self.render_plainly = as_they_came


def as_they_came(batches: list[Batch]) -> list[bytes]:
    if len(batches) == 1:  # most often; a list comprehension is a call
        return [batches[0].frames]
    return [batch.frames for batch in batches]


def render_items(items: list[Item]) -> list[bytes]:
    """Return requests and replies as frames, as few pieces as make sense: to a transport each piece is work."""
    pieces: list[bytes] = []
    small: list[bytes] = []
    for item in items:
        if len(item.values) > _COPIED_BYTES:
            pieces += (b"".join((*small, item.head())), item.values)
            small = []
        else:
            small.append(item.encode())
    if small:
        pieces.append(b"".join(small))
    return pieces


class Origins:
    """For a client that has asked, ORIGIN in front of messages that have entered the mesh at another hub."""

    __slots__ = ("_hub", "_render", "_said")

    def __init__(self, hub: bytes, render: Callable[[list[Batch]], list[bytes]]) -> None:
        self._hub = hub
        self._render = render
        self._said = hub  # the origin that the client assumes for the next message

    def render(self, batches: list[Batch]) -> list[bytes]:
        frames: list[bytes] = []
        for _, some in groupby(batches, lambda batch: batch.origin and batch.origin.hub):
            same = list(some)
            before = self.before(same[0])
            frames += [before, *self._render(same)] if before else self._render(same)
        return frames

    def before(self, batch: Batch) -> bytes:
        origin = batch.origin
        hub = self._hub if origin is None else origin.hub
        if hub == self._said:
            return b""
        self._said = hub
        return encode_origin(Origin(hub, 0 if origin is None else origin.epoch))


def own_token(server: Server) -> str:
    """Return this hub's token for the hubs that it dials; empty for none. It is read for each link.

    Raises:
        ConfigError: The file cannot be read, or holds no token.
    """
    place = server.settings.access.peer_token
    if not place:
        return ""
    content = read_file(Path(place), TOKEN_LIMIT_BYTES, "a token")
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if not token.isprintable() or not token:
        raise ConfigError(place, "", "holds no token: one line of text is expected")
    return token
