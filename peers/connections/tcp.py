"""`TcpConversation`: the hub's own protocol with a client or a peer hub, over TCP or a Unix socket.

```
HELLO ─▶ who is it? ─▶ may it link? ─▶ has its user a place? ─▶ handler, HELLO in return, Commands
              │               │                │           └─▶ a hub: is it linked already? ─┬─ no  ─▶ Link
              └─ turned away  └─── rejected ───┘                                             └─ perhaps ─▶ wait
requests ─▶ Commands.act ─▶ core, journal                                   handler ── render ──▶ frames as they came
```

A client gets HELLO only once it has a place, or it would reconnect at once; a peer hub is taken in once `Links` has
decided that this link stays. A conversation costs about 100 µs to open.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, cast

import msgspec

from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import LINK_COST, QueueLimits
from hub.mesh.announcement import Digest, Wanted
from hub.messages.batch import Batch
from hub.messages.frame import encode_frame
from hub.messages.origin import Origin
from hub.messages.request_frame import Item
from hub.names.claim import Change, Standing
from hub.policy.policy import Rights
from hub.routing.routes import Route
from hub.settings.keys import ConfigError
from hub.topics import printable
from peers.commands.commands import CHANGES, Commands, Verb
from peers.connections.authentication import enter, own_token, renew, rights_of, take_place
from peers.connections.connection import Connection
from peers.links.link import Link, LinkProof
from peers.server.server import Server
from peers.transport.transport import keep_little_unsent
from peers.wire.control import LINK_ID_BYTES, Account, Notice, Renewal, encode_notice, encode_origin
from peers.wire.events import Closing, Event, Pong
from peers.wire.hello import SOFTWARE_CHARACTERS, Hello, grant
from peers.wire.kinds import Kind
from peers.wire.oversize import fitting
from peers.wire.routing import AnnouncementPart
from peers.wire.session import Session

if TYPE_CHECKING:
    from peers.connections.unix import UnixValues


_COPIED_BYTES = 16 * 1024
"""Values up to this size are joined with their head; larger ones are written beside it."""

_GREETING_EVENTS = 10
"""What a greeting costs of a turn's share: about 100 µs."""


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
        return TcpConversation(server, queue, connection, dialled=dialled, trusted=trusted, cost=cost)

    return Connection(server, make, address=address)


class TcpConversation:
    """One far side. See `peers.connections.conversation.Conversation`; also a `peers.server.links.Link`.

    Args:
        node: The hub.
        queue: Queue of the far side if it has no wish.
        connection: Its connection.
        dialled: Whether this side has connected, to link with a peer hub.
        trusted: Whether the far side is a process of this hub, which needs no authentication.
        cost: The cost of the link in the mesh; None where that is not configured.
        share: Makes the values that are shared with a client that has asked for shared memory, or returns None if that
            cannot be now; None where no memory is shared.
    """

    __slots__ = (
        "_commands",
        "_connection",
        "_cost",
        "_far_frame_limit",
        "_link_id",
        "_origins",
        "_queue",
        "_server",
        "_share",
        "_shared",
        "_trusted",
        "dialled",
        "link",
        "render",
        "render_plainly",
        "session",
    )

    changes = CHANGES | {Hello, Renewal}
    unsaid = "the far side closed without CLOSE"
    is_quiet = is_bell = False

    def __init__(  # noqa: PLR0913 -- what is known of a far side is told at once
        self,
        server: Server,
        queue: QueueLimits,
        connection: Connection,
        *,
        dialled: bool = False,
        trusted: bool = False,
        cost: int | None = None,
        share: Callable[[TcpConversation, int], UnixValues | None] | None = None,
    ) -> None:
        limits = server.settings.limits
        self._server = server
        self._queue = queue
        self._connection = connection
        self.dialled = dialled
        self._trusted = trusted
        self._cost = LINK_COST if cost is None else cost
        self._share = share
        self._link_id = secrets.token_bytes(LINK_ID_BYTES) if dialled else b""
        """The id of the link, made by the side that has dialled; empty for a client."""
        self._shared: UnixValues | None = None
        self._far_frame_limit = limits.frame_bytes
        self.render_plainly: Callable[[list[Batch]], list[bytes]] = as_they_came
        """Returns batches as bytes that the far side takes, cut where its HELLO asks for smaller frames."""
        self.render = self.render_plainly
        """The same, with shared memory or origins. Chosen once, by HELLO, since it is called for each write."""
        self._origins: ToldOrigins | None = None
        """Origins told to a client that has asked for them."""
        self._commands: Commands | None = None
        """Set behind HELLO."""
        self.link: Link | None = None
        """Set once a link to a peer hub stands."""
        self.session: Session[Route] = Session("hub", server.core.routes, limits.frame_bytes, limits.handshake_bytes)

    @property
    def scheme(self) -> str:
        """TCP, or a Unix socket."""
        return "unix" if self._connection.address.startswith("unix:") else "tcp"

    @property
    def far_name(self) -> str:
        """The name in the far side's HELLO."""
        return self.session.far.name if self.session.far is not None else ""

    @property
    def far_id(self) -> bytes:
        """The id in the far side's HELLO."""
        return self.session.far.id if self.session.far is not None else b""

    @property
    def is_open(self) -> bool:
        """Whether HELLO has come."""
        return self._connection.handler is not None

    @property
    def is_held(self) -> bool:
        """Whether a client has to release shared memory first."""
        return self._shared is not None and self._shared.is_held

    @property
    def commands(self) -> Commands:
        """What the far side may ask; only behind its HELLO."""
        return cast("Commands", self._commands)

    def begin(self, refusal: str) -> None:
        """Say HELLO if this side has dialled."""
        if refusal:
            self._connection.end(CloseCode.TRY_AGAIN_LATER, refusal)
        elif self.dialled:
            try:
                token = own_token(self._server)
            except ConfigError as error:  # the far hub is not told about files
                self._connection.reason = str(error)
                self._connection.abort()
            else:
                self.session.send(self._server.hello(link=self._link_id, token=token).encode())

    def end_of_stream(self) -> None:
        """Do nothing: accounts tell what has arrived."""

    # Events of the session.

    def act(self, event: Event) -> int:
        """Do what an event asks for; return its share of a turn."""
        return self.act_plainly(event) if self._shared is None else self._shared.act(event)

    def act_plainly(self, event: Event) -> int:
        """Do what an event asks for whose values are bytes."""
        match event:
            case Hello():
                self._greet(event)
                return _GREETING_EVENTS
            case Notice():
                self._take_notice(event)
            case Origin():
                self._bring_from(event)
            case AnnouncementPart() | Digest() | Wanted():
                cast("Link", self.link).hear_of_mesh(event)
            case Account():
                if self.link is not None:  # none yet, if this side has closed a link that is one too many
                    self.link.hear(event)
            case Pong():
                self._take_answer(event.body)
            case Renewal():
                self._renew(event)
                return _GREETING_EVENTS
            case Closing():
                self._finish(event)
            case _:
                return 1 + self.commands.act(cast("Verb", event))  # the session takes no others
        return 1

    def _bring_from(self, origin: Origin) -> None:
        cast("Handler", self._connection.handler).bring_from(origin)
        if origin.hub == self._server.id and self.link is not None:  # others have said that of this hub
            self.link.hear_of_mesh(origin)

    def _take_notice(self, notice: Notice) -> None:
        """A peer hub has dropped or rejected something, or has taken a fresh token."""
        if notice.kind == "dropped":
            cast("Link", self.link).miss(notice.count)
        elif notice.kind == "confirmed":
            cast("Link", self.link).confirm(notice)
        else:
            address = self._connection.address
            self._server.log.warning("notice from peer", address=address, code=notice.code, text=notice.text)

    def _take_answer(self, token: bytes) -> None:
        """A peer hub has answered a PING: of `Links`, or of the link's lag."""
        self._server.links.answered(self.far_id, self, token)
        if self.link is not None:
            self.link.answer(token)

    def _renew(self, renewal: Renewal) -> None:
        if self.dialled:  # it is this side that shows a token
            refusal = RejectedError(CloseCode.NOT_ALLOWED, "TOKEN is for the hub that was dialled")
            self.session.reject(refusal, renewal.request)
            return
        try:
            renew(self._server, self._connection, renewal.token)
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
        """Take the far side in, reject it, or let it wait."""
        if not self.dialled:
            self._link_id = hello.link
        self._far_frame_limit = hello.frame
        if hello.frame < self._server.settings.limits.frame_bytes:
            self.render = self.render_plainly = self._fit
        if self.dialled and hello.role == "client":
            self._connection.end(CloseCode.PROTOCOL_ERROR, "a peer must be a hub, the far side is a client")
        elif self.dialled or self._trusted or self._recognise(hello):
            if hello.role == "hub":
                self._greet_hub(hello)
            else:
                self._greet_client(hello)

    def _recognise(self, hello: Hello) -> bool:
        """Return whether the far side may come in; otherwise it is turned away."""
        try:
            rights = enter(self._server, self._connection, hello.token)
        except NotRecognisedError as error:
            self.session.hold()
            self._connection.turn_away(error)
            return False
        if hello.role == "hub" and not self._may_link(rights):
            return False
        try:
            take_place(self._server, self._connection)
        except RejectedError as error:
            if hello.role == "hub":
                self.refuse(error.code, error.text)
            else:
                self._connection.end(error.code, error.text)
            return False
        return True

    def _may_link(self, rights: Rights | None) -> bool:
        """Return whether the far side may be a peer hub; otherwise it is rejected."""
        if rights is None or rights.may_link:
            return True
        text = f"user {printable(rights.user.name)} may not be a peer hub: no role of his has `link`"
        self.refuse(CloseCode.NOT_ALLOWED, text)
        return False

    def _greet_client(self, hello: Hello) -> None:
        server = self._server
        if hello.origins:
            self._origins = ToldOrigins(server.id, self.render_plainly)  # before memory is shared
            self.render = self.render_plainly = self._origins.render
        if hello.shared and self._share is not None:
            self._shared = self._share(self, hello.frame)
        shared = self._shared
        limits = grant(hello.queue, self._queue, server.settings.queue_max.messages, server.settings.queue_max.bytes)
        handler = self._take_in(hello, Role.CLIENT, limits)
        introduction = server.hello(limits, self._link_id, until_s=self._connection.proof_left_s())
        if hello.origins:
            introduction = msgspec.structs.replace(introduction, origins=True)
        if shared is not None:
            self.render = shared.render
            handler.take_shared()
            introduction = msgspec.structs.replace(introduction, shared=shared.offered_bytes)
        self.session.send(introduction.encode())
        server.core.attach(handler)
        if shared is not None and handler.share is not None:
            shared.charge(handler.share)
        self._begin(hello, handler, "client connected")

    def _greet_hub(self, hello: Hello) -> None:
        """Take a peer hub in, unless it is linked already; where that is not known, wait."""
        server = self._server
        try:
            stands = server.links.add(hello.id, self, server.loop.time())
        except RejectedError as error:
            self.refuse(error.code, error.text)
            return
        if stands:
            self._join(hello)
        else:
            self.session.hold()
            self._connection.hold(server.settings.limits.handshake_s)

    def _join(self, hello: Hello) -> None:
        """Be the link to a peer hub."""
        server, connection = self._server, self._connection
        handler = self._take_in(hello, Role.LINK, self._queue)
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
            proof=LinkProof(partial(own_token, server), self._tell_unread) if self.dialled else None,
            fit=None if self.render_plainly is as_they_came else self.render_plainly,
            cost=self._cost,
        )
        self.render = self.link.news.render
        self._begin(hello, handler, "peer linked")

    def _tell_unread(self, reason: str) -> None:
        self._server.log.warning("no fresh token for a peer", address=self._connection.address, reason=reason)

    def _take_in(self, hello: Hello, role: Role, limits: QueueLimits) -> Handler:
        connection = self._connection
        handler = Handler(
            connection,
            role=role,
            limits=limits,
            name=hello.name,
            address=connection.address,
            poster=connection,
            frame_limit_bytes=hello.frame,
            rights=rights_of(self._server, connection),
        )
        handler.narrows = handler.narrows or hello.narrow
        handler.is_inner = self._trusted
        connection.join(handler)
        return handler

    def _begin(self, hello: Hello, handler: Handler, what: str) -> None:
        server, connection = self._server, self._connection
        server.core.authority.on_refused[handler] = self.refuse_messages
        self._commands = Commands(server, handler, WireReplies(self.session, connection, hello.frame))
        connection.charge_user()
        connection.software = hello.software[:SOFTWARE_CHARACTERS]
        connection.opened()
        server.log.info(
            what,
            address=connection.address,
            name=hello.name,
            software=hello.software,
            overflow=handler.limits.overflow.value,
        )

    # What `Links` decides.

    @property
    def used(self) -> bool:
        """Whether both sides know of the link: the far side has said something behind HELLO, or has answered it."""
        return self.is_open and (self.dialled or self.session.has_heard)

    def ask(self, token: bytes) -> None:
        """Another link would take the place of this one: see whether the far side is there."""
        self._connection.write([encode_frame(Kind.PING, token)])

    def proceed(self) -> None:
        """The link that this one has waited for does not answer, or is gone."""
        connection, session = self._connection, self.session
        if not session.closed and not connection.transport.is_closing():
            session.release()
            if self._may_link(rights_of(self._server, connection)):  # there may be another policy by now
                self._join(cast("Hello", session.far))
            connection.go_on()

    def refuse(self, code: int, text: str) -> None:
        """Close a link that is one too many. The side that has dialled learns which hub this is."""
        if not (self.is_open or self.dialled or self.session.closed):
            self.session.send(self._server.hello(link=self._link_id).encode())
        self._connection.end(code, text)

    # What the handler writes.

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

    def render_origin(self, batch: Batch) -> bytes:
        """Return the ORIGIN that must stand in front of a batch that is not rendered here, or nothing."""
        return b"" if self._origins is None else self._origins.before(batch)

    def render_items(self, items: list[Item]) -> list[bytes]:
        """Return requests and replies as frames."""
        if self._shared is not None:
            return self._shared.render_items(items)
        pieces = render_items(items)
        return pieces if self.link is None else self.link.news.post(items, pieces)

    def render_gap(self, lost_messages: int) -> bytes:
        """Return the notice that messages were lost."""
        return encode_notice(Notice("dropped", count=lost_messages))

    def write_more(self) -> None:
        """Write what waited until the far side reads on."""
        if self._commands is not None:
            self._commands.write_more()
        if self.link is not None:
            self.link.news.write_more()

    # Ends.

    def ping(self) -> None:
        """Ask for a sign of life; a far side that does not read may still be heard publishing."""
        self.session.send(encode_frame(Kind.PING, b""))

    def time_out(self) -> None:
        """No HELLO has come."""
        text = f"no HELLO within {self._server.settings.limits.handshake_s:g} s"
        self._connection.end(CloseCode.PROTOCOL_ERROR, text)

    def drain(self, text: str) -> None:
        """The hub stops."""
        self._connection.end(CloseCode.GOING_AWAY, text)

    def close(self, code: int, text: str) -> str:
        """Say CLOSE."""
        if self.link is not None:
            self.link.tell_last()
        self.session.close(code, text)
        return f"{text} ({int(code)})"

    def leave(self, reason: str) -> None:
        """Release what the far side holds; then another link may take the place of this one."""
        server, handler = self._server, self._connection.handler
        if self.link is not None:
            self.link.leave()
        if self._commands is not None:
            self._commands.close()
        if self._shared is not None:
            self._shared.close()
        if handler is not None:
            server.core.detach(handler, reason)
        far = self.session.far
        if far is not None and far.role == "hub" and server.links.remove(far.id, self):
            server.vacancies.tell()

    def conclude(self) -> None:
        """Log which of this hub's messages have not arrived, and drop references."""
        if self.link is not None:
            self.link.conclude()
        self._commands = self._shared = self._share = self.link = None  # they know this conversation
        self._origins = None
        self.render = self.render_plainly = as_they_came  # and so do others of these


def as_they_came(batches: list[Batch]) -> list[bytes]:
    """Return batches as they are."""
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


class ToldOrigins:
    """For a client that has asked, ORIGIN in front of messages that have entered the mesh at another hub."""

    __slots__ = ("_hub", "_render", "_said")

    def __init__(self, hub: bytes, render: Callable[[list[Batch]], list[bytes]]) -> None:
        self._hub = hub
        self._render = render
        self._said = hub  # the origin that the client assumes for the next message

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches as frames, with ORIGIN where the hub changes."""
        frames: list[bytes] = []
        for _, some in groupby(batches, lambda batch: batch.origin and batch.origin.hub):
            same = list(some)
            before = self.before(same[0])
            frames += [before, *self._render(same)] if before else self._render(same)
        return frames

    def before(self, batch: Batch) -> bytes:
        """Return the ORIGIN in front of a batch that comes next, or nothing."""
        origin = batch.origin
        hub = self._hub if origin is None else origin.hub
        if hub == self._said:
            return b""
        self._said = hub
        return encode_origin(Origin(hub, 0 if origin is None else origin.epoch))


class WireReplies:
    """Answers of the hub, as NOTICE frames. See `peers.commands.replies.Replies`."""

    __slots__ = ("_session", "_write", "expect_answers", "frame_limit_bytes", "put_off", "write_later")

    def __init__(self, session: Session[Route], connection: Connection, frame_limit_bytes: int) -> None:
        self._session = session
        self.frame_limit_bytes = frame_limit_bytes
        self.put_off = session.put_back
        self.write_later = connection.write_later
        self.expect_answers = connection.wait_for_reader
        self._write = connection.write

    def confirm(
        self, request: int, offset: int | None = None, *, text: str = "", messages: int = 0, again: bool = False
    ) -> None:
        """Say "confirmed"."""
        if request:
            self._session.tell(
                Notice("confirmed", request=request, offset=offset, text=text, count=messages, again=again)
            )

    def reject(self, error: RejectedError, request: int = 0) -> None:
        """Say "error"."""
        self._session.reject(error, request)

    def refuse(self, error: RejectedError, count: int, request: int = 0) -> None:  # noqa: ARG002 -- runs have none
        """Say "error" at the end of the read, once for each reason."""
        self._session.refuse(error.code, error.text, count)

    def recorded(self, request: int, offset: int, messages: int) -> None:  # noqa: ARG002 -- told in order, unnumbered
        """Say "recorded"."""
        self._session.tell(Notice("recorded", count=messages, offset=offset))

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:  # noqa: ARG002 -- as `recorded`
        """Say "unrecorded"."""
        self._session.tell(Notice("unrecorded", count=messages, code=error.code, text=error.text))

    def send_records(self, answer: bytes | bytearray, request: int) -> None:  # noqa: ARG002 -- it is in the frame
        """Write the frame of a reader process as it is."""
        if not self._session.closed:
            self._write([cast("bytes", answer)])
            self.expect_answers()

    def tell_name(self, change: Change) -> None:
        """Say "owned", "queued" or "lost"."""
        code = 0 if change.standing is Standing.OWNED else CloseCode.NOT_ALLOWED
        self._session.tell(Notice(change.standing.value, name=change.name, code=code, text=change.text))
