"""`Link`: a link to a peer hub, from the moment in which it is taken in.

```
core.mesh ─▶ news, and messages with their origins (`peers.links.mesh_news`) ─▶ ROUTING, ORIGIN, MESSAGES
once a second where messages arrived, and before CLOSE                      ─▶ ACCOUNT
every few seconds, also on a busy link                                      ─▶ PING, to measure the lag
before what this side has shown ends                                        ─▶ TOKEN
```

`Lag` measures how late the link is, `LinkProof` renews the token of a hub that has dialled. Which of two links to one
hub stays is decided in `peers.server.links`, what accounts are for in `peers.server.accounts`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final

from hub.errors import RejectedError
from hub.handlers.handler import Handler
from hub.limits import LINK_COST, Overflow
from hub.mesh.announcement import Digest, Wanted
from hub.messages.batch import Batch
from hub.messages.frame import encode_frame
from hub.messages.origin import Origin
from hub.routing.routes import Route
from hub.settings.keys import ConfigError
from peers.links.mesh_news import MeshNews
from peers.server.accounts import EndedLink, Peer, Remembered
from peers.server.server import Server, connection_of
from peers.server.traffic import Carried, Moment
from peers.wire.control import Account, Notice, Renewal, encode_account, encode_token
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.routing import AnnouncementPart, Assembly
from peers.wire.session import Session

_TELL_EVERY_S: Final = 1.0
"""Interval of ACCOUNT, seconds. Messages sent in this time are in doubt when the link is cut."""

PING_EVERY_S: Final = 5.0
"""How often a link is measured, seconds: two frames of a few bytes."""

_MARKS: Final = 60
"""How many marks are kept, one a second: a message that waits for longer counts as waiting for a minute."""

_TOKEN_BYTES: Final = 4
"""`peers.server.links` sends PINGs with tokens of another length."""

_TOKEN_MASK: Final = (1 << 8 * _TOKEN_BYTES) - 1

_RENEWED_AFTER: Final = 0.8
"""The part of a proof's time after which it is renewed: a fifth is left for what may go wrong."""

_AGAIN_AFTER: Final = 0.5
"""The part of the rest after which it is tried again."""

_LEAST_S: Final = 1.0
"""Between two attempts, seconds."""


class Lag:
    """How late a link is: the round trip of a PING, and how long the oldest message has waited. Times are seconds.

    A PING is sent on busy links, too: it stands behind all that was written before, so that its round trip is that of a
    message. While an answer is awaited, the lag is at least as long as that takes.
    """

    __slots__ = ("_asked_s", "_drops_oldest", "_due_s", "_marks", "_number", "round_trip_s")

    def __init__(self, overflow: Overflow) -> None:
        # Dropped messages have left the queue where the oldest go; the newest have never been in it.
        self._drops_oldest = overflow is Overflow.DROP_OLDEST
        self._number = 0
        # When the PING was sent that is not answered yet; None if there is none.
        self._asked_s: float | None = None
        self._due_s = 0.0
        # When the queue was looked at, and how many messages had been put into it by then: of those that are in it.
        self._marks: deque[tuple[float, int]] = deque(maxlen=_MARKS)
        # None before the first answer.
        self.round_trip_s: float | None = None

    def ask(self, now_s: float) -> bytes:
        """Return the token of a PING to send now; empty if it is not time for one."""
        if self._asked_s is not None or now_s < self._due_s:
            return b""
        self._asked_s = now_s
        self._due_s = now_s + PING_EVERY_S
        self._number += 1
        return self._token

    @property
    def _token(self) -> bytes:
        return (self._number & _TOKEN_MASK).to_bytes(_TOKEN_BYTES)

    def answer(self, token: bytes, now_s: float) -> None:
        """Take a PONG; one with another token is ignored."""
        if self._asked_s is not None and token == self._token:
            self.round_trip_s = round(now_s - self._asked_s, 6)
            self._asked_s = None

    def lag_s(self, now_s: float) -> float | None:
        """Return how long a PING takes now, at least; None if that is not known yet."""
        awaited_s = 0.0 if self._asked_s is None else now_s - self._asked_s
        if self.round_trip_s is None:
            return awaited_s or None
        return max(self.round_trip_s, awaited_s)

    def look(self, written: int, dropped: int, queued: int, now_s: float) -> None:
        """Note how many messages were written and dropped so far, and are queued now."""
        head = self._head(written, dropped)
        marks = self._marks
        while marks and marks[0][1] <= head:
            marks.popleft()
        tail = head + queued
        if queued and not (marks and marks[-1][1] == tail):
            marks.append((now_s, tail))

    def waiting_s(self, written: int, dropped: int, queued: int, now_s: float) -> float:
        """Return how long the oldest message has waited, to a second; 0 if none waits."""
        head = self._head(written, dropped)
        return next((now_s - at_s for at_s, tail in self._marks if tail > head), 0.0) if queued else 0.0

    def _head(self, written: int, dropped: int) -> int:
        return written + dropped if self._drops_oldest else written


class LinkProof:
    """The token of a link that this hub has dialled, renewed before it ends, so that the link stays.

    A link that has shown a certificate, or nothing, has nothing to renew; the far hub ends it in time.

    Args:
        read: Returns the current token, empty for none; may raise `ConfigError`.
        tell: Told what goes wrong.
    """

    __slots__ = ("_due_s", "_ends_s", "_last", "_read", "_tell")

    def __init__(self, read: Callable[[], str], tell: Callable[[str], None]) -> None:
        self._read = read
        self._tell = tell
        # When the proof ends, and when it is renewed, by the clock of the loop.
        self._ends_s = self._due_s = math.inf
        # The number of the last TOKEN.
        self._last = 0

    def hold(self, left_s: float | None, now_s: float) -> None:
        """Note how long the proof holds, None for ever."""
        if left_s is None:
            self._ends_s = self._due_s = math.inf
        else:
            self._ends_s = now_s + left_s
            self._due_s = now_s + max(_LEAST_S, left_s * _RENEWED_AFTER)

    def is_last(self, number: int) -> bool:
        """Return whether that is the number of the last TOKEN."""
        return number == self._last > 0

    def next(self, now_s: float) -> bytes:
        """Return the TOKEN frame to send now; empty if it is not time for one."""
        if now_s < self._due_s or now_s >= self._ends_s:
            return b""
        self._due_s = now_s + max(_LEAST_S, (self._ends_s - now_s) * _AGAIN_AFTER)
        try:
            token = self._read()
        except ConfigError as error:
            self._tell(str(error))
            return b""
        if not token:
            return b""
        self._last += 1
        return encode_token(Renewal(self._last, token))


class Link:
    """One link.

    Args:
        node: This hub.
        handler: Of the peer; attached here.
        session: Of the link.
        hello: Of the peer.
        link_id: Of this link.
        write: Writes frames behind what the session has to say.
        proof: What this hub shows to the peer; None where the peer has dialled.
        fit: As for `MeshNews`.
        cost: What this side says that the link costs in the mesh.
    """

    __slots__ = (
        "_assembly",
        "_ended",
        "_id",
        "_is_settled",
        "_lag",
        "_missed",
        "_proof",
        "_read_before_bytes",
        "_server",
        "_session",
        "_told_arrived",
        "_write",
        "confirmed",
        "due_s",
        "handler",
        "news",
        "peer",
    )

    def __init__(  # noqa: PLR0913 -- all that is known of a peer
        self,
        server: Server,
        handler: Handler,
        session: Session[Route],
        hello: Hello,
        link_id: bytes,
        *,
        write: Callable[[list[bytes]], object],
        proof: LinkProof | None = None,
        fit: Callable[[list[Batch]], list[bytes]] | None = None,
        cost: int = LINK_COST,
    ) -> None:
        now_s = server.loop.time()
        self._server = server
        self.handler = handler
        self._session = session
        self._write = write
        self._read_before_bytes = connection_of(handler).read_bytes  # HELLO, most of all
        self.peer = Peer(hello.id, hello.name, handler.address)
        self._id = link_id
        self._proof = proof
        if proof is not None:
            proof.hold(hello.until, now_s)
        self._lag = Lag(handler.limits.overflow)
        self._assembly = Assembly(server.settings.limits.prefixes_per_peer)
        # How many of this hub's messages have arrived, as the peer has told last; and of the peer's, as it was told.
        self.confirmed = self._told_arrived = 0
        # How many messages for this hub the peer has dropped.
        self._missed = 0
        # Whether the peer has told how many have arrived, and reads no more: it says CLOSE next.
        self._is_settled = False
        # The account of this link, from its end on.
        self._ended: Remembered | None = None
        self.due_s = -1  # kept by the wheel of deadlines
        for account in server.accounts.former(hello.id):
            session.send(encode_account(account))
        server.keepalive.watch(self, now_s + _TELL_EVERY_S)
        server.core.attach(handler)
        self.news = MeshNews(server.core.mesh, handler, hello.frame, server.after_turn, write, fit)
        server.core.link(handler, hello.id, self.news.tell, cost=cost)
        server.traffic.begin(self, now_s)

    # What the peer says.

    def confirm(self, notice: Notice) -> None:
        """The peer has taken a fresh token."""
        if self._proof is not None and self._proof.is_last(notice.request):
            self._proof.hold(notice.until, self._server.loop.time())

    def hear_of_mesh(self, told: AnnouncementPart | Digest | Wanted | Origin) -> None:
        """Take news of the mesh; a refusal is reported to the peer."""
        mesh = self._server.core.mesh
        left_out_before = mesh.left_out
        try:
            whole = self._assembly.add(told) if isinstance(told, AnnouncementPart) else told
            if whole is not None:
                self._server.core.hear_of_mesh(self.handler, whole)
        except RejectedError as error:
            self._session.reject(error)
        left_out = mesh.left_out - left_out_before
        if left_out and isinstance(told, AnnouncementPart):
            self._server.tell_surplus(told.hub, mesh.records[told.hub].name, left_out)

    def answer(self, token: bytes) -> None:
        """The peer has answered a PING."""
        self._lag.answer(token, self._server.loop.time())

    def hear(self, account: Account) -> None:
        """The peer tells of this link, or of one that has ended."""
        if account.link != self._id or (self._ended is not None and account.last):
            self._server.accounts.hear(self.peer.hub, account)
        elif self._ended is not None:
            return  # not its last word: it reads on
        elif not self._is_settled:
            self.confirmed = min(account.arrived, self.handler.delivered_messages)
            self._is_settled = account.last

    def miss(self, messages: int) -> None:
        """The peer has dropped messages that were for this hub."""
        self._missed += messages
        self._server.accounts.miss(self.peer, messages)

    # Once a second.

    def check(self, now_s: float) -> float:
        """Send an account, a fresh token and a PING, each if it is time for that; return when to look again."""
        handler = self.handler
        if self._arrived != self._told_arrived and handler.writable:
            self._write([self._account(last=False)])
        if self._proof is not None and (frame := self._proof.next(now_s)):
            self._write([frame])
        self._tell_overtaken()
        self._lag.look(handler.delivered_messages, handler.dropped_messages, handler.queued_messages, now_s)
        if handler.writable and (token := self._lag.ask(now_s)):
            self._write([encode_frame(Kind.PING, token)])
        return now_s + _TELL_EVERY_S

    @property
    def _arrived(self) -> int:
        """How many of the peer's messages have arrived; refused ones included."""
        return self.handler.published_messages + self._session.rejected_messages

    def _account(self, *, last: bool) -> bytes:
        self._told_arrived = self._arrived
        return encode_account(Account(self._id, self.handler.offered_messages, self._told_arrived, last))

    def _tell_overtaken(self) -> None:
        overtaken = self._server.core.mesh.traffic.take_overtaken(self.handler)
        if overtaken:
            self._server.accounts.overtake(self.peer, overtaken)

    # Looking at it.

    def carried(self) -> Carried:
        """Return what the link has carried."""
        handler = self.handler
        return Carried(
            received_messages=self._arrived,
            received_bytes=connection_of(handler).read_bytes - self._read_before_bytes,
            sent_messages=handler.delivered_messages,
            sent_bytes=handler.delivered_bytes + self.news.beside_bytes,
            queue_full=handler.dropped_messages - handler.unreadable_messages,
            too_large=handler.unreadable_messages,
            path_changes=self._server.core.mesh.traffic.upstreams.moves(handler),
        )

    def moment(self, now_s: float) -> Moment:
        """Return the state of the link now."""
        handler, mesh = self.handler, self._server.core.mesh
        queued = handler.queued_messages
        return Moment(
            queued_messages=queued,
            waiting_s=self._lag.waiting_s(handler.delivered_messages, handler.dropped_messages, queued, now_s),
            lag_s=self._lag.lag_s(now_s),
            cost=mesh.graph.links[mesh.hub].get(self.peer.hub),
        )

    # Its end.

    def tell_last(self) -> None:
        """This side says CLOSE next, or has read that of the peer, and reads no more: send the last account."""
        if self._ended is None:
            self._session.send(self._account(last=True))

    def leave(self) -> None:
        """Count what is lost with the link; to be called before the handler is detached, once or more."""
        if self._ended is not None:
            return
        self._server.keepalive.forget(self)
        self._tell_overtaken()
        now_s = self._server.loop.time()
        self._server.traffic.end(self, now_s)
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
        self._ended = self._server.accounts.end(ended, now_s)

    def conclude(self) -> None:
        """The socket is closed."""
        self.news.close()
        if self._ended is not None:
            self._server.accounts.conclude(self._ended)
