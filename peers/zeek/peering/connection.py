"""`PeeringConnection`: one socket to a Broker endpoint, with TLS or without.

```
socket ─ data_received ─▶ Session.feed, next_event ─▶ Run, Stretch  ─▶ core.publish
                                                 ├──▶ FilterChanged ─▶ FarSubscriptions ─▶ core.subscribe
                                                 └──▶ PeerKnown     ─▶ Registry: go on, wait, or be dropped
core ─ Handler.offer ... end_read ─▶ send() ─▶ data envelopes, one write
core ─ on_filter ─▶ announce, some ms later ─▶ routing_update
```

Purpose: what the events of a peering mean, and what the far side is told. Reading, writing and ending are in
`peers.stream`, rules of the conversation in `peers.zeek.native.session`, what happens on overflow in `hub.handler`,
which of two connections stays in `peers.zeek.peering.registry`.

Owner: the event loop. Invariants: those of `peers.stream`. A handshake has a time limit, which Broker has not. A peer
that is silent is pinged, since Broker itself never asks.

Cost: per read, and about 0.6 µs a message for the other form (docs/performance.md).
"""

from __future__ import annotations

import asyncio
import math
import secrets
from typing import cast

from hub.batch import Batch
from hub.errors import CloseCode
from hub.filter import Change
from hub.handler import Handler, Role
from hub.overflow import QueueLimits
from hub.routes import Route
from peers.node import LINGER_S
from peers.silence import Act
from peers.stream import StreamConnection
from peers.transport import far_address
from peers.zeek.native.codes import BrokerCode
from peers.zeek.native.envelope import encode_ping
from peers.zeek.native.session import (
    GOODBYE_BYTES,
    Drained,
    Ended,
    Event,
    FilterChanged,
    Peered,
    PeerKnown,
    Session,
    Skipped,
)
from peers.zeek.peering.peerings import Peerings, endpoint_text
from peers.zeek.peering.registry import Verdict
from peers.zeek.peering.subscriptions import FarSubscriptions

__all__ = ["GOODBYE_S", "PeeringConnection"]

GOODBYE_S = 3.0
"""How long the answer to a goodbye is waited for, seconds; as Broker does."""

_ANNOUNCE_S = 0.02
"""How long changes of the hub's filter are collected before a peer is told, seconds."""

_ANNOUNCE_PREFIX_S = 1e-5
"""And so much longer for each prefix: a filter is always sent whole."""

_PING = b"hub"


class PeeringConnection(StreamConnection):
    """One socket. Also the outlet of its handler.

    Args:
        peerings: Of the hub that it belongs to.
        queue: Queue of its handler.
        dialled: Whether this side has connected.
        address: Where to, if it has.
    """

    __slots__ = ("_announcing", "_asked", "_closing_code", "_peerings", "_queue", "_subscriptions")

    _session: Session[Route]
    _unsaid = "the far side closed without a goodbye"

    def __init__(self, peerings: Peerings, queue: QueueLimits, *, dialled: bool = False, address: str = "") -> None:
        node = peerings.node
        super().__init__(node, dialled=dialled, address=address)
        limits = node.settings.limits
        self._peerings = peerings
        self._queue = queue
        self._session = Session(
            peerings.own_id,
            "connector" if dialled else "acceptor",
            node.core.routes,
            node.core.minimal_filter_for_leaves,
            frame_limit_bytes=limits.frame_bytes,
            handshake_limit_bytes=limits.handshake_bytes,
            filter_limit_bytes=limits.frame_bytes,
        )
        self._subscriptions: FarSubscriptions | None = None
        self._asked: set[str] = set()  # what this hub wants of the far side
        self._announcing: asyncio.TimerHandle | None = None
        self._closing_code = 0  # this side has ended it; the hub's code

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection in, and say the first word: a probe, or hello if this side has dialled."""
        self._transport = cast("asyncio.Transport", transport)
        self.address = self.address or far_address(self._transport)
        self._silence.heard_s = self._node.loop.time()
        refusal = self._node.admit(self)
        if refusal:
            self._drop(BrokerCode.PEER_UNAVAILABLE, refusal, CloseCode.TRY_AGAIN_LATER)
            return
        self._node.keepalive.watch(self, self._silence.heard_s + self._node.settings.limits.handshake_s)
        self._write_outgoing()

    def eof_received(self) -> bool:
        """The far side says no more: what came before that is acted on, then it is over."""
        self._session.feed_eof()
        if not self._putting_off:
            self._work()
        return False

    # What the session reports.

    def _act(self, event: Event) -> int:
        match event:
            case PeerKnown():
                self._claim(event.peer_id)
            case Peered():
                self._greet(event)
            case FilterChanged():
                cast("FarSubscriptions", self._subscriptions).replace(event.filter)
            case Skipped():
                self._node.log.warning(
                    "skipped what a Zeek sent", address=self.address, messages=event.messages, reason=event.reason
                )
            case Drained():
                self._transport.close()
            case Ended():
                self._finish(event)
        return 1

    def _claim(self, peer_id: bytes) -> None:
        """Ask for the place of the endpoint that the far side says it is."""
        verdict = self._peerings.registry.claim(peer_id, self)
        if verdict is Verdict.PROCEED:
            self._session.proceed()
        elif verdict is Verdict.REDUNDANT:
            self.give_way()

    def proceed(self) -> None:
        """Called by the registry: the connection that this one waited for has failed."""
        self._session.proceed()
        self._work()

    def give_way(self) -> None:
        """Called by the registry: another connection to the same endpoint is peered."""
        self.reason = f"already connected to endpoint {self.far_name} ({int(CloseCode.ALREADY_CONNECTED)})"
        self._closing_code = CloseCode.ALREADY_CONNECTED
        self._session.refuse_redundant()
        self._linger()

    def _greet(self, peered: Peered) -> None:
        """The handshake is done: take the far side in."""
        node = self._node
        handler = Handler(self, role=Role.LEAF, limits=self._queue, name=self.far_name, address=self.address)
        handler.restrict(itself=False, leaves=node.settings.zeek.forwarding == "on")
        self.handler = handler
        self._subscriptions = FarSubscriptions(node.core, handler, node.after_turn)
        node.core.attach(handler, self._ask)
        self._peerings.added(peered.peer_id, self.address)
        self._subscriptions.replace(peered.filter)
        self._peerings.registry.settle(peered.peer_id)
        node.keepalive.watch(self, self._silence.heard_s + node.settings.limits.ping_after_s)
        node.log.info("Zeek peered", address=self.address, name=self.far_name, overflow=self._queue.overflow.value)

    def _finish(self, ended: Ended) -> None:
        """The session says that it is over."""
        self.reason = self.reason or f"{ended.text} (Broker code {int(ended.code)}, {ended.code.text})"
        if ended.by_far_side:
            self._write_outgoing()  # what was answered before the far side went
            self._leave()
            self._transport.close()
        else:
            self._closing_code = self._closing_code or CloseCode.PROTOCOL_ERROR
            self._linger()

    @property
    def far_name(self) -> str:
        """The id of the far side, empty before it has said it."""
        return endpoint_text(self._session.peer_id)

    # What this hub wants of the far side.

    def _ask(self, change: Change) -> None:
        """The hub's filter has changed; the far side is told a little later, together with what changes meanwhile."""
        self._asked.update(change.added)
        self._asked.difference_update(change.removed)
        if self._announcing is None and not self._is_lost:
            delay_s = _ANNOUNCE_S + _ANNOUNCE_PREFIX_S * len(self._asked)
            self._announcing = self._node.loop.call_later(delay_s, self._announce)

    def _announce(self) -> None:
        self._announcing = None
        if self._session.closed:
            return
        if self.handler is not None and not self.handler.writable:  # changes merge until the far side reads on
            self._announcing = self._node.loop.call_later(_ANNOUNCE_S, self._announce)
            return
        self._session.announce(self._asked)
        self._write_outgoing()

    # The outlet of the handler.

    def send(self, batches: list[Batch]) -> None:
        """Write batches as data envelopes, with one write."""
        if self._session.has_outgoing:
            self._write_outgoing()
        make = self._peerings.form
        parts = []
        lost = 0
        for batch in batches:
            form = batch.form(make)
            parts.append(form.frames(batch))
            lost += form.lost_messages
        self._transport.writelines(parts)
        if lost:
            cast("Handler", self.handler).lose(lost)

    def send_gap(self, lost_messages: int) -> None:
        """Broker has no word for it: the log and `$hub/overflow` tell."""

    def close(self, code: int, text: str) -> None:
        """Called by the handler: its policy is to disconnect. Broker does so without a goodbye."""
        self.reason = f"{text} ({int(code)})"
        self._closing_code = code
        self._session.drop(BrokerCode.UNSPECIFIED, text)
        self._transport.abort()

    # Ends.

    def drain(self) -> None:
        """The hub stops: what is queued is written while the daemon waits, then comes a goodbye."""
        if self.handler is None or self.handler.closed:
            self._drop(BrokerCode.SHUTTING_DOWN, "shutting down", CloseCode.GOING_AWAY)
            return
        self.handler.flush()
        if self.handler.writable and not self._closing_code:
            self.reason = f"the hub stops ({int(CloseCode.GOING_AWAY)})"
            self._closing_code = CloseCode.GOING_AWAY
            self._session.say_goodbye(secrets.token_bytes(GOODBYE_BYTES))
            self._write_outgoing()
            self._node.keepalive.watch(self, self._node.loop.time() + GOODBYE_S)

    def _drop(self, broker_code: BrokerCode, text: str, code: CloseCode) -> None:
        """Close from this side, with a reason."""
        if self._session.closed:
            return
        self.reason = f"{text} ({int(code)})"
        self._closing_code = code
        self._session.drop(broker_code, text)
        self._linger()

    def _leave(self) -> None:
        """The far side is no part of the hub any more; tell so, once."""
        peer_id = self._session.peer_id
        handler = self.handler
        if handler is not None and handler.id in self._node.core.handlers:
            self._node.core.detach(handler, self.reason)
            if self._closing_code:
                self._peerings.removed(peer_id, self.address, self.reason, self._closing_code)
            else:
                self._peerings.lost(peer_id, self.address, self.reason)
        self._peerings.registry.release(peer_id, self)
        if self._announcing is not None:
            self._announcing.cancel()

    @property
    def _refused_messages(self) -> int:
        return self._session.skipped_messages

    # Time.

    def check(self, now_s: float) -> float:
        """Keep the time limits: handshake, silence, goodbye, lingering."""
        limits = self._node.settings.limits
        if self._session.closed or self._closing_code:
            self._transport.abort()
            return math.inf
        if self.handler is None:
            text = f"no handshake within {limits.handshake_s:g} s"
            self._drop(BrokerCode.PEER_TIMEOUT, text, CloseCode.PROTOCOL_ERROR)
            return now_s + LINGER_S
        step = self._silence.check(now_s, reading=not self._is_held_back)
        if step.act is Act.LOST:
            text = f"no answer to a ping within {limits.ping_timeout_s:g} s"
            self._drop(BrokerCode.PEER_TIMEOUT, text, CloseCode.PROTOCOL_ERROR)
            return now_s + LINGER_S
        if step.act is Act.PING:
            self._transport.write(encode_ping(self._peerings.own_id, self._session.peer_id, _PING))
        return step.next_s
