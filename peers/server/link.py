"""`Link`: a link to a peer hub, from the moment in which it is taken in.

```
core.mesh ─▶ tell: changes merge in the mesh ─ end of the turn, while the peer reads ─▶ ROUTING, in portions
batches:  [origin A][origin A][origin B]  ─▶  ROUTING, ORIGIN A, frames, frames, ORIGIN B, frames
once a second where messages arrived, and before CLOSE ─▶ ACCOUNT     every 5 s ─▶ PING, to measure the lag
before the proof of this side ends                     ─▶ TOKEN
```

`peers.server.links` decides which of two links to one hub stays; `peers.server.traffic` explains accounts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Final

from hub.errors import RejectedError
from hub.handlers.handler import Handler
from hub.limits import LINK_COST, Overflow
from hub.mesh.announcement import Digest, Told, Wanted
from hub.mesh.mesh import Mesh
from hub.messages.batch import Batch
from hub.messages.frame import Origin, encode_frame
from hub.messages.request_frame import Item
from hub.routing.routes import Route
from hub.settings.keys import ConfigError
from peers.server.server import Server, connection_of
from peers.server.traffic import Carried, EndedLink, Moment, Peer, Remembered
from peers.wire.control import Account, Notice, Renewal, encode_account, encode_origin, encode_token
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.routing import AnnouncementPart, Assembly, encode_routing
from peers.wire.session import Session

_ACCOUNT_EVERY_S: Final = 1.0  # Messages sent within this interval are in doubt when the link is cut
PING_EVERY_S: Final = 5.0
_MARKS: Final = 60  # One a second: a message that waits for longer counts as waiting for a minute
_TOKEN_BYTES: Final = 4  # `peers.server.links` sends PINGs with tokens of another length
_TOKEN_MASK: Final = (1 << 8 * _TOKEN_BYTES) - 1
_RENEWED_AFTER: Final = 0.8  # Part of a proof's time after which it is renewed: a fifth is left for failures
_AGAIN_AFTER: Final = 0.5  # Part of the rest after which renewal is tried again
_LEAST_S: Final = 1.0  # Between two attempts
PORTIONS_PER_TURN: Final = 4  # Bounds a turn, so that a link that comes up does not hold up the rest
_FRAMES_PER_PORTION: Final = 8  # Of 1,000 prefixes at most each: 10 ms

_origin = attrgetter("origin")


class Lag:
    """How late a link is: the round trip of a PING, and how long the oldest message has waited. Times are seconds.

    A PING is sent on busy links, too: it stands behind all that was written before, so that its round trip is that of a
    message. While an answer is awaited, the lag is at least as long as that takes.
    """

    def __init__(self, overflow: Overflow) -> None:
        # Dropped messages have left the queue where the oldest go; the newest have never been in it.
        self._drops_oldest = overflow is Overflow.DROP_OLDEST
        self._number = 0
        self._asked_s: float | None = None  # When the unanswered PING was sent
        self._due_s = 0.0
        # When the queue was looked at, and how many messages had been put into it by then, while any of them is in it.
        self._marks: deque[tuple[float, int]] = deque(maxlen=_MARKS)
        self.round_trip_s: float | None = None  # None before the first answer

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
    """The token of a link that this hub has dialled, renewed before it ends; `read` may raise a `ConfigError`."""

    def __init__(self, read: Callable[[], str], on_error: Callable[[str], None]) -> None:
        self._read = read
        self._on_error = on_error
        self._ends_s = self._due_s = math.inf  # By the clock of the loop
        self._last = 0  # The number of the last TOKEN

    def hold(self, left_s: float | None, now_s: float) -> None:
        """Note how long the proof holds, None for ever."""
        if left_s is None:
            self._ends_s = self._due_s = math.inf
        else:
            self._ends_s = now_s + left_s
            self._due_s = now_s + max(_LEAST_S, left_s * _RENEWED_AFTER)

    def is_last(self, number: int) -> bool:
        return number == self._last > 0

    def next(self, now_s: float) -> bytes:
        """Return the TOKEN frame to send now; empty if it is not time for one."""
        if now_s < self._due_s or now_s >= self._ends_s:
            return b""
        self._due_s = now_s + max(_LEAST_S, (self._ends_s - now_s) * _AGAIN_AFTER)
        try:
            token = self._read()
        except ConfigError as error:
            self._on_error(str(error))
            return b""
        if not token:
            return b""
        self._last += 1
        return encode_token(Renewal(self._last, token))


class MeshNews:
    """News of the mesh for one link, and the messages that are written on it with their origins.

    News stand in front of the messages that were routed by them, except for more than a turn's work: otherwise the peer
    might not know yet where the messages go on, and they would be lost. `fit` returns batches as frames that the peer
    takes; None where it takes them as they came.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- both ends of it
        self,
        mesh: Mesh[Handler],
        link: Handler,
        limit_bytes: int,
        later: Callable[[Callable[[], object]], object],
        write: Callable[[list[bytes]], object],
        fit: Callable[[list[Batch]], list[bytes]] | None,
    ) -> None:
        self._mesh, self._link, self._limit_bytes = mesh, link, limit_bytes
        self._later, self._write, self._fit = later, write, fit
        self.is_due = False  # From `tell` until the mesh has no news
        self._is_awaited = False  # `write_more` will be called after this turn
        self._rest: Iterator[bytes] | None = None  # Taken from the mesh and not written yet
        self._said: Origin | None = None  # The last ORIGIN, which the peer takes for that of the next message
        # Bytes that the handler has not counted: ORIGIN, news in front of messages, heads of requests and replies;
        # less the messages that were too large for the peer.
        self.beside_bytes = 0

    def tell(self) -> None:
        """The mesh has news."""
        self.is_due = True
        self._write_later()

    def _write_later(self) -> None:
        if not self._is_awaited:
            self._is_awaited = True
            self._later(self.write_more)

    def write_more(self) -> None:
        """Write news while the peer reads: a turn's portions, the rest in the next turn."""
        self._is_awaited = False
        for _ in range(PORTIONS_PER_TURN):
            if not (self.is_due and self._link.writable):
                return
            portion = self.take()
            if portion:
                self._write([portion])
        if self.is_due:
            self._write_later()

    def take(self) -> bytes:
        """Return the next portion; empty if there are no news any more."""
        while self.is_due:
            if self._rest is None:
                news = self._mesh.take(self._link)
                self.is_due = bool(news)
                self._rest = chain.from_iterable(map(self._encoded, news))
            portion = b"".join(islice(self._rest, _FRAMES_PER_PORTION))
            if portion:
                return portion
            self._rest = None
        return b""

    def _encoded(self, told: Told) -> Iterable[bytes]:
        if isinstance(told, Origin):
            self._said = told
            return [encode_origin(told)]
        return encode_routing(told, self._limit_bytes)

    def post(self, items: list[Item], frames: list[bytes]) -> list[bytes]:
        """Count and return the frames of requests and replies that are about to be written."""
        self.beside_bytes += sum(map(len, frames)) - sum(item.size_bytes for item in items)
        return frames

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches as frames, with ORIGIN where it changes."""
        fit = self._fit
        if len(batches) == 1 and batches[0].origin is self._said and not self.is_due and fit is None:  # most often
            return [batches[0].frames]
        frames = list(islice(iter(self.take, b""), PORTIONS_PER_TURN))
        for origin, some in groupby(batches, _origin):
            if origin != self._said:
                frames.append(encode_origin(origin))
                self._said = origin
            same = list(some)
            frames += [batch.frames for batch in same] if fit is None else fit(same)
        self.beside_bytes += sum(map(len, frames)) - sum(batch.frames_bytes for batch in batches)
        return frames


class Link:
    """One link; attaches the handler of the peer to the core. `proof` is None where the peer has dialled."""

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
        self.confirmed = 0  # Messages of this hub that have arrived, by the peer's last account
        self._told_arrived = 0  # Messages of the peer that have arrived, by this hub's last account
        self._missed = 0  # Messages for this hub that the peer has dropped
        self._is_settled = False  # The peer has sent its last account, and says CLOSE next
        self._ended: Remembered | None = None  # The account of this link, from its end on
        self.due_s = -1  # kept by the wheel of deadlines
        for account in server.accounts.former(hello.id):
            session.send(encode_account(account))
        server.keepalive.watch(self, now_s + _ACCOUNT_EVERY_S)
        server.core.attach(handler)
        self.news = MeshNews(server.core.mesh, handler, hello.frame, server.after_turn, write, fit)
        server.core.link(handler, hello.id, self.news.tell, cost=cost)
        server.traffic.begin(self, now_s)

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
        """Take an account of this link, or of one that has ended."""
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

    def check(self, now_s: float) -> float:
        """Send an account, a fresh token and a PING, each if it is time for that; return when to look again."""
        handler = self.handler
        if self._arrived != self._told_arrived and handler.writable:
            self._write([self._account(last=False)])
        if self._proof is not None and (frame := self._proof.next(now_s)):
            self._write([frame])
        self._report_overtaken()
        self._lag.look(handler.delivered_messages, handler.dropped_messages, handler.queued_messages, now_s)
        if handler.writable and (token := self._lag.ask(now_s)):
            self._write([encode_frame(Kind.PING, token)])
        return now_s + _ACCOUNT_EVERY_S

    @property
    def _arrived(self) -> int:
        """Messages of the peer that have arrived; refused ones included."""
        return self.handler.published_messages + self._session.rejected_messages

    def _account(self, *, last: bool) -> bytes:
        self._told_arrived = self._arrived
        return encode_account(Account(self._id, self.handler.offered_messages, self._told_arrived, last))

    def _report_overtaken(self) -> None:
        overtaken = self._server.core.mesh.take_overtaken(self.handler)
        if overtaken:
            self._server.accounts.overtake(self.peer, overtaken)

    def carried(self) -> Carried:
        handler = self.handler
        return Carried(
            received_messages=self._arrived,
            received_bytes=connection_of(handler).read_bytes - self._read_before_bytes,
            sent_messages=handler.delivered_messages,
            sent_bytes=handler.delivered_bytes + self.news.beside_bytes,
            queue_full=handler.dropped_messages - handler.unreadable_messages,
            too_large=handler.unreadable_messages,
            path_changes=self._server.core.mesh.upstreams.moves(handler),
        )

    def moment(self, now_s: float) -> Moment:
        handler, mesh = self.handler, self._server.core.mesh
        queued = handler.queued_messages
        return Moment(
            queued_messages=queued,
            waiting_s=self._lag.waiting_s(handler.delivered_messages, handler.dropped_messages, queued, now_s),
            lag_s=self._lag.lag_s(now_s),
            cost=mesh.graph.links[mesh.hub].get(self.peer.hub),
        )

    def tell_last(self) -> None:
        """CLOSE follows, or the peer has sent it; this side reads no more."""
        if self._ended is None:
            self._session.send(self._account(last=True))

    def leave(self) -> None:
        """Count the messages that are lost with the link. Must be called before the handler is detached; idempotent."""
        if self._ended is not None:
            return
        self._server.keepalive.forget(self)
        self._report_overtaken()
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
        self.news.is_due = False
        if self._ended is not None:
            self._server.accounts.conclude(self._ended)
