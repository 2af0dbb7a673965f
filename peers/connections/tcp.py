"""`TcpConversation`: the hub's own protocol with a client or a peer hub, over TCP or a Unix socket.

```
Session ─▶ Hello               ─▶ Greeting ─▶ a client, or a Link
       └─▶ what is asked for   ─▶ Verbs.act ─▶ core, journal
handler ── render ──▶ MESSAGES frames as they came
```

Purpose: what is said between the first word and the last, and what is written. How a conversation opens is in
`peers.connections.greeting`, its rules are in `peers.wire.session`, what the far side may ask in `peers.verbs`, what a
peer hub is told in `peers.links.link`, values in shared memory in `peers.connections.unix`.

Owner: one `Connection`. Cost: per frame that is no message, and per write. Memory: see docs/performance.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, cast

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.frame import encode_frame
from hub.handler import Handler
from hub.mesh.announcement import Digest, Wanted
from hub.origin import Origin
from hub.overflow import QueueLimits
from hub.quotas.quotas import Share
from hub.request_frame import Item
from hub.routes import Route
from peers.connections.connection import Connection
from peers.connections.door import renew
from peers.connections.greeting import Greeting
from peers.links.link import Link
from peers.links.mesh_news import MeshNews
from peers.links.onward import Onward
from peers.node.node import Node
from peers.verbs.verbs import CHANGES, Verb, Verbs
from peers.wire.account import Account
from peers.wire.control import Notice, encode_notice
from peers.wire.events import Closing, Event, Pong
from peers.wire.hello import MESH_VERSION, Hello
from peers.wire.kinds import Kind
from peers.wire.origin import encode_origin
from peers.wire.oversize import fitting
from peers.wire.routing import AnnouncementPart
from peers.wire.session import Session
from peers.wire.token import Renewal

__all__ = ["SharedValues", "TcpConversation", "ToldOrigins", "render_items", "tcp_connection"]


_COPIED_BYTES = 16 * 1024
"""Values up to this size are joined with their head; larger ones are written beside it."""

_GREETING_EVENTS = 10
"""What it costs to take somebody in: about 100 µs."""


def tcp_connection(  # noqa: PLR0913 -- as a conversation
    node: Node,
    queue: QueueLimits,
    *,
    dialled: bool = False,
    trusted: bool = False,
    address: str = "",
    cost: int | None = None,
) -> Connection:
    """Make a connection that speaks the hub's own protocol.

    Args:
        node: The hub it belongs to.
        queue: Queue that its handler gets if the far side has no wish.
        dialled: Whether this side connects, to link with a peer hub.
        trusted: Whether the far side is a process of this hub's own, which need not show who it is.
        address: Where to, if this side connects, or has made both ends.
        cost: What it costs in the mesh if it is a link; None where that is not said.
    """

    def make(connection: Connection) -> TcpConversation:
        return TcpConversation(node, queue, connection, dialled=dialled, trusted=trusted, cost=cost)

    return Connection(node, make, address=address)


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
    """One far side. See `peers.connections.conversation.Conversation`.

    Args:
        node: The hub.
        queue: Queue of the far side if it has no wish.
        connection: That carries it.
        dialled: Whether this side has connected, to link with a peer hub.
        trusted: Whether the far side is a process of this hub's own, which need not show who it is.
        cost: What it costs in the mesh if it is a link; None where that is not said.
        share: Makes what shares memory with a client that has asked for it, or nothing if that cannot be now; None
            where nothing is shared.
    """

    __slots__ = (
        "_connection",
        "_far_frame_limit",
        "_greeting",
        "_has_eof",
        "_node",
        "_onward",
        "_origins",
        "_share",
        "_shared",
        "_verbs",
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
        node: Node,
        queue: QueueLimits,
        connection: Connection,
        *,
        dialled: bool = False,
        trusted: bool = False,
        cost: int | None = None,
        share: Callable[[TcpConversation, int], SharedValues | None] | None = None,
    ) -> None:
        limits = node.settings.limits
        self._node = node
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
        self._onward: Onward | None = None
        """What a peer hub that is part of the mesh was told of that; None for all others."""
        self._origins: ToldOrigins | None = None
        """What a client was told of where messages have entered the mesh; None for those that have not asked."""
        self._verbs: Verbs | None = None
        """What the far side may ask, from its HELLO on."""
        self.link: Link | None = None
        """What a peer hub is told, once its link stands; None for a client."""
        self._has_eof = False
        """Whether the far side has ended its stream in order."""
        self._greeting: Greeting | None = Greeting(
            node, queue, self, connection, dialled=dialled, trusted=trusted, cost=cost
        )
        """How it opens; None once it is over."""
        self.session: Session[Route] = Session("hub", node.core.routes, limits.frame_bytes, limits.handshake_bytes)
        self.session.mesh = MESH_VERSION

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
        elif self.greeting.dialled:
            self.greeting.introduce()

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
                self._hear_limit(event.frame)
                self.greeting.greet(event)
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
                return 1 + self.verbs.act(cast("Verb", event))  # the session takes no others
        return 1

    def _bring_from(self, origin: Origin) -> None:
        cast("Handler", self._connection.handler).bring_from(origin)
        if origin.hub == self._node.id and self.link is not None:  # others have said that of this hub
            self.link.hear_of_mesh(origin)

    @property
    def greeting(self) -> Greeting:
        """How it opens; only until it is over."""
        return cast("Greeting", self._greeting)

    @property
    def verbs(self) -> Verbs:
        """What the far side may ask; only behind its HELLO."""
        return cast("Verbs", self._verbs)

    # What the greeting learns of the far side.

    def _hear_limit(self, frame_limit_bytes: int) -> None:
        """The far side takes no larger bodies than this."""
        self._far_frame_limit = frame_limit_bytes
        if frame_limit_bytes < self._node.settings.limits.frame_bytes:
            self.render = self.render_plainly = self._fit

    def share_memory(self, frame_limit_bytes: int) -> SharedValues | None:
        """Have values in memory that is shared with a client, who wishes so; return None where that cannot be."""
        if self._share is not None:
            self._shared = self._share(self, frame_limit_bytes)
        if self._shared is not None:
            self.render = self._shared.render
        return self._shared

    def tell_origins(self, news: MeshNews) -> Onward:
        """Tell the far side, a hub of the mesh, where messages have entered it; return what was told."""
        render = self.render_plainly
        onward = self._onward = Onward(None if render is as_they_came else render, news)
        self.render = onward.render
        return onward

    def tell_client_origins(self) -> None:
        """Tell a client, which wishes so, where messages have entered the mesh; before memory is shared with it."""
        self._origins = ToldOrigins(self._node.id, self.render_plainly)
        self.render = self.render_plainly = self._origins.render

    def be_asked(self, verbs: Verbs) -> None:
        """Do from now on what the far side asks for."""
        self._verbs = verbs

    # What the far side says then.

    def _take_notice(self, notice: Notice) -> None:
        """A peer hub has dropped or refused something, or has taken a fresh token."""
        if notice.kind == "dropped":
            cast("Link", self.link).miss(notice.count)
        elif notice.kind == "confirmed":
            cast("Link", self.link).confirm(notice)
        else:
            again = self.link is not None and self.link.refuse(notice)
            address = self._connection.address
            self._node.log.warning("notice from peer", address=address, code=notice.code, text=notice.text, again=again)

    def _take_answer(self, token: bytes) -> None:
        """A peer hub has answered a PING: one that asks whether it is there, how late it is, or stood behind news."""
        self._node.links.answered(self.far_id, self.greeting, token)
        if self.link is not None and not self.link.hear_answer(token):
            self.link.answer(token)

    def _renew(self, renewal: Renewal) -> None:
        """The far side shows a fresh token."""
        if self.greeting.dialled:  # it is this side that shows something
            refusal = RejectedError(CloseCode.NOT_ALLOWED, "TOKEN is for the hub that was dialled")
            self.session.reject(refusal, renewal.request)
            return
        try:
            renew(self._node, self._connection, renewal.token)
        except RejectedError as error:
            self.session.reject(error, renewal.request)
            return
        if renewal.request:
            left_s = self._connection.proof_left_s()
            until = None if left_s == math.inf else max(0.0, left_s)
            self.session.tell(Notice("confirmed", request=renewal.request, until=until))

    def _finish(self, closing: Closing) -> None:
        """The conversation is over."""
        reason = f"{closing.text} ({closing.code})" if closing.text else f"closed with {closing.code}"
        if closing.by_far_side:
            if self.link is not None:
                self.link.tell_last()
            self._connection.finish(reason)
        else:
            self._connection.reason = reason
            self._connection.linger()

    def refuse_messages(self, error: RejectedError, messages: int) -> None:
        """Tell the far side that messages within its runs were not taken."""
        if error.code == CloseCode.NOT_ALLOWED and self._connection.handler is not None:
            self._node.audit.refused(self._connection.handler, "publish", error, messages)
        self.session.rejected_messages += messages
        self.session.refuse(error.code, error.text, messages)

    # What the handler writes.

    def _fit(self, batches: list[Batch]) -> list[bytes]:
        """Return batches in frames that the far side takes; tell what is lost where it would have stood."""
        frames: list[bytes] = []
        for piece in fitting(batches, self._far_frame_limit):
            if isinstance(piece, Batch):
                frames.append(piece.frames)
            else:
                self._connection.lose(piece)
                frames.append(self.render_gap(piece))
        return frames

    def render_origin(self, batch: Batch) -> bytes:
        """Return ORIGIN, where it must stand in front of a batch that is not rendered here; else nothing."""
        return b"" if self._origins is None else self._origins.before(batch)

    def render_items(self, items: list[Item]) -> list[bytes]:
        """Return requests and replies as frames."""
        if self._shared is not None:
            return self._shared.render_items(items)
        pieces = render_items(items)
        return pieces if self._onward is None else self._onward.post(items, pieces)

    def render_gap(self, lost_messages: int) -> bytes:
        """Tell the far side how many of its messages were lost."""
        return encode_notice(Notice("dropped", count=lost_messages))

    def write_more(self) -> None:
        """Tell the far side what waited until it reads on."""
        if self._verbs is not None:
            self._verbs.write_more()
        if self.link is not None:
            self.link.write_more()

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

    def close(self, code: int, text: str) -> str:
        """Say CLOSE."""
        if self.link is not None:
            self.link.tell_last()
        self.session.close(code, text)
        return f"{text} ({int(code)})"

    def leave(self, reason: str) -> None:
        """Do nothing more for the far side that can be left; then another link may take the place of this one."""
        node, handler = self._node, self._connection.handler
        if self.link is not None:
            self.link.leave()
        if self._verbs is not None:
            self._verbs.close()
        if self._shared is not None:
            self._shared.close()
        if handler is not None:
            node.core.detach(handler, reason)
        far = self.session.far
        if far is not None and far.role == "hub" and node.links.remove(far.id, self.greeting):
            node.vacancies.tell()

    def conclude(self) -> None:
        """Tell what of this hub's messages has not arrived, and let go of the far side."""
        if self.link is not None:
            self.link.conclude(in_order=self._has_eof and self.session.closed and not self.session.has_crossed)
        self._greeting = self._verbs = self._shared = self._share = self.link = None  # they know this conversation
        self._origins = self._onward = None
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


# For a client that has asked, ORIGIN in front of messages that have entered the mesh at another hub.


class ToldOrigins:
    """What was said of origins to one client.

    Args:
        hub: The id of this hub.
        render: Returns batches as frames that the client takes.
    """

    __slots__ = ("_hub", "_render", "_said")

    def __init__(self, hub: bytes, render: Callable[[list[Batch]], list[bytes]]) -> None:
        self._hub = hub
        self._render = render
        # The hub that the client takes for the origin of what comes next.
        self._said = hub

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches as frames, with ORIGIN where the hub changes."""
        frames: list[bytes] = []
        start = 0
        for place, batch in enumerate(batches):
            before = self.before(batch)
            if before:
                frames += [*self._render(batches[start:place]), before] if place > start else [before]
                start = place
        return frames + self._render(batches[start:]) if frames else self._render(batches)

    def before(self, batch: Batch) -> bytes:
        """Return what stands in front of a batch, which comes next: ORIGIN, or nothing."""
        origin = batch.origin
        hub = self._hub if origin is None else origin.hub
        if hub == self._said:
            return b""
        self._said = hub
        return encode_origin(Origin(hub, 0 if origin is None else origin.epoch))
