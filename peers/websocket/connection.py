"""`WebSocketConnection`: one socket on the WebSocket port, to a browser, a program, or whatever speaks HTTP.

```
socket ─ buffer_updated ─▶ Session.receive ─▶ Request  ─▶ page, health, metrics; or the handshake
                                          └─▶ messages ─▶ Conversation: the hub's own, or Zeek's, by the path
core ─ Handler.offer ... end_read ─▶ send() ─▶ frames that all clients share, one write
```

Purpose: the shell. How to talk over a WebSocket is in `peers.websocket.session`, what the messages do to the hub in
`peers.websocket.conversation` and `peers.zeek.api`, what a batch looks like to a client in `peers.websocket.forms` and
`peers.zeek.api.forms`, what happens on overflow in `hub.handler`.

Owner: the event loop. Invariants: one write for what a read brought; what the session answers is written
before the messages that it lets through, and a `dropped` where the lost messages would have stood; a client that makes
us answer without reading is not read on until it does, nor is one that feeds a journal which is behind, until that has
caught up; one read, and so one stretch of work for one client, is at most `READ_LIMIT_BYTES`.

Cost: per read and per batch, not per message. Memory: see docs/performance.md.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

from websockets.http11 import Request

from hub.batch import Batch
from hub.errors import CloseCode
from hub.handler import Handler, Poster, Role
from hub.overflow import QueueLimits
from peers.node import LINGER_S, Node
from peers.read_buffer import READ, READ_LIMIT_BYTES
from peers.silence import Act, Silence
from peers.transport import NO_TRANSPORT, end_writing, far_address
from peers.websocket.conversation import Conversation, HubConversation
from peers.websocket.http import answer, path_of, plain
from peers.websocket.messages import Dropped
from peers.websocket.origins import refusal
from peers.websocket.session import Event, Phase, Session
from peers.wire.session import Closing
from peers.zeek.api import PATH as ZEEK_PATH
from peers.zeek.api import ZeekConversation, ZeekTongue, client_name

__all__ = ["PATH", "WebSocketConnection"]

PATH = "/v1/hub"

_PATHS = frozenset({PATH, ZEEK_PATH})


class WebSocketConnection(asyncio.BufferedProtocol):
    """One socket. Also the outlet of its handler.

    Args:
        node: The hub it belongs to.
        queue: Queue that its handler gets if the client has no wish.
        loopback: Whether the listener is bound to a loopback address, see `peers.websocket.origins`.
    """

    __slots__ = (
        "_buffer",
        "_choked",
        "_conversation",
        "_gap_is_told",
        "_is_held",
        "_is_owed",
        "_is_speaking",
        "_is_stalled",
        "_loopback",
        "_node",
        "_queue",
        "_refusal",
        "_session",
        "_silence",
        "_transport",
        "_when_gone",
        "_when_writable",
        "address",
        "due_s",
        "handler",
        "reason",
    )

    def __init__(self, node: Node, queue: QueueLimits, *, loopback: bool) -> None:
        limits = node.settings.limits
        self._node = node
        self._queue = queue
        self._loopback = loopback
        self._session = Session(limits.frame_bytes, limits.handshake_bytes)
        self._transport: asyncio.Transport = NO_TRANSPORT
        self._buffer = READ.buffer
        self._silence = Silence(0.0, limits.ping_after_s, limits.ping_timeout_s)
        self._refusal = ""
        self._choked = False
        self._is_stalled = False  # has made us answer, and does not read
        self._is_held = False  # feeds a journal that is behind
        self._is_owed = False  # has asked, within this read, for what is always kept for it
        self._is_speaking = False  # will write what the session has to say, in this turn
        self._gap_is_told = False
        self._conversation: Conversation | None = None  # once the handshake is over
        self._when_gone: Callable[[], None] = _nothing
        self._when_writable: Callable[[], None] = _nothing
        self.handler: Handler | None = None
        self.due_s = -1
        self.reason = ""
        self.address = ""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection in. One that is over the limit is told so when it has said what it wants."""
        self._transport = cast("asyncio.Transport", transport)
        self.address = far_address(self._transport)
        self._silence.heard_s = self._node.loop.time()
        self._refusal = self._node.admit(self)
        self._node.keepalive.watch(self, self._silence.heard_s + self._node.settings.limits.handshake_s)

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
            answered = self._session.has_outgoing or self._is_owed
            self._is_owed = False
            self._write_outgoing()
        finally:
            core.end_read()
        if self._session.closed or self._transport.is_closing():
            return
        if journal.is_behind and journal.taken != taken:
            self._hold_back()
        if answered and self._choked:
            self._stall()
        elif nbytes == READ_LIMIT_BYTES:  # there is more: after the others had their turn
            self._transport.pause_reading()
            self._node.after_turn(self._read_on)

    def _hold_back(self) -> None:
        """The journal is behind, and this client feeds it: read on when it has caught up."""
        self._is_held = True
        self._transport.pause_reading()
        self._node.journal.wait_room(self._let_go)

    def _let_go(self) -> None:
        self._is_held = False
        # A sign of life: what the client has said meanwhile was not read.
        self._silence.heard_s = self._node.loop.time()
        self._read_on()

    def _stall(self) -> None:
        """The client does not read what it makes us write: read on when it does."""
        self._is_stalled = True
        self._transport.pause_reading()

    def _read_on(self) -> None:
        if not (self._is_held or self._is_stalled or self._transport.is_closing()):
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """Let the transport close: without a Close frame there is no more to say."""
        return False

    def pause_writing(self) -> None:
        """The transport has more than its high-water mark to write."""
        self._choked = True
        if self.handler is not None:
            self.handler.pause()

    def resume_writing(self) -> None:
        """The transport takes bytes again."""
        # A sign of life: whoever reads slowly may be minutes away from a ping that stands behind all of that.
        self._silence.heard_s = self._node.loop.time()
        self._choked = False
        if self.handler is not None:
            self.handler.resume()
        if self._choked or self._transport.is_closing():
            return
        if self._node.draining:
            self.drain()
        self._is_stalled = False
        self._when_writable()
        if not self._transport.is_reading():
            self._read_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back everything that the connection had."""
        reason = self.reason or (str(exc) if exc is not None else "the client closed without Close")
        self.reason = reason
        node = self._node
        node.keepalive.forget(self)
        node.release(self)
        node.journal.forget_room(self._let_go)
        self._when_gone()
        self._collect_rejected()
        if self.handler is None:
            node.log.debug("connection closed", address=self.address, reason=reason)
            return
        node.core.detach(self.handler, reason)
        node.log.info("connection closed", address=self.address, name=self.handler.name, reason=reason)

    # What the session reports.

    def _act(self, event: Event) -> None:
        match event:
            case Request():
                self._answer(event)
            case Closing():
                self._finish(event)
            case _:
                cast("Conversation", self._conversation).act(event)

    def join(self, name: str, limits: QueueLimits, poster: Poster | None = None) -> Handler:
        """Make the client a handler of the core."""
        handler = self.handler = Handler(
            self,
            role=Role.CLIENT,
            limits=limits,
            name=name,
            address=self.address,
            poster=poster,
            frame_limit_bytes=self._node.settings.limits.frame_bytes,
        )
        self._node.core.attach(handler)
        if self._choked:
            handler.pause()
        self._node.log.info("client connected", address=self.address, name=name, overflow=limits.overflow.value)
        return handler

    def speak(self) -> None:
        """Write what the session has to say at the end of the turn: many answers, one write."""
        if not self._is_speaking:
            self._is_speaking = True
            self._node.after_turn(self._speak)

    def _speak(self) -> None:
        self._is_speaking = False
        if self._session.closed or self._transport.is_closing():
            return
        self._write_outgoing()
        if self._choked:
            self._stall()

    def write(self, frames: list[bytes]) -> None:
        """Write ready frames, behind what the session has to say."""
        if self._transport.is_closing():
            return
        if self._session.has_outgoing:
            self._write_outgoing()
        self._write(frames)

    def owe(self) -> None:
        """The client has asked for what it is answered in any case."""
        self._is_owed = True

    def when_writable(self, act: Callable[[], None]) -> None:
        """Call `act` whenever the client reads again."""
        self._when_writable = act

    def when_gone(self, act: Callable[[], None]) -> None:
        """Call `act` when nobody is there to be answered any more."""
        self._when_gone = act

    def _finish(self, closing: Closing) -> None:
        """The conversation is over."""
        self.reason = f"{closing.text} ({closing.code})" if closing.text else f"closed with {closing.code}"
        self._linger()

    # The handshake.

    def _answer(self, request: Request) -> None:
        """Answer the only HTTP request of a connection."""
        path = path_of(request)
        if path not in _PATHS:
            self.reason = f"answered {request.method} {path}"
            self._session.respond(answer(self._node, request))
            self._linger()
            return
        headers = request.headers
        origins = headers.get_all("Origin")
        foreign = refusal(
            origins,
            headers.get_all("Host"),
            self._node.settings.websocket.origins,
            loopback=self._loopback,
        )
        if foreign or self._refusal:
            self._node.log.warning("connection refused", address=self.address, reason=foreign or self._refusal)
        if foreign:
            self._refuse(HTTPStatus.FORBIDDEN, foreign)
        elif self._refusal and not origins:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, self._refusal)
        elif not self._session.accept(request, ZeekTongue() if path == ZEEK_PATH else None):
            self.reason = "no WebSocket handshake"
            self._linger()
        elif self._refusal:  # a browser tells its page the reason of a Close, but not of an HTTP error
            self.end(CloseCode.TRY_AGAIN_LATER, self._refusal)
        else:
            self._begin(request, path)

    def _begin(self, request: Request, path: str) -> None:
        """The handshake is over: the path says which conversation follows."""
        if path == ZEEK_PATH:
            name = client_name(request.headers)
            self._conversation = ZeekConversation(self._node, self._session, self._queue, self, name)
        else:
            self._conversation = HubConversation(self._node, self._session, self._queue, self)
        self._conversation.begin()
        self._node.keepalive.watch(self, self._silence.heard_s + self._node.settings.limits.ping_after_s)

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self.reason = f"{text} (HTTP {status.value})"
        self._session.respond(plain(status, text))
        self._linger()

    # The outlet of the handler.

    def send(self, batches: list[Batch]) -> None:
        """Write batches in this client's encoding, with one write."""
        if self._transport.is_closing():
            return
        if self._session.has_outgoing:
            self._write_outgoing()
        make = self._session.codec.form
        frames = []
        lost = 0
        for batch in batches:
            form = batch.form(make)
            frames.append(form.frames(batch))
            lost += form.lost_messages
        self._write(frames)
        if lost:
            self._gap_is_told = True
            cast("Handler", self.handler).lose(lost)
            self._gap_is_told = False

    def send_gap(self, lost_messages: int) -> None:
        """Tell the client how many of its messages were lost here; what has no form was told among its frames."""
        if not self._gap_is_told and not self._transport.is_closing():
            notice = self._session.encode(Dropped(lost_messages))
            if notice:  # Zeek's clients have no word for it
                self._write([notice])

    def close(self, code: int, text: str) -> None:
        """Called by the handler: its policy is to disconnect."""
        if code == CloseCode.OVERFLOW and self._conversation is not None:
            code, text = self._conversation.overflow(text)
        self.end(code, text)

    def _write(self, frames: list[bytes]) -> None:
        if len(frames) == 1:
            self._transport.write(frames[0])
        else:
            self._transport.writelines(frames)

    # Ends.

    def drain(self) -> None:
        """The hub stops: what is queued is written while the daemon waits, then Close with 1001."""
        if self.handler is not None and not self.handler.closed:
            self.handler.flush()
        if self.handler is None or self.handler.writable:
            self.end(CloseCode.GOING_AWAY, "the hub stops")

    def abort(self) -> None:
        """End it now."""
        self._transport.abort()

    def end(self, code: int, text: str) -> None:
        """Close from this side, with a reason."""
        session = self._session
        if session.closed:
            return
        self.reason = f"{text} ({int(code)})"
        if session.phase is Phase.OPENING:
            session.respond(plain(HTTPStatus.SERVICE_UNAVAILABLE, text))
        else:
            session.close(code, text)
        self._linger()

    def _linger(self) -> None:
        """Stop sending, but read on for a while and throw it away.

        A socket that is closed with unread bytes resets the connection, and the client would never read why.
        """
        self._write_outgoing()
        self._when_gone()
        node = self._node
        if self.handler is not None:
            node.core.detach(self.handler, self.reason)
        if self._transport.is_closing():
            return
        end_writing(self._transport)
        self._transport.resume_reading()
        node.keepalive.watch(self, node.loop.time() + LINGER_S)

    def _write_outgoing(self) -> None:
        self._collect_rejected()
        outgoing = self._session.take_outgoing()
        if outgoing and not self._transport.is_closing():
            self._write(outgoing)

    def _collect_rejected(self) -> None:
        session = self._session
        if session.rejected_messages:
            self._node.rejected_messages += session.rejected_messages
            session.rejected_messages = 0

    # Time.

    def check(self, now_s: float) -> float:
        """Keep the time limits: handshake, silence, lingering."""
        limits = self._node.settings.limits
        session = self._session
        if session.closed:
            self._transport.abort()
            return math.inf
        if session.phase is Phase.OPENING:
            text = f"no request within {limits.handshake_s:g} s"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, text)
            return now_s + LINGER_S
        step = self._silence.check(now_s, reading=not self._is_held)
        if step.act is Act.LOST:
            self.end(CloseCode.PROTOCOL_ERROR, f"no answer to the ping within {limits.ping_timeout_s:g} s")
            return now_s + LINGER_S
        if step.act is Act.PING:
            session.ping()
            self._write_outgoing()
        return step.next_s


def _nothing() -> None:
    """Nothing was asked for that could be left."""
