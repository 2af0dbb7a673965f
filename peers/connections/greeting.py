"""`Greeting`: how a conversation in the hub's own protocol opens: from HELLO to a client, or to a link.

```
HELLO ─▶ who is it? ─▶ may it link? ─▶ has its user a place? ─▶ handler, HELLO in return, Verbs
              │               │                │           └─▶ a hub: is it linked already? ─┬─ no  ─▶ Link
              └─ turned away  └─── refused ────┘                                             └─ perhaps ─▶ wait
```

Owner: one `TcpConversation`, which is told what its far side has become. Invariants: nobody is told HELLO before he has
a place, or he would come back at once; a peer hub is taken in once `Links` has decided that this link stands.

Cost: per connection, about 100 µs. Not here: what the far side asks for then (`peers.connections.tcp`), who it is
(`peers.connections.door`), which of two links to one hub stays (`peers.node.links`), what a peer hub is told
(`peers.links.link`).
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec

from hub.delivery import Role
from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.frame import encode_frame
from hub.handler import Handler
from hub.limits import LINK_COST
from hub.overflow import QueueLimits
from hub.policy.policy import Rights
from hub.settings.config import ConfigError
from hub.topics import printable
from peers.connections.door import enter, own_token, rights_of, take_place
from peers.links.link import Link
from peers.links.proof import LinkProof
from peers.transport.transport import keep_little_unsent
from peers.verbs.verbs import Verbs
from peers.verbs.wire_far_side import WireFarSide
from peers.wire.account import LINK_ID_BYTES
from peers.wire.hello import SOFTWARE_CHARACTERS, Hello, grant
from peers.wire.kinds import Kind

if TYPE_CHECKING:
    from peers.connections.connection import Connection
    from peers.connections.tcp import TcpConversation
    from peers.node.node import Node

__all__ = ["Greeting"]


_ONE_HOP = "peer linked, for one hop only: its version knows no mesh"


class Greeting:
    """Of one conversation; also a `peers.node.links.Link`.

    Args:
        node: The hub.
        queue: Queue of the far side if it has no wish.
        conversation: What opens.
        connection: That carries it.
        dialled: Whether this side has connected, to link with a peer hub.
        trusted: Whether the far side is a process of this hub's own, which need not show who it is.
        cost: What a link costs in the mesh; None where that is not said.
    """

    __slots__ = (
        "_connection",
        "_conversation",
        "_cost",
        "_link_id",
        "_node",
        "_queue",
        "_trusted",
        "dialled",
    )

    def __init__(  # noqa: PLR0913 -- what is known of a far side is told at once
        self,
        node: Node,
        queue: QueueLimits,
        conversation: TcpConversation,
        connection: Connection,
        *,
        dialled: bool,
        trusted: bool,
        cost: int | None,
    ) -> None:
        self._node = node
        self._queue = queue
        self._conversation = conversation
        self._connection = connection
        self.dialled = dialled
        self._trusted = trusted
        self._cost = LINK_COST if cost is None else cost
        self._link_id = secrets.token_bytes(LINK_ID_BYTES) if dialled else b""
        """The id of the link, chosen by whoever has dialled; empty for a client, and if a peer tells no accounts."""

    def introduce(self) -> None:
        """Say HELLO to a hub that this one has dialled, with what it shows there."""
        connection = self._connection
        try:
            token = own_token(self._node)
        except ConfigError as error:  # the far hub is not told about files
            connection.reason = str(error)
            connection.abort()
        else:
            self._conversation.session.send(self._node.hello(link=self._link_id, token=token).encode())

    def greet(self, hello: Hello) -> None:
        """The far side has said who it is: take it in, refuse it, or let it wait."""
        if self.dialled and hello.role == "client":
            self._connection.end(CloseCode.PROTOCOL_ERROR, "a peer must be a hub, the far side is a client")
        elif not (self.dialled or self._trusted or self._recognise(hello)):
            return
        elif hello.role == "hub":
            self._greet_hub(hello)
        else:
            self._greet_client(hello)

    # May it come in?

    def _recognise(self, hello: Hello) -> bool:
        """Return whether the far side is somebody who may come in; otherwise it is turned away."""
        try:
            rights = enter(self._node, self._connection, hello.token)
        except NotRecognisedError as error:
            self._conversation.session.hold()
            self._connection.turn_away(error)
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

    # It is taken in.

    def _greet_client(self, hello: Hello) -> None:
        """Take a client in, and tell it what it was granted."""
        node, conversation = self._node, self._conversation
        if hello.origins:
            conversation.tell_client_origins()
        shared = conversation.share_memory(hello.frame) if hello.shared else None
        limits = grant(hello.queue, self._queue, node.settings.queue_max.messages, node.settings.queue_max.bytes)
        handler = self._take_in(hello, Role.CLIENT, limits)
        introduction = node.hello(limits, self._link_id, until_s=self._connection.proof_left_s())
        if hello.origins:
            introduction = msgspec.structs.replace(introduction, origins=True)
        if shared is not None:
            handler.take_shared()
            introduction = msgspec.structs.replace(introduction, shared=shared.offered_bytes)
        conversation.session.send(introduction.encode())
        node.core.attach(handler)
        if shared is not None and handler.share is not None:
            shared.charge(handler.share)
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
            self._conversation.session.hold()
            self._connection.hold(node.settings.limits.handshake_s)

    def _join(self, hello: Hello) -> None:
        """Be the link to a peer hub: tell it what is wanted of it."""
        node, conversation, connection = self._node, self._conversation, self._connection
        handler = self._take_in(hello, Role.LINK, self._queue)
        keep_little_unsent(connection.transport)
        if not self.dialled:
            left_s = connection.proof_left_s()
            conversation.session.send(node.hello(self._queue, self._link_id, until_s=left_s).encode())
        proof = LinkProof(partial(own_token, node), self._tell_unread) if self.dialled else None
        write, link_id = connection.write, self._link_id
        link = Link(
            node,
            handler,
            conversation.session,
            write,
            lambda: connection.read_bytes,
            hello,
            link_id,
            proof,
            cost=self._cost,
        )
        conversation.link = link
        if link.news is not None:
            link.onward = conversation.tell_origins(link.news)
        self._begin(hello, handler, "peer linked" if hello.mesh else _ONE_HOP)

    def _tell_unread(self, reason: str) -> None:
        """There is no token to be shown afresh."""
        self._node.log.warning("no fresh token for a peer", address=self._connection.address, reason=reason)

    def _take_in(self, hello: Hello, role: Role, limits: QueueLimits) -> Handler:
        """Make the handler of the far side."""
        connection = self._connection
        handler = Handler(
            connection,
            role=role,
            limits=limits,
            name=hello.name,
            address=connection.address,
            poster=connection,
            frame_limit_bytes=hello.frame,
            rights=rights_of(self._node, connection),
        )
        handler.narrows = handler.narrows or hello.narrow
        handler.is_inner = self._trusted
        connection.join(handler)
        return handler

    def _begin(self, hello: Hello, handler: Handler, what: str) -> None:
        """Do from now on what the far side asks for."""
        node, conversation, connection = self._node, self._conversation, self._connection
        node.core.refusals.on_refused[handler] = conversation.refuse_messages
        far_side = WireFarSide(conversation.session, connection, hello.frame)
        conversation.be_asked(Verbs(node, handler, far_side))
        connection.charge_user()
        connection.software = hello.software[:SOFTWARE_CHARACTERS]
        connection.opened()
        node.log.info(
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
        conversation = self._conversation
        return conversation.is_open and (self.dialled or conversation.session.has_heard)

    def ask(self, token: bytes) -> None:
        """Another link would take the place of this one: see whether the far side is there."""
        self._connection.write([encode_frame(Kind.PING, token)])

    def proceed(self) -> None:
        """The link that this one has waited for does not answer, or is gone."""
        connection, session = self._connection, self._conversation.session
        if not session.closed and not connection.transport.is_closing():
            session.release()
            if self._may_link(rights_of(self._node, connection)):  # there may be another policy by now
                self._join(cast("Hello", session.far))
            connection.go_on()

    def refuse(self, code: int, text: str) -> None:
        """Close a link that is one too many. Whoever has dialled learns which hub this is, so as not to ask again."""
        conversation = self._conversation
        if not conversation.is_open and not self.dialled and not conversation.session.closed:
            conversation.session.send(self._node.hello(link=self._link_id).encode())
        self._connection.end(code, text)
