"""`TcpConversation`: the hub's own protocol with a client or a peer hub, over TCP or a Unix socket.

```
Session ─▶ Hello               ─▶ a client, or a Link
       └─▶ what is asked for   ─▶ Verbs.act ─▶ core, journal
handler ── render ──▶ MESSAGES frames as they came
```

Purpose: how a conversation opens and ends, and what is written. Rules of the conversation are in `peers.wire.session`,
what the far side may ask in `peers.verbs`, what a peer hub is told in `peers.links.link`, values in shared memory in
`peers.connections.unix`.

Owner: one `Connection`. Cost: per frame that is no message, and per write. Memory: see docs/performance.md.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

import msgspec

from hub.batch import Batch
from hub.config import ConfigError
from hub.delivery import Role
from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.frame import encode_frame
from hub.handler import Handler
from hub.overflow import QueueLimits
from hub.policy.policy import Rights
from hub.quotas.quotas import Share
from hub.request_frame import Item
from hub.routes import Route
from hub.topics import printable
from peers.connections.connection import Connection
from peers.connections.door import enter, own_token, renew, rights_of, take_place
from peers.links.link import Link
from peers.links.proof import LinkProof
from peers.node.node import Node
from peers.verbs.verbs import CHANGES, Verb, Verbs
from peers.verbs.wire_far_side import WireFarSide
from peers.wire.account import LINK_ID_BYTES, Account
from peers.wire.control import Notice, encode_notice
from peers.wire.hello import Hello, grant
from peers.wire.kinds import Kind
from peers.wire.last_messages import LastMessages
from peers.wire.oversize import fitting
from peers.wire.session import Closing, Event, Pong, Session
from peers.wire.token import Renewal

__all__ = ["SharedValues", "TcpConversation", "render_items", "tcp_connection"]

_COPIED_BYTES = 16 * 1024
"""Values up to this size are joined with their head; larger ones are written beside it."""

_GREETING_EVENTS = 10
"""What it costs to take somebody in: about 100 µs."""


def tcp_connection(node: Node, queue: QueueLimits, *, dialled: bool = False, address: str = "") -> Connection:
    """Make a connection that speaks the hub's own protocol.

    Args:
        node: The hub it belongs to.
        queue: Queue that its handler gets if the far side has no wish.
        dialled: Whether this side connects, to link with a peer hub.
        address: Where to, if it does.
    """
    return Connection(
        node, lambda connection: TcpConversation(node, queue, connection, dialled=dialled), address=address
    )


class SharedValues(Protocol):
    """Values that a client and the hub have in shared memory, see `peers.connections.unix`."""

    @property
    def offered_bytes(self) -> int:
        """From which size on the hub uses it."""

    @property
    def is_held(self) -> bool:
        """Whether the client has to take what it was given before it is written to again."""

    def charge(self, share: Share) -> None:
        """The client belongs to a user: charge him for what it brings."""

    def act(self, event: Event) -> int:
        """Do what an event asks for, in shared memory or not; return its share of a turn."""

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Write what is shared, with all that stands before it; return the rest as frames."""

    def render_items(self, items: list[Item]) -> list[bytes]:
        """The same for requests and replies."""

    def close(self) -> None:
        """The client has gone."""


class TcpConversation:
    """One far side. See `peers.connections.conversation.Conversation`; also a `peers.node.links.Link`.

    Args:
        node: The hub.
        queue: Queue of the far side if it has no wish.
        connection: That carries it.
        dialled: Whether this side has connected, to link with a peer hub.
        share: Makes what shares memory with a client that has asked for it, or nothing if that cannot be now; None
            where nothing is shared.
    """

    __slots__ = (
        "_connection",
        "_far_frame_limit",
        "_has_eof",
        "_link",
        "_link_id",
        "_node",
        "_queue",
        "_share",
        "_shared",
        "_verbs",
        "dialled",
        "render",
        "render_plainly",
        "session",
    )

    changes = CHANGES | {Hello, Renewal}
    unsaid = "the far side closed without CLOSE"
    is_quiet = False

    def __init__(
        self,
        node: Node,
        queue: QueueLimits,
        connection: Connection,
        *,
        dialled: bool = False,
        share: Callable[[TcpConversation, int], SharedValues | None] | None = None,
    ) -> None:
        limits = node.settings.limits
        self._node = node
        self._queue = queue
        self._connection = connection
        self._share = share
        self._shared: SharedValues | None = None
        """Set by the HELLO of a client that has asked for shared memory, and was granted it."""
        self._far_frame_limit = limits.frame_bytes
        """Largest body that the far side takes; this hub's own until HELLO has said another."""
        self.render_plainly: Callable[[list[Batch]], list[bytes]] = as_they_came
        """Returns batches as bytes that the far side takes; its HELLO says whether they must be cut for that."""
        self.render = self.render_plainly
        """Returns batches as the far side has them: the same, unless values are in shared memory. It is chosen once, by
        HELLO, since it is called for each write."""
        self._verbs: Verbs | None = None
        """What the far side may ask, from its HELLO on."""
        self._link: Link | None = None
        """What a peer hub is told, once its link stands; None for a client."""
        self._link_id = secrets.token_bytes(LINK_ID_BYTES) if dialled else b""
        """The id of the link, chosen by whoever has dialled; empty for a client, and if a peer tells no accounts."""
        self._has_eof = False
        """Whether the far side has ended its stream in order."""
        self.dialled = dialled
        self.session: Session[Route] = Session("hub", node.core.routes, limits.frame_bytes, limits.handshake_bytes)

    @property
    def scheme(self) -> str:
        """TCP, or a Unix socket."""
        return "unix" if self._connection.address.startswith("unix:") else "tcp"

    @property
    def far_name(self) -> str:
        """What the far side calls itself, empty before HELLO."""
        return self.session.far.name if self.session.far is not None else ""

    @property
    def far_id(self) -> bytes:
        """The id of the hub at the far side, empty before it has said it."""
        return self.session.far.id if self.session.far is not None else b""

    @property
    def is_open(self) -> bool:
        """Whether HELLO has come."""
        return self._connection.handler is not None

    @property
    def is_held(self) -> bool:
        """Whether a client has to take what is in shared memory first."""
        return self._shared is not None and self._shared.is_held

    def begin(self, refusal: str) -> None:
        """Say HELLO if this side has dialled."""
        if refusal:
            self._connection.end(CloseCode.TRY_AGAIN_LATER, refusal)
        elif self.dialled:
            self._introduce()

    def _introduce(self) -> None:
        """Say HELLO to a hub that this one has dialled, with what it shows there."""
        connection = self._connection
        try:
            token = own_token(self._node)
        except ConfigError as error:  # the far hub is not told about files
            connection.reason = str(error)
            connection.abort()
        else:
            self.session.send(self._node.hello(link=self._link_id, token=token).encode())

    def end_of_stream(self) -> None:
        """Take note that the stream has ended in order."""
        self._has_eof = True

    # What the session reports.

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
            case Account():
                if self._link is not None:  # none yet, if this side has closed a link that is one too many
                    self._link.hear(event)
            case Pong():
                self._node.links.answered(self.far_id, self, event.body)
            case Renewal():
                self._renew(event)
                return _GREETING_EVENTS
            case Closing():
                self._finish(event)
            case _:
                return 1 + self.verbs.act(cast("Verb", event))  # the session takes no others
        return 1

    @property
    def verbs(self) -> Verbs:
        """What the far side may ask; only behind its HELLO."""
        return cast("Verbs", self._verbs)

    def _take_notice(self, notice: Notice) -> None:
        """A peer hub has dropped or refused something, or has taken a fresh token."""
        if notice.kind == "dropped":
            cast("Link", self._link).miss(notice.count)
        elif notice.kind == "confirmed":
            cast("Link", self._link).confirm(notice)
        else:
            again = self._link is not None and self._link.refuse(notice)
            address = self._connection.address
            self._node.log.warning("notice from peer", address=address, code=notice.code, text=notice.text, again=again)

    def _renew(self, renewal: Renewal) -> None:
        """The far side shows a fresh token."""
        if self.dialled:  # it is this side that shows something
            refusal = RejectedError(CloseCode.NOT_ALLOWED, "TOKEN is for the hub that was dialled")
            self.session.reject(refusal, renewal.request)
            return
        try:
            renew(self._node, self._connection, renewal.token)
        except RejectedError as error:
            self.session.reject(error, renewal.request)
            return
        if renewal.request:
            left_s = self._connection.watch.proof_left_s()
            until = None if left_s == math.inf else max(0.0, left_s)
            self.session.tell(Notice("confirmed", request=renewal.request, until=until))

    def _tell_unread(self, reason: str) -> None:
        """There is no token to be shown afresh."""
        self._node.log.warning("no fresh token for a peer", address=self._connection.address, reason=reason)

    def _finish(self, closing: Closing) -> None:
        """The conversation is over."""
        reason = f"{closing.text} ({closing.code})" if closing.text else f"closed with {closing.code}"
        if closing.by_far_side:
            self._connection.ending.finish(reason)
        else:
            self._connection.reason = reason
            self._connection.ending.linger()

    def refuse_messages(self, error: RejectedError, messages: int) -> None:
        """Tell the far side that messages within its runs were not taken."""
        if error.code == CloseCode.NOT_ALLOWED and self._connection.handler is not None:
            self._node.audit.refused(self._connection.handler, "publish", error, messages)
        self.session.rejected_messages += messages
        self.session.refuse(error.code, error.text, messages)

    # The far side has said who it is.

    def _greet(self, hello: Hello) -> None:
        self._far_frame_limit = hello.frame
        if hello.frame < self._node.settings.limits.frame_bytes:
            self.render = self.render_plainly = self._fit
        if self.dialled and hello.role == "client":
            self._connection.end(CloseCode.PROTOCOL_ERROR, "a peer must be a hub, the far side is a client")
        elif not (self.dialled or self._recognise(hello)):
            return
        elif hello.role == "hub":
            self._greet_hub(hello)
        else:
            self._greet_client(hello)

    def _recognise(self, hello: Hello) -> bool:
        """Return whether the far side is somebody who may come in; otherwise it is turned away."""
        try:
            rights = enter(self._node, self._connection, hello.token)
        except NotRecognisedError as error:
            self.session.hold()
            self._connection.ending.turn_away(error)
            return False
        if hello.role == "hub" and not self._may_link(rights):
            return False
        return self._has_place(hello)

    def _may_link(self, rights: Rights | None) -> bool:
        """Return whether the far side may be a peer hub; otherwise it is refused."""
        if rights is None or rights.may_link:
            return True
        text = f"user {printable(rights.user.name)} may not be a peer hub: no role of his has `link`"
        self.refuse(CloseCode.NOT_ALLOWED, text)
        return False

    def _has_place(self, hello: Hello) -> bool:
        """Return whether the far side is a connection that its user may have; otherwise it is refused."""
        try:
            take_place(self._node, self._connection)
        except RejectedError as error:
            if hello.role == "hub":
                self.refuse(error.code, error.text)
            else:
                self._connection.end(error.code, error.text)
            return False
        return True

    def _greet_client(self, hello: Hello) -> None:
        """Take a client in, and tell it what it was granted."""
        node = self._node
        if hello.shared and self._share is not None:
            self._shared = self._share(self, hello.frame)
        if self._shared is not None:
            self.render = self._shared.render
        limits = grant(hello.queue, self._queue, node.settings.queue_max.messages, node.settings.queue_max.bytes)
        handler = self._take_in(hello, Role.CLIENT, limits)
        introduction = node.hello(limits, self._link_id, until_s=self._connection.watch.proof_left_s())
        if self._shared is not None:
            handler.take_shared()
            introduction = msgspec.structs.replace(introduction, shared=self._shared.offered_bytes)
        self.session.send(introduction.encode())
        node.core.attach(handler)
        if self._shared is not None and handler.share is not None:
            self._shared.charge(handler.share)
        node.core.refusals.on_refused[handler] = self.refuse_messages
        self._begin(hello, handler, "client connected")

    def _greet_hub(self, hello: Hello) -> None:
        """Take a peer hub in, unless it is linked already; where that is not known, wait."""
        node = self._node
        if not self.dialled:
            self._link_id = hello.link
        elif hello.link != self._link_id:  # a hub of an earlier version
            self._link_id = b""
        try:
            stands = node.links.add(hello.id, self, node.loop.time())
        except RejectedError as error:
            self.refuse(error.code, error.text)
            return
        if stands:
            self._join(hello)
        else:
            self.session.hold()
            self._connection.hold(node.settings.limits.handshake_s)

    def _join(self, hello: Hello) -> None:
        """Be the link to a peer hub: tell it what is wanted of it."""
        handler = self._take_in(hello, Role.LINK, self._queue)
        if not self.dialled:
            left_s = self._connection.watch.proof_left_s()
            self.session.send(self._node.hello(self._queue, self._link_id, until_s=left_s).encode())
        proof = LinkProof(partial(own_token, self._node), self._tell_unread) if self.dialled else None
        self._link = Link(self._node, handler, self.session, self._connection.writer.write, hello, self._link_id, proof)
        self._node.core.refusals.on_refused[handler] = self.refuse_messages
        self._begin(hello, handler, "peer linked")

    # What `Links` decides.

    @property
    def used(self) -> bool:
        """Whether both sides know of the link: the far side has said something behind HELLO, or has answered it."""
        return self.is_open and (self.dialled or self.session.has_heard)

    def ask(self, token: bytes) -> None:
        """Another link would take the place of this one: see whether the far side is there."""
        self._connection.writer.write([encode_frame(Kind.PING, token)])

    def proceed(self) -> None:
        """The link that this one has waited for does not answer, or is gone."""
        if not self.session.closed and not self._connection.transport.is_closing():
            self.session.release()
            if self._may_link(rights_of(self._node, self._connection)):  # there may be another policy by now
                self._join(cast("Hello", self.session.far))
            self._connection.go_on()

    def refuse(self, code: int, text: str) -> None:
        """Close a link that is one too many. Whoever has dialled learns which hub this is, so as not to ask again."""
        if not self.is_open and not self.dialled and not self.session.closed:
            self.session.send(self._node.hello(link=self._link_id).encode())
        self._connection.end(code, text)

    def _take_in(self, hello: Hello, role: Role, limits: QueueLimits) -> Handler:
        """Make the handler of the far side."""
        connection = self._connection
        handler = Handler(
            connection.writer,
            role=role,
            limits=limits,
            name=hello.name,
            address=connection.address,
            poster=connection.writer,
            frame_limit_bytes=hello.frame,
            rights=rights_of(self._node, connection),
        )
        handler.narrows = handler.narrows or hello.narrow
        connection.join(handler)
        return handler

    def _begin(self, hello: Hello, handler: Handler, what: str) -> None:
        """Do from now on what the far side asks for."""
        self._verbs = Verbs(self._node, handler, WireFarSide(self.session, self._connection.writer, hello.frame))
        self._connection.charging.begin()
        self._connection.opened()
        self._node.log.info(
            what,
            address=self._connection.address,
            name=hello.name,
            software=hello.software,
            overflow=handler.limits.overflow.value,
        )

    # What the handler writes.

    def _fit(self, batches: list[Batch]) -> list[bytes]:
        """Return batches in frames that the far side takes; tell what is lost where it would have stood."""
        frames: list[bytes] = []
        for piece in fitting(batches, self._far_frame_limit):
            if isinstance(piece, Batch):
                frames.append(piece.frames)
            else:
                self._connection.writer.lose(piece)
                frames.append(self.render_gap(piece))
        return frames

    def render_items(self, items: list[Item]) -> list[bytes]:
        """Return requests and replies as frames."""
        return render_items(items) if self._shared is None else self._shared.render_items(items)

    def render_gap(self, lost_messages: int) -> bytes:
        """Tell the far side how many of its messages were lost."""
        return encode_notice(Notice("dropped", count=lost_messages))

    def write_more(self) -> None:
        """Tell the far side what waited until it reads on."""
        if self._verbs is not None:
            self._verbs.write_more()
        if self._link is not None:
            self._link.write_more()

    # Ends.

    def ping(self) -> None:
        """Ask for a sign of life; whoever does not read may still be heard publishing."""
        self.session.send(encode_frame(Kind.PING, b""))

    def time_out(self) -> None:
        """No HELLO has come."""
        text = f"no HELLO within {self._node.settings.limits.handshake_s:g} s"
        self._connection.end(CloseCode.PROTOCOL_ERROR, text)

    def drain(self, text: str) -> None:
        """The hub stops."""
        self._connection.end(CloseCode.GOING_AWAY, text)

    def drain_publisher(self, text: str) -> LastMessages[Route] | None:
        """Say CLOSE; unless memory is shared, what the client had sent before it reads that is still to be taken."""
        if self._shared is not None or self._link is not None:
            return None
        return LastMessages(self.session.close_but_hear(CloseCode.GOING_AWAY, text))

    def close(self, code: int, text: str) -> str:
        """Say CLOSE."""
        if self._link is not None:
            self._link.tell_last()
        self.session.close(code, text)
        return f"{text} ({int(code)})"

    def leave(self, reason: str) -> None:
        """Do nothing more for the far side that can be left; then another link may take the place of this one."""
        node, handler = self._node, self._connection.handler
        if self._link is not None:
            self._link.leave()
        if self._verbs is not None:
            self._verbs.close()
        if self._shared is not None:
            self._shared.close()
        if handler is not None:
            node.core.detach(handler, reason)
        far = self.session.far
        if far is not None and far.role == "hub" and node.links.remove(far.id, self):
            node.departures.tell()

    def conclude(self) -> None:
        """Tell what of this hub's messages has not arrived, and let go of the far side."""
        if self._link is not None:
            self._link.conclude(in_order=self._has_eof and self.session.closed and not self.session.has_crossed)
        self._verbs = self._shared = self._share = self._link = None  # they know this conversation
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
