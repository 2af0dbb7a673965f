"""`StreamConnection`: one socket that carries frames, of the hub's own protocol or of Broker's.

```
socket ─ data_received ─▶ session.feed, next_event ─▶ Run, Stretch ─▶ core.publish
                                              └─────▶ all else     ─▶ _act(event)
core ─ Handler.offer ... end_read ─▶ send() ─▶ one write
```

Purpose: what such shells have in common: reading within a turn's share, writing answers, pausing, ending. What an event
means, and what the far side is told, is for those that build on it (`peers.tcp.connection`,
`peers.zeek.peering.connection`).

Owner: the event loop. Invariants: one write for what a read brought (uvloop makes it one system call for what all reads
of a turn brought); what the session answers is written before what the read routed, so that a confirmation precedes the
messages it speaks of; a far side that makes us answer without reading is not read on until it does.

Cost: per read, not per message.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Protocol, cast

from hub.handler import Handler
from hub.stretch import Run, Stretch
from peers.node import LINGER_S, Node
from peers.silence import Silence
from peers.transport import NO_TRANSPORT, end_writing
from peers.wire.scanner import NEED_DATA

__all__ = ["TURN_EVENTS", "StreamConnection", "StreamSession"]

TURN_EVENTS = 1_000
"""What one connection may ask for in one turn: runs of messages, other frames, and prefixes in them. A prefix costs
about 15 µs and a new topic as much, so that one client does not block a turn for more than some 20 ms. What is left
waits for the next turn."""

_RUNS_PER_EVENT = 4
"""Runs behind one another cost less than a frame each: about 0.5 µs."""


class StreamSession(Protocol):
    """Protocol state, as far as a shell needs it here."""

    @property
    def closed(self) -> bool:
        """Whether it is over."""

    @property
    def has_outgoing(self) -> bool:
        """Whether something waits to be written."""

    def feed(self, data: bytes) -> None:
        """Take what was read."""

    def next_event(self) -> Any:
        """Return what the far side says next; `NEED_DATA` if that is all, None for what is dealt with already."""

    def take_outgoing(self) -> bytes:
        """Return and forget what is to be written now."""


class StreamConnection(asyncio.Protocol):
    """One socket. Also the outlet of its handler.

    Args:
        node: The hub it belongs to.
        dialled: Whether this side has connected.
        address: Where to, if it has.
    """

    __slots__ = (
        "_is_held_back",
        "_is_lost",
        "_node",
        "_putting_off",
        "_session",
        "_silence",
        "_transport",
        "address",
        "dialled",
        "due_s",
        "handler",
        "lost",
        "reason",
    )

    _session: StreamSession
    """Set by those that build on this."""

    _unsaid: ClassVar[str]
    """The reason of an end that the far side has not given one for."""

    def __init__(self, node: Node, *, dialled: bool, address: str) -> None:
        limits = node.settings.limits
        self._node = node
        self._transport: asyncio.Transport = NO_TRANSPORT
        self._silence = Silence(0.0, limits.ping_after_s, limits.ping_timeout_s)
        self._putting_off = False  # the rest of a read waits for its turn
        self._is_held_back = False  # feeds a journal that is behind
        self._is_lost = False
        self.handler: Handler | None = None
        self.dialled = dialled
        self.due_s = -1
        self.reason = ""
        self.address = address
        self.lost: asyncio.Future[None] | None = None  # for a dialler that waits for the end

    # For those that build on it.

    @property
    def far_name(self) -> str:
        """What the far side calls itself, empty before it has said it."""
        raise NotImplementedError

    def _act(self, event: Any) -> int:
        """Do what an event asks for; return its share of a turn."""
        raise NotImplementedError

    def _leave(self) -> None:
        """The far side is no part of the hub any more, if it was. Called once or more."""
        raise NotImplementedError

    @property
    def _refused_messages(self) -> int:
        """How many messages of the far side were not taken."""
        raise NotImplementedError

    def _write_more(self) -> None:
        """The transport takes bytes again: write what was put off beside the queue."""

    def drain(self) -> None:
        """The hub stops: what is queued is written while the daemon waits, then the far side is told."""
        raise NotImplementedError

    # Reading.

    def data_received(self, data: bytes) -> None:
        """Route what came; act on the rest."""
        self._silence.heard_s = self._node.loop.time()
        self._session.feed(data)
        if not self._putting_off:  # uvloop hands over what it had read when reading was paused
            self._work()

    def _work(self) -> None:
        """Act on what came until a turn's share is used up; the rest is for the next turn, after everybody else's."""
        session = self._session
        core, journal = self._node.core, self._node.journal
        taken = journal.taken
        core.begin_read()
        left = TURN_EVENTS
        try:
            while left > 0:
                event = session.next_event()
                if type(event) is Run:
                    core.publish(cast("Handler", self.handler), event.route, event)
                    if event.is_last:
                        break
                    left -= 1
                elif type(event) is Stretch:
                    core.publish_stretch(cast("Handler", self.handler), event)
                    if event.is_last:
                        break
                    left -= 1 + len(event.routes) // _RUNS_PER_EVENT
                elif event is NEED_DATA:
                    break
                else:
                    left -= self._act(event) if event is not None else 1
            else:
                self._put_off()
            if session.has_outgoing:
                if self.handler is not None:
                    self.handler.flush()  # with what it is told itself, so that all that was asked for is one write
                self._write_outgoing()
        finally:
            core.end_read()
        if journal.is_behind and journal.taken != taken:
            self._hold_back()

    def _hold_back(self) -> None:
        """The journal is behind, and this side feeds it: read on when it has caught up."""
        if not self._transport.is_closing():
            self._is_held_back = True
            self._transport.pause_reading()
            self._node.journal.wait_room(self._let_go)

    def _let_go(self) -> None:
        """The journal has caught up."""
        self._is_held_back = False
        # A sign of life: what the far side has said meanwhile was not read.
        self._silence.heard_s = self._node.loop.time()
        self._resume_reading()

    def _put_off(self) -> None:
        if not self._session.closed:
            self._putting_off = True
            self._transport.pause_reading()
            self._node.after_turn(self._go_on)

    def _go_on(self) -> None:
        """A turn later: the rest of a read that was more than a turn's share."""
        self._putting_off = False
        self._work()
        self._resume_reading()

    def _resume_reading(self) -> None:
        """Read on, unless something is in the way.

        That is a turn's rest that waits, a journal that is behind, or that the far side does not read what it makes us
        write.
        """
        if self._is_lost or self._putting_off or self._is_held_back or self._transport.is_closing():
            return
        if self.handler is None or self._is_read or self._session.closed:
            self._transport.resume_reading()

    @property
    def _is_read(self) -> bool:
        """Whether the far side reads what it makes us write."""
        return self.handler is not None and self.handler.writable

    # Writing.

    def pause_writing(self) -> None:
        """The transport has more than its high-water mark to write."""
        if self.handler is not None:
            self.handler.pause()

    def resume_writing(self) -> None:
        """The transport takes bytes again."""
        # A sign of life: whoever reads slowly may be minutes away from a PING that stands behind all of that.
        self._silence.heard_s = self._node.loop.time()
        if self.handler is not None:
            self.handler.resume()
            if self._node.draining:
                self.drain()
            else:
                self._write_more()
        if not self._transport.is_reading():
            self._resume_reading()

    def _write_outgoing(self) -> None:
        outgoing = self._session.take_outgoing()
        if not outgoing or self._transport.is_closing():
            return
        self._transport.write(outgoing)
        self._wait_for_reader()

    def _wait_for_reader(self) -> None:
        """Do not read on while the far side does not read what it has made us write."""
        if self.handler is not None and not self._is_read and not self._session.closed:
            self._transport.pause_reading()

    # Ends.

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back everything that the connection had."""
        if self._is_lost:
            return
        self._is_lost = True
        self.reason = self.reason or (str(exc) if exc is not None else self._unsaid)
        node = self._node
        node.keepalive.forget(self)
        node.release(self)
        node.journal.forget_room(self._let_go)
        self._leave()
        node.rejected_messages += self._refused_messages
        if self.lost is not None and not self.lost.done():
            self.lost.set_result(None)
        node.log.info("connection closed", address=self.address, name=self.far_name, reason=self.reason)

    def abort(self) -> None:
        """End it now."""
        self._transport.abort()

    def abandon(self) -> None:
        """Whoever dialled has given up, perhaps in the moment in which the connection was made.

        uvloop then closes the socket without `connection_lost`, so the connection is given back here.
        """
        if self in self._node.connections:
            self._transport.abort()
            self.connection_lost(None)

    def _linger(self) -> None:
        """Stop sending, but read on for a while and throw it away.

        A socket that is closed with unread bytes resets the connection, and the far side would never read why.
        """
        self._write_outgoing()
        self._leave()
        if self._transport.is_closing():
            return
        if not end_writing(self._transport):
            self._transport.close()
            return
        self._putting_off = False
        self._transport.resume_reading()
        self._node.keepalive.watch(self, self._node.loop.time() + LINGER_S)

    def check(self, now_s: float) -> float:
        """Do what is due at `now_s`; return when to look again."""
        raise NotImplementedError
