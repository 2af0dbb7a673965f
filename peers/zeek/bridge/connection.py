"""`BridgeConnection`: one socket to a Zeek's WebSocket server, and the outlet of the leaf that it is in the hub.

```
socket ─ buffer_updated ─▶ BridgeSession.receive ─▶ Opened       ─▶ core.attach, ask for what the hub wants
                                                └─▶ Incoming     ─▶ core.publish
core ─ Handler.offer ... end_read ─▶ send() ─▶ JSON texts, one write
core ─ on_filter ─▶ Wanted ── not covered ──▶ close, to be connected again; at most once in RENEW_S
```

Owner: the event loop. Invariants: one write for what a read brought; a leaf from the handshake until the connection is
over; at most `READ_LIMIT_BYTES` of one Zeek's are worked on before others have their turn; a Zeek that feeds a journal
which is behind is not read on until that has caught up.

The hub asks for what its clients and peers want. What the Zeek sends between the end of one connection and the ack of
the next is not seen: who cannot have that subscribes to what covers all that it will want.
"""

from __future__ import annotations

import asyncio
import math
from typing import cast

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.filter import Change
from hub.handler import Handler, Role
from hub.overflow import QueueLimits
from peers.endpoints import Endpoint
from peers.node import LINGER_S, Node
from peers.read_buffer import READ, READ_LIMIT_BYTES
from peers.silence import Act, Silence
from peers.transport import NO_TRANSPORT, end_writing
from peers.wire.session import Closing
from peers.zeek.api.forms import texts
from peers.zeek.bridge.session import Acknowledged, BridgeSession, Event, Failure, Incoming, Opened, Phase
from peers.zeek.bridge.wanted import Wanted

__all__ = ["RENEW_S", "BridgeConnection"]

RENEW_S = 5.0
"""A connection is not replaced by one with other prefixes before it is so old, seconds: each costs a gap."""


class BridgeConnection(asyncio.BufferedProtocol):
    """One socket.

    Args:
        node: The hub.
        queue: Queue of the leaf.
        endpoint: Of the Zeek.
        publish: Prefixes of what is sent to it.
    """

    __slots__ = (
        "_buffer",
        "_gap_is_told",
        "_is_held",
        "_is_lost",
        "_node",
        "_publish",
        "_queue",
        "_renewal",
        "_renewed_s",
        "_session",
        "_silence",
        "_transport",
        "_wanted",
        "address",
        "due_s",
        "handler",
        "is_acknowledged",
        "is_renewed",
        "lost",
        "reason",
    )

    def __init__(self, node: Node, queue: QueueLimits, endpoint: Endpoint, publish: tuple[str, ...] = ()) -> None:
        limits = node.settings.limits
        self._node = node
        self._queue = queue
        self._publish = publish
        self._session = BridgeSession(endpoint.host, endpoint.port, limits.frame_bytes)
        self._transport: asyncio.Transport = NO_TRANSPORT
        self._buffer = READ.buffer
        self._silence = Silence(0.0, limits.ping_after_s, limits.ping_timeout_s)
        self._wanted = Wanted()
        self._renewal: asyncio.TimerHandle | None = None
        self._is_held = False  # feeds a journal that is behind
        self._is_lost = False
        self.handler: Handler | None = None
        self.is_acknowledged = False
        self.is_renewed = False
        self.due_s = -1
        self.reason = ""
        self.address = endpoint.location
        self.lost: asyncio.Future[None] = node.loop.create_future()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection in, and ask for the WebSocket."""
        self._transport = cast("asyncio.Transport", transport)
        now_s = self._silence.heard_s = self._renewed_s = self._node.loop.time()
        refusal = self._node.admit(self)
        if refusal:
            self._end(CloseCode.TRY_AGAIN_LATER, refusal)
            return
        self._node.keepalive.watch(self, now_s + self._node.settings.limits.handshake_s)
        self._write_outgoing()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 -- asyncio's signature
        """Lend the transport the loop's buffer."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Act on what came."""
        self._silence.heard_s = self._node.loop.time()
        core, journal = self._node.core, self._node.journal
        taken = journal.taken
        core.begin_read()
        try:
            for event in self._session.receive(bytes(self._buffer[:nbytes])):
                self._act(event)
            self._write_outgoing()
        finally:
            core.end_read()
        if self._session.closed or self._transport.is_closing():
            return
        if journal.is_behind and journal.taken != taken:
            self._is_held = True
            self._transport.pause_reading()
            journal.wait_room(self._let_go)
        elif nbytes == READ_LIMIT_BYTES:  # there is more: after the others had their turn
            self._transport.pause_reading()
            self._node.after_turn(self._read_on)

    def _let_go(self) -> None:
        """The journal has caught up."""
        self._is_held = False
        self._silence.heard_s = self._node.loop.time()  # what the Zeek has said meanwhile was not read
        self._read_on()

    def _read_on(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """The transport has more than its high-water mark to write."""
        if self.handler is not None:
            self.handler.pause()

    def resume_writing(self) -> None:
        """The transport takes bytes again."""
        self._silence.heard_s = self._node.loop.time()  # a sign of life
        if self.handler is not None:
            self.handler.resume()
        if self._node.draining:
            self.drain()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back everything that the connection had."""
        if self._is_lost:
            return
        self._is_lost = True
        self.reason = self.reason or (str(exc) if exc is not None else "the far side closed without Close")
        node = self._node
        node.keepalive.forget(self)
        node.release(self)
        node.journal.forget_room(self._let_go)
        self._leave()
        if not self.lost.done():
            self.lost.set_result(None)
        node.log.info("connection closed", address=self.address, reason=self.reason)

    # What the session reports.

    def _act(self, event: Event) -> None:
        match event:
            case Incoming():
                self._publish_incoming(event)
            case Opened():
                self._join()
            case Acknowledged():
                self._start(event)
            case Failure():
                self._tell(event)
            case Closing():
                self.reason = f"{event.text} ({event.code})" if event.text else f"closed with {event.code}"
                self._linger()

    def _publish_incoming(self, incoming: Incoming) -> None:
        if self.handler is None or self.handler.closed:
            return
        core = self._node.core
        routes = core.routes
        try:
            route = routes.table.get(incoming.routing_key) or routes.miss(incoming.routing_key)
        except RejectedError as error:
            self._tell(Failure(error.text, outward=False))
            return
        core.publish(self.handler, route, incoming.batch)

    def _join(self) -> None:
        """Become a leaf, which tells what the hub wants, and ask for that."""
        core = self._node.core
        handler = self.handler = Handler(self, role=Role.LEAF, limits=self._queue, address=self.address)
        core.attach(handler, self._change_wanted)
        self._session.ask(self._wanted.ask())
        core.subscribe(handler, self._publish)

    def _start(self, acknowledged: Acknowledged) -> None:
        """The Zeek has heard what is wanted."""
        self.is_acknowledged = True
        if self.handler is not None:
            self.handler.name = acknowledged.endpoint
        now_s = self._node.loop.time()
        self._node.keepalive.watch(self, now_s + self._node.settings.limits.ping_after_s)
        self._node.log.info(
            "zeek linked", address=self.address, endpoint=acknowledged.endpoint, version=acknowledged.version
        )
        self._renew_if_need_be()

    def _tell(self, failure: Failure) -> None:
        """A message is lost: one that the Zeek does not take, or one of its own that the hub does not."""
        if not failure.outward:
            self._node.rejected_messages += 1
        event = "zeek refused a message" if failure.outward else "message of zeek refused"
        self._node.log.warning(event, address=self.address, reason=failure.text)

    # What the hub wants.

    def _change_wanted(self, change: Change) -> None:
        self._wanted.change(change)
        if self.is_acknowledged:
            self._renew_if_need_be()

    def _renew_if_need_be(self) -> None:
        """See to it that a Zeek that was not asked for all that is wanted will be. Changes until then are one."""
        if self._renewal is None and not self._session.closed and not self._wanted.is_covered:
            loop = self._node.loop
            self._renewal = loop.call_at(max(self._renewed_s + RENEW_S, loop.time()), self._renew)

    def _renew(self) -> None:
        self._renewal = None
        if not self._wanted.is_covered:
            self.is_renewed = True
            self._end(CloseCode.DONE, "the hub wants other topics")

    # The outlet of the handler.

    def send(self, batches: list[Batch]) -> None:
        """Write batches as JSON, with one write."""
        if self._transport.is_closing():
            return
        lost = 0
        for batch in batches:
            found, missing = texts(batch)
            self._session.send(found)
            lost += missing
        self._write_outgoing()
        if lost:
            cast("Handler", self.handler).lose(lost)

    def send_gap(self, lost_messages: int) -> None:
        """The API has no word for it: the log and `$hub/overflow` tell."""

    def close(self, code: int, text: str) -> None:
        """Called by the handler: its policy is to disconnect."""
        self._end(code, text)

    # Ends.

    def drain(self) -> None:
        """The hub stops: what is queued is written while the daemon waits, then Close with 1001."""
        if self.handler is not None and not self.handler.closed:
            self.handler.flush()
        if self.handler is None or self.handler.writable:
            self._end(CloseCode.GOING_AWAY, "the hub stops")

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

    def _end(self, code: int, text: str) -> None:
        if self._session.closed:
            return
        self.reason = f"{text} ({int(code)})"
        self._session.close(code, text)
        self._linger()

    def _linger(self) -> None:
        """Say Close, be no leaf any more, and give the Zeek a moment to answer."""
        self._write_outgoing()
        self._leave()
        if not self._transport.is_closing():
            end_writing(self._transport)
            self._transport.resume_reading()
            self._node.keepalive.watch(self, self._node.loop.time() + LINGER_S)

    def _leave(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        if self.handler is not None:
            self._node.core.detach(self.handler, self.reason)

    def _write_outgoing(self) -> None:
        outgoing = self._session.take_outgoing()
        if outgoing and not self._transport.is_closing():
            self._transport.writelines(outgoing)

    # Time.

    def check(self, now_s: float) -> float:
        """Keep the time limits: handshake and ack, silence, lingering."""
        limits = self._node.settings.limits
        session = self._session
        if session.closed:
            self._transport.abort()
            return math.inf
        if session.phase is not Phase.OPEN:
            self._end(CloseCode.PROTOCOL_ERROR, f"no ack within {limits.handshake_s:g} s")
            return now_s + LINGER_S
        step = self._silence.check(now_s, reading=not self._is_held)
        if step.act is Act.LOST:
            self._end(CloseCode.PROTOCOL_ERROR, f"no answer to the ping within {limits.ping_timeout_s:g} s")
            return now_s + LINGER_S
        if step.act is Act.PING:
            session.ping()
            self._write_outgoing()
        return step.next_s
