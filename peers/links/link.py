"""`Link`: what this hub tells a peer hub by itself: what it wants, what is served here, rules and names, and accounts.

```
core: mesh                           ─▶ changes, merged until they are told ─▶ ROUTING
core: services, rules, names         ─▶ the same                            ─▶ SERVE, RULE, NAMES
core: filter, for hubs without mesh  ─▶ the same                            ─▶ SUBSCRIBE
every few seconds, also on a busy link                                      ─▶ PING, to see how late it is
handler: messages sent and arrived   ─▶ once a second where some arrived, and before CLOSE ─▶ ACCOUNT
```

Owner: one connection, from the moment in which the peer's link stands. Invariant: replaying what was told gives what
the core holds, but for what the peer has refused for now, which is told again later; while the peer does not read,
changes wait and merge, and `write_more` tells them.

Not here: what the peer asks this hub (`peers.verbs`), which of two links to one hub stays (`peers.node.links`), what
accounts are for (`peers.node.accounts`).
"""

from __future__ import annotations

from collections.abc import Callable

from hub.errors import CloseCode, RejectedError
from hub.frame import encode_frame
from hub.handler import Handler
from hub.limits import LINK_COST
from hub.mesh.announcement import Digest, Wanted
from hub.origin import Origin
from hub.routes import Route
from peers.links.announcement import Announcement
from peers.links.lag import Lag
from peers.links.mesh_news import MeshNews
from peers.links.names import LinkNames
from peers.links.onward import Onward
from peers.links.outbox import Outbox
from peers.links.proof import LinkProof
from peers.links.rules import LinkRules
from peers.node.accounts import EndedLink, Peer, Remembered
from peers.node.node import Node
from peers.node.traffic import Carried, Moment
from peers.wire.account import Account, encode_account
from peers.wire.control import Notice
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.routing import AnnouncementPart, Assembly
from peers.wire.session import Session

__all__ = ["Link"]

_TELL_EVERY_S = 1.0
"""How often the peer is told how many of its messages have arrived, seconds. What it sent in this time is in doubt when
the link is cut."""


class Link:
    """What one peer hub is told.

    Args:
        node: This hub.
        handler: Of the peer; attached here.
        session: Of the link.
        write: Writes frames behind what the session has to say.
        read_bytes: Returns how much has come from the peer.
        hello: What the peer has said of itself.
        link_id: Of this link, if both sides know it; empty where the peer tells no accounts.
        proof: What this hub shows to the peer; None where the peer has dialled.
        cost: What this side says that the link costs in the mesh.
    """

    __slots__ = (
        "_assembly",
        "_ended",
        "_id",
        "_is_settled",
        "_lag",
        "_missed",
        "_node",
        "_outbox",
        "_proof",
        "_read_before_bytes",
        "_read_bytes",
        "_session",
        "_told_arrived",
        "_write",
        "confirmed",
        "due_s",
        "handler",
        "news",
        "onward",
        "peer",
    )

    handler: Handler
    """What it is to the core."""

    peer: Peer
    """The hub at the far side."""

    confirmed: int
    """How many of this hub's messages have arrived, as the peer has told last."""

    _told_arrived: int
    """How many of the peer's messages have arrived, as it was told last."""

    _missed: int
    """How many of its messages the peer has dropped, as it has told."""

    _is_settled: bool
    """Whether the peer has told how many have arrived and reads no more: it says CLOSE next. Never false again."""

    onward: Onward | None
    """What it is told of the origins of messages, set by whoever writes them; None if it is no part of a mesh."""

    news: MeshNews | None
    """What the peer is told of the mesh; None for a hub that is no part of it."""

    _ended: Remembered | None
    """The account of this link from its end on; None before."""

    def __init__(  # noqa: PLR0913, PLR0917 -- what is known of a peer is told at once
        self,
        node: Node,
        handler: Handler,
        session: Session[Route],
        write: Callable[[list[bytes]], object],
        read_bytes: Callable[[], int],
        hello: Hello,
        link_id: bytes,
        proof: LinkProof | None = None,
        *,
        cost: int = LINK_COST,
    ) -> None:
        self._node = node
        self.handler = handler
        self.onward = None
        self._session = session
        self._write = write
        self._read_bytes = read_bytes
        self._read_before_bytes = read_bytes()  # HELLO, most of all
        self.peer = Peer(hello.id, hello.name, handler.address)
        self._id = link_id
        self._proof = proof
        if proof is not None:
            proof.hold(hello.until, node.loop.time())
        self._lag = Lag(handler.limits.overflow)
        self._assembly = Assembly(node.settings.limits.prefixes_per_peer)
        self.confirmed = self._told_arrived = self._missed = 0
        self._is_settled = False
        self._ended = None
        self.news = None
        self.due_s = -1  # kept by the wheel of deadlines
        if link_id:
            for account in node.accounts.former(hello.id):
                session.send(encode_account(account))
        node.keepalive.watch(self, node.loop.time() + _TELL_EVERY_S)
        limit_bytes = hello.frame
        outbox = self._outbox = Outbox(handler, node.after_turn, write)
        if hello.mesh:
            node.core.attach(handler)
            self.news = MeshNews(outbox.due, limit_bytes, node.core.mesh, handler)
            node.core.link(handler, hello.id, self.news.tell, cost=cost)
        else:
            self._tell_directly(handler, hello)
        node.traffic.begin(self, node.loop.time())

    def _tell_directly(self, handler: Handler, hello: Hello) -> None:
        """Tell a hub that is no part of a mesh what is wanted and served here."""
        core, outbox, limit_bytes = self._node.core, self._outbox, hello.frame
        wanted = Announcement(outbox.due, limit_bytes, outbox.numbers, tells_of_itself=True)
        rules = LinkRules(outbox.due, limit_bytes, outbox.numbers)
        services = Announcement(outbox.due, limit_bytes, outbox.numbers, (Kind.SERVE, Kind.UNSERVE))
        names = LinkNames(outbox.due, limit_bytes, outbox.numbers, self._node.log)
        for part in (wanted, rules, services, names):
            outbox.add(part)
        core.attach(handler, wanted.change)
        core.rules.tell(handler, rules.change)
        core.requests.tell(handler, services.change)
        core.names.link(handler, hello.id, names.change)

    def write_more(self) -> None:
        """Tell what was put off: the peer reads again."""
        self._outbox.write_more()

    # What the peer answers.

    def confirm(self, notice: Notice) -> None:
        """The peer has taken what it was told, or a fresh token."""
        if self._proof is not None and self._proof.is_last(notice.request):
            self._proof.hold(notice.until, self._node.loop.time())
        else:
            self._outbox.confirm(notice.request)

    def refuse(self, notice: Notice) -> bool:
        """The peer has refused something; return whether it is told that again later."""
        for_now = notice.code == CloseCode.TRY_AGAIN_LATER
        again = self._outbox.refuse(notice.request, self._node.loop.time(), for_now=for_now) and for_now
        self._node.accounts.refused += again
        return again

    # The mesh.

    def hear_of_mesh(self, told: AnnouncementPart | Digest | Wanted | Origin) -> None:
        """The peer tells what it knows of the mesh; of what cannot be taken it is told why."""
        mesh = self._node.core.mesh
        left_out_before = mesh.left_out
        try:
            whole = self._assembly.add(told) if isinstance(told, AnnouncementPart) else told
            if whole is not None:
                self._node.core.hear_of_mesh(self.handler, whole)
        except RejectedError as error:
            self._session.reject(error)
        left_out = mesh.left_out - left_out_before
        if left_out and isinstance(told, AnnouncementPart):
            self._node.tell_surplus(told.hub, mesh.records[told.hub].name, left_out)

    def hear_answer(self, body: bytes) -> bool:
        """The peer answers a PING; return False if it is none that stood behind news of the mesh."""
        return self.news is not None and self.news.confirm(body)

    # Accounts.

    @property
    def _arrived(self) -> int:
        """How many of the peer's messages have arrived; those that are refused here, too."""
        return self.handler.published_messages + self._session.rejected_messages

    def check(self, now_s: float) -> float:
        """Tell how many messages have arrived, show a fresh token, and tell again what the peer had no room for.

        Each if it is time for that; and tell people what the mesh has overtaken. Return when to look again.
        """
        if self._id and self._arrived != self._told_arrived and self.handler.writable:
            self._write([self._account(last=False)])
        if self._proof is not None and (frame := self._proof.next(now_s, self._outbox.numbers)):
            self._write([frame])
        self._outbox.check(now_s)
        self._tell_overtaken()
        self._measure(now_s)
        return now_s + _TELL_EVERY_S

    def _tell_overtaken(self) -> None:
        """Tell people of messages that have come by this link and are lost here, as the mesh has overtaken them."""
        overtaken = self._node.core.mesh.traffic.take_overtaken(self.handler)
        if overtaken:
            self._node.accounts.overtake(self.peer, overtaken)

    # How it does.

    def _measure(self, now_s: float) -> None:
        """See how late the link is."""
        handler = self.handler
        self._lag.look(handler.delivered_messages, handler.dropped_messages, handler.queued_messages, now_s)
        if handler.writable and (token := self._lag.ask(now_s)):
            self._write([encode_frame(Kind.PING, token)])

    def answer(self, token: bytes) -> None:
        """The peer has answered a PING."""
        self._lag.answer(token, self._node.loop.time())

    def carried(self) -> Carried:
        """Return what the link has carried."""
        handler = self.handler
        return Carried(
            received_messages=self._arrived,
            received_bytes=self._read_bytes() - self._read_before_bytes,
            sent_messages=handler.delivered_messages,
            sent_bytes=handler.delivered_bytes + (0 if self.onward is None else self.onward.beside_bytes),
            queue_full=handler.dropped_messages - handler.unreadable_messages,
            too_large=handler.unreadable_messages,
            path_changes=self._node.core.mesh.traffic.upstreams.moves(handler),
        )

    def moment(self, now_s: float) -> Moment:
        """Return how the link stands."""
        handler, mesh = self.handler, self._node.core.mesh
        queued = handler.queued_messages
        return Moment(
            queued_messages=queued,
            waiting_s=self._lag.waiting_s(handler.delivered_messages, handler.dropped_messages, queued, now_s),
            lag_s=self._lag.lag_s(now_s),
            cost=mesh.graph.links[mesh.hub].get(self.peer.hub),
        )

    def _account(self, *, last: bool) -> bytes:
        self._told_arrived = self._arrived
        return encode_account(Account(self._id, self.handler.offered_messages, self._told_arrived, last))

    def tell_last(self) -> None:
        """This side says CLOSE next, or has read that of the peer, and reads no more: tell what has arrived."""
        if self._id and self._ended is None:
            self._session.send(self._account(last=True))

    def hear(self, account: Account) -> None:
        """The peer tells of this link, or of one that has ended."""
        if account.link != self._id or (self._ended is not None and account.last):
            self._node.accounts.hear(self.peer.hub, account)
        elif self._ended is not None:
            return  # not its last word: it reads on
        elif not self._is_settled:
            self.confirmed = min(account.arrived, self.handler.delivered_messages)
            self._is_settled = account.last

    def miss(self, messages: int) -> None:
        """The peer has dropped messages that were for this hub."""
        self._missed += messages
        self._node.accounts.miss(self.peer, messages)

    def leave(self) -> None:
        """The link is over: count what is lost with it. To be called before the handler is detached; once or more."""
        if self._ended is not None:
            return
        self._node.keepalive.forget(self)
        self._tell_overtaken()
        self._node.traffic.end(self, self._node.loop.time())
        handler = self.handler
        ended = EndedLink(
            link=self._id,
            peer=self.peer,
            offered=handler.offered_messages,
            sent=handler.delivered_messages,
            arrived=self._arrived,
            missed=self._missed,
            waiting=handler.held_messages,
            confirmed=self.confirmed,
            is_settled=self._is_settled,
        )
        self._ended = self._node.accounts.end(ended, self._node.loop.time())

    def conclude(self, *, in_order: bool) -> None:
        """The socket is closed.

        Args:
            in_order: Whether the stream has ended behind the CLOSE of this side, and the peer has said none.
        """
        self._outbox.close()
        if self._ended is not None:
            self._node.accounts.conclude(self._ended, in_order=in_order)
