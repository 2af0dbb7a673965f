"""`Connection`: one socket of the hub, whatever is spoken on it.

```
socket ─ data_received ─▶ session.feed, next_event ─▶ Run, Stretch ─▶ core.publish
                                              └─────▶ all else     ─▶ conversation.act
core ─ Handler.offer ... end_read ─▶ Writer.send ─▶ conversation.render ─▶ one write
```

Purpose: all that does not depend on the protocol. What is read, and why nothing is read, is here, and so is giving
everything back; the rest is in parts, each with a state of its own:

| part | what it decides |
|---|---|
| `Writer` | what is written, and when; it is the outlet of the handler |
| `OwnShare` | how much is done in a turn of the loop, and what waits |
| `Charging` | what the user is charged, and how fast he may be |
| `Watch` | whether it may stay: handshake, proof, signs of life, slow frames |
| `Ending` | draining, the last word, lingering |

It is the last line of defence too: whatever goes wrong in a conversation ends its connection, and nobody else notices.

Owner: the event loop. Invariants: it is read exactly while nothing stands in the way (`peers.connections.reading`); one
write for what a read brought (uvloop makes it one system call for what all reads of a turn brought); once it is over,
neither its conversation nor a part knows it, so that it is freed at once.

Cost: per read, not per message. Not here: what is said (`peers.connections.conversation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from hub.errors import CloseCode
from hub.handler import Handler
from hub.stretch import Run, Stretch
from peers.connections.charging import Charging
from peers.connections.conversation import Conversation, Session
from peers.connections.ended import ENDED, OVER
from peers.connections.ending import Ending
from peers.connections.failure import log_failure
from peers.connections.holding import Holding
from peers.connections.own_share import BYTES_PER_EVENT, REFILL_BELOW, RUNS_PER_EVENT, TURN_EVENTS, OwnShare
from peers.connections.pacing import Pacing
from peers.connections.reading import (
    BARRED,
    ELSEWHERE,
    JOURNAL,
    KEPT_OUT,
    NOTHING,
    PUT_OFF,
    UNACTED,
    UNANSWERED,
)
from peers.connections.unread import arrived_bytes
from peers.connections.watch import Watch
from peers.connections.writer import Writer
from peers.node.node import HUB_STOPS, Node
from peers.transport.transport import NO_TRANSPORT, far_address
from peers.users.identity import Identity
from peers.wire.scanner import NEED_DATA

__all__ = ["Connection"]

_SECURE = {"tcp": "tls", "ws": "wss", "http": "https"}
"""What is said in place of a scheme where TLS is beneath it."""


class Connection(asyncio.Protocol):
    """One socket.

    Args:
        node: The hub it belongs to.
        make: Makes what it carries; called once, with this connection.
        address: Where to, if this side has dialled.
    """

    __slots__ = (
        "_core",
        "_is_dialled",
        "_liveness",
        "_now_s",
        "_times",
        "address",
        "after_read",
        "charging",
        "conversation",
        "ending",
        "handler",
        "has_acted",
        "has_joined",
        "holding",
        "identity",
        "is_given_back",
        "is_lost",
        "lost",
        "node",
        "pacing",
        "read_bytes",
        "reason",
        "session",
        "share",
        "since_s",
        "software",
        "transport",
        "unread_for",
        "watch",
        "writer",
    )

    def __init__(self, node: Node, make: Callable[[Connection], Conversation], *, address: str = "") -> None:
        self.node = node
        self.transport: asyncio.Transport = NO_TRANSPORT
        """Where it reads and writes. A conversation may put another in its place before anything is written."""
        self.writer = Writer(self)
        """The outlet of its handler, and whatever else is written here."""
        self.ending = Ending(self)
        """What it says last, and what happens then."""
        self.watch = Watch(self)
        """Whether it may stay."""
        self._core, self._now_s, self._liveness = node.core, node.loop.time, self.watch.liveness  # each read needs them
        self._times = node.read_times
        self.holding = Holding(node.held)
        """What is charged for what was read and not acted on, and for what is written and not read."""
        self.share = OwnShare(self)
        """What it may ask for in a turn."""
        self.charging = Charging(self)
        """What its user is charged for it."""
        self.unread_for = NOTHING
        """The reasons for which nothing is read (`peers.connections.reading`). While one of `UNACTED` is among them,
        the rest of what was read waits, too."""
        self.pacing: Pacing | None = None
        """Keeps the rate of the far side's user; None while that is not known, and where there is none."""
        self.has_acted = False
        """Whether a whole frame or message has come since the last look at the connection."""
        self.identity: Identity | None = None
        """Who the far side is, from when it was recognised (`peers.connections.door`); None for a hub that this hub has
        dialled, which need not show it."""
        self._is_dialled = bool(address)
        """Whether this side has opened the connection."""
        self.is_lost = False
        """Whether the socket is closed. What the connection had is given back then, in this turn or in a later one."""
        self.is_given_back = False
        """Whether that was done."""
        self.after_read: Callable[[], None] | None = None
        """Called behind every read, if the conversation wants that."""
        self.read_bytes = 0
        """How much has come, bytes, whatever has become of it; without TLS."""
        self.handler: Handler | None = None
        """Set by the conversation when the far side has become a part of the hub; None again once all is over."""
        self.has_joined = False
        """Whether the far side has ever been a part of the hub."""
        self.reason, self.address = "", address
        self.software = ""
        """What the far side runs, as it says itself: in HELLO, or as `User-Agent`; the first characters of that."""
        self.since_s = 0.0
        """Since when the socket is open, of the loop's clock."""
        self.lost: asyncio.Future[None] | None = None
        """Done when the far side is no part of the hub any more, though it may still be reading why; set by a dialler
        that waits for that."""
        self.conversation: Conversation = make(self)
        """`ENDED` once the connection is over, and what it had read is acted on."""
        self.session: Session = self.conversation.session
        """The conversation's, or what takes its place when this side has said its last word."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection in."""
        self.transport = cast("asyncio.Transport", transport)
        self.address = self.address or far_address(self.transport)
        self.since_s = self.watch.begin()
        refusal = self.node.enter(self) if self._is_dialled else self.node.admit(self)
        try:
            self.conversation.begin(refusal)
            self.writer.write_outgoing()
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            self.fail(error)

    def data_received(self, data: bytes) -> None:
        """Route what came; act on the rest."""
        now_s = self._now_s  # what is called right where it is looked up in a slot is looked up the slow way
        self._liveness.heard_s = heard_s = now_s()
        times = self._times
        is_timed = heard_s >= times.due_s
        size_bytes = len(data)
        try:
            if is_timed:
                times.begin(heard_s, size_bytes)
            self.session.feed(data)
            self.read_bytes += size_bytes
            if size_bytes >= BYTES_PER_EVENT:
                self.share.work_at_much(size_bytes // BYTES_PER_EVENT)
            elif not (self.unread_for and self.unread_for & UNACTED):
                self.work()  # otherwise it waits: uvloop hands over what it had read when reading was paused
            if self.unread_for & UNACTED:
                self._charge_held()
            if self.pacing is not None and self.pacing.rate.is_limited:
                self.charging.count(size_bytes)
            if is_timed:
                if self.unread_for & PUT_OFF:
                    times.put_off(self)
                else:
                    times.end()
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            self.fail(error, data)

    def eof_received(self) -> bool:
        """Act on what came before the end of the stream, then let the transport close."""
        try:
            self.conversation.end_of_stream()
            if not self.unread_for & UNACTED:
                self.work()
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            self.fail(error)
        return False

    def pause_writing(self) -> None:
        """The transport has more than its high-water mark to write."""
        self.writer.pause()

    def resume_writing(self) -> None:
        """The transport takes bytes again."""
        self.writer.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back everything that the connection had, if need be in a later turn: thousands may be lost at once."""
        if self.is_lost:
            return
        self.is_lost = True
        self.reason = self.reason or (str(exc) if exc is not None else self.conversation.unsaid)
        self.node.keepalive.forget(self.watch)
        self.holding.give_back(self.writer)
        self.charging.end()
        self.node.core.depart(partial(self.guard, self._give_back))

    def _give_back(self) -> None:
        node = self.node
        node.release(self)
        node.received_bytes_before += self.read_bytes
        node.journal.forget_room(self._let_go)
        self.leave()
        log = node.log.debug if self.conversation.is_quiet else node.log.info
        log("connection closed", address=self.address, name=self.far_name, reason=self.reason)
        self.is_given_back = True
        if not self.unread_for & UNACTED:
            self.conclude()

    def conclude(self) -> None:
        """Let go of all that refers to this connection: it is freed at once, and not when garbage is collected."""
        self.writer.change_session()
        self.charging.conclude()  # what was put off is routed by now
        self.guard(self.conversation.conclude)
        self.conversation, self.session = ENDED, ENDED.session
        self.handler = self.after_read = None
        for part in (self.writer, self.ending, self.watch, self.share, self.charging):
            part.connection = OVER

    # The far side.

    @property
    def protocol(self) -> str:
        """What is spoken, as the scheme of a URL."""
        scheme = self.conversation.scheme
        is_secure = self.transport.get_extra_info("sslcontext") is not None
        return _SECURE.get(scheme, scheme) if is_secure else scheme

    @property
    def tls(self) -> Any:
        """What the hub's own TLS knows of the far side, as an `ssl.SSLObject`; None without it, and for Zeeks."""
        return self.transport.get_extra_info("ssl_object") if self.conversation.scheme in _SECURE else None

    @property
    def far_name(self) -> str:
        """What the far side calls itself; empty before it has said so."""
        return self.conversation.far_name if self.handler is None else self.handler.name

    @property
    def how(self) -> str:
        """How the far side was recognised; empty if nobody was asked."""
        return "" if self.identity is None else self.identity.how

    def join(self, handler: Handler) -> None:
        """The far side has become a part of the hub, whose batches are written here."""
        self.handler = handler
        self.charging.hand_over(handler)
        self.has_joined = True
        self.node.settle(self)
        if self.writer.is_choked:
            handler.pause()
        if handler.rights is not None:
            self.after_turn(self._audit)

    def _audit(self) -> None:
        """Somebody was recognised, and has become a part of the hub."""
        if self.handler is not None and not self.handler.closed:
            self.node.audit.recognised(self.handler, self.how)

    def go_on_with(self, session: Session) -> None:
        """This side has said its last word: what comes now is for another session."""
        self.writer.change_session()
        self.session = session

    def become(self, conversation: Conversation) -> None:
        """Another conversation goes on here, with what this one had read and not acted on."""
        self.writer.change_session()
        self.conversation, self.session = conversation, conversation.session
        self.after_turn(self._work_on)

    def _work_on(self) -> None:
        """Act on what was read before another conversation began, unless that waits: then its turn will come."""
        if not self.unread_for & UNACTED and not self.is_lost:
            self.work()

    # Reading.

    def work(self) -> None:  # noqa: C901, PLR0912 -- one function, since it is called for every read
        """Act on what came until a turn's share is used up; the rest is for the next turn, after everybody else's."""
        session, share = self.session, self.share
        core, journal = self._core, self.node.journal
        taken = journal.taken
        core.write_is_due = True  # a read begins, and `end_read` ends it
        if core.late:
            self.catch_up()
        event: Any = NEED_DATA
        left = share.left
        try:
            while left > 0:
                event = session.next_event()
                if type(event) is Run:
                    core.publish(cast("Handler", self.handler), event.route, event)
                    left -= 1
                elif type(event) is Stretch:
                    core.publish_stretch(cast("Handler", self.handler), event)
                    left -= 1 + len(event.routes) // RUNS_PER_EVENT
                elif event is NEED_DATA:
                    break
                elif event is None:
                    left -= 1
                else:
                    left = share.do(event, left)
                if not session.has_more:
                    break
                if share.left - left >= self.node.events.left:
                    left = share.use_up(left)
            if event is not NEED_DATA or left != share.left:
                self.has_acted = True
            if share.left - left > 1:  # a run that comes alone is not counted: no more work than the loop has with it
                self.node.events.spend(share.left - left)
            share.left = left
            if left < REFILL_BELOW:
                share.end()
            if session.has_outgoing:
                self.writer.write_answers()
        finally:
            core.end_read()
        if journal.is_behind and journal.taken != taken:
            self.hold_back()
        if event is NEED_DATA or self.holding.begun_bytes:  # only then may a frame have begun, or be complete
            self._charge_held()
        if self.after_read is not None and not self.unread_for & UNACTED:
            self.after_read()

    def catch_up(self) -> None:
        """Write what came for the far side in earlier turns, and before what it is answered now."""
        if self.handler is not None:
            self.handler.write_pending()

    def _charge_held(self) -> None:
        """Charge what was read and not acted on; end the connection if that grows while there is no memory.

        What waits for its turn is charged in full until all of it was acted on: an event, or the rest of a piece that
        is being read, may hold what the session has let go of.
        """
        held_bytes = self.session.held_bytes
        if self.is_lost or not (held_bytes > self.holding.free_bytes or self.holding.begun_bytes):
            return
        waits = bool(self.unread_for & UNACTED)
        refusal = self.holding.grow(held_bytes, self.node.memory, waits=waits)
        if refusal:
            if self.ending.is_last:  # it was told its end already
                self.abort()
            self.end(CloseCode.TRY_AGAIN_LATER, refusal)
            self.holding.begin(self.session.held_bytes)

    def hold_back(self) -> None:
        """The journal is behind, and this side feeds it: read on when it has caught up."""
        is_heard = self.ending.is_last or not self.session.closed
        if is_heard and not self.transport.is_closing():
            self.stop_reading(JOURNAL)
            self.node.journal.wait_room(self._let_go)

    def _let_go(self) -> None:
        """The journal has caught up."""
        self.watch.hear()  # what the far side has said meanwhile was not read
        self.read_on(JOURNAL)

    def bar(self, seconds: float) -> None:
        """Act on nothing that comes for so long: the far side has shown a token that nobody knows."""
        if seconds > 0:
            self.stop_reading(BARRED)
            self.node.loop.call_later(seconds, self.let_in, BARRED)

    def let_in(self, reason: int) -> None:
        """Act on what stood behind, unless it waits for something else, too."""
        if self.unread_for & reason:
            self.unread_for &= ~reason
            self.watch.hear()
            if not self.unread_for & UNACTED:
                self.share.take_turn(TURN_EVENTS)

    def read_all(self) -> None:
        """Read whatever comes from now on: it is thrown away."""
        self.charging.end()
        self.unread_for = NOTHING

    def hold(self, seconds: float) -> None:
        """Read no further until `go_on`; look after so long whether that has come."""
        self.stop_reading(ELSEWHERE)
        self.watch.look_in(seconds)

    def go_on(self) -> None:
        """What the conversation has waited for has happened: act on what had come before, and read on."""
        self.unread_for &= ~ELSEWHERE
        if not self.unread_for & KEPT_OUT:
            self.guard(self.work)
        self.writer.write_outgoing()
        self.read_on()

    def stop_reading(self, reason: int) -> None:
        """Read nothing until this reason is gone, and whatever others there are."""
        self.unread_for |= reason
        self.transport.pause_reading()

    def read_on(self, reason: int = NOTHING) -> None:
        """Read on, as this reason is gone, unless there is another one."""
        self.unread_for &= ~reason
        if not (self.unread_for or self.is_lost or self.transport.is_closing() or self.transport.is_reading()):
            self.transport.resume_reading()

    def after_turn(self, act: Callable[[], object]) -> None:
        """Call `act` once this turn of the loop is over; what goes wrong in it ends this connection."""
        self.node.after_turn(lambda: self.guard(act))

    def go_on_written(self) -> None:
        """The far side reads what it is told: write what else was put off, and read on."""
        self.unread_for &= ~UNANSWERED
        self.ending.drain_on()
        self.guard(self.conversation.write_more)
        self.read_on()

    # Ends.

    def drain(self, text: str = HUB_STOPS) -> None:
        """The hub stops: what is queued is written while the daemon waits, then the far side is told."""
        self.ending.drain(text)

    def drain_publisher(self, text: str = HUB_STOPS, *, only: bool) -> asyncio.Future[None] | None:
        """The hub stops: tell a client that has published, and take what it has sent before it reads that."""
        return self.ending.drain_publisher(text, only=only)

    @property
    def has_unread(self) -> bool:
        """Whether something that a client has sent waits to be read, or to be acted on."""
        handler = self.handler
        if handler is None or handler.closed or not handler.published_messages or handler.is_link:
            return False
        return bool(self.unread_for & UNACTED) or arrived_bytes(self.transport) > 0

    def end(self, code: int, text: str) -> None:
        """Close from this side, with a reason, and let the far side read it."""
        self.ending.end(code, text)

    def abort(self) -> None:
        """End it now."""
        self.transport.abort()

    def abandon(self) -> None:
        """Whoever dialled has given up, perhaps in the moment in which the connection was made.

        uvloop then closes the socket without `connection_lost`, so the connection is given back here.
        """
        if self in self.node.connections:
            self.transport.abort()
            self.connection_lost(None)

    def leave(self) -> None:
        """The far side is no part of the hub any more."""
        try:
            self.conversation.leave(self.reason)
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            log_failure(self, error, b"")
        if self.handler is not None:
            self.node.core.detach(self.handler, self.reason)
        self.charging.leave()
        if self.lost is not None and not self.lost.done():
            self.lost.set_result(None)

    # The last line of defence.

    def guard(self, act: Callable[[], object]) -> None:
        """Do something outside of a read for this connection; what goes wrong in it ends this connection."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 -- the last line of defence
            self.fail(error)

    def fail(self, error: Exception, read: bytes = b"") -> None:
        """Something has happened that must not be able to: end this connection, and nothing else."""
        log_failure(self, error, read)
        if self.session.closed:
            self.transport.abort()
            return
        try:
            self.end(CloseCode.INTERNAL_ERROR, "internal error of the hub")
        except Exception:  # noqa: BLE001 -- not even that can be said
            self.transport.abort()

    # What the conversation learns.

    def opened(self) -> None:
        """The far side has said who it is, and must give signs of life. Nobody takes its place any more.

        But where users have shares, one that is charged to nobody yet stays a newcomer: a WebSocket that has shown
        nothing, as its first message may.
        """
        if self.has_joined or self.charging.has_place or self.node.access.is_open:
            self.node.settle(self)
        self.watch.opened()
