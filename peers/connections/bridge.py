"""`BridgeConversation`: a connection to a Zeek's WebSocket server; in the hub, the Zeek is a leaf.

```
BridgeSession ─▶ Opened   ─▶ core.attach, subscribe to the hub's filter
             └─▶ Publication ─▶ core.publish
handler ── render ──▶ JSON texts
core ─ on_filter ─▶ Wanted ── not covered ──▶ close, to be connected again; at most once in RENEW_S
```

Events between the end of one connection and the ack of the next are missed: a client that cannot have that subscribes
to a prefix that covers all of its later ones.
"""

from __future__ import annotations

import asyncio

from hub.errors import CloseCode, RejectedError
from hub.handlers.delivery import Role
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.prefixes import Change
from peers.commands.commands import Publication
from peers.connections.connection import Connection
from peers.connections.conversation import ZeekConversation
from peers.transport.endpoints import Endpoint
from peers.websocket.zeek_bridge import Acknowledged, BridgeSession, Event, Failure, Opened, Phase
from peers.websocket.zeek_codec import Wanted, texts
from peers.wire.events import Closing

RENEW_S = 5.0  # a connection is not replaced by one with other prefixes before this age, seconds: each costs a gap
_MESSAGE_EVENTS = 2  # share of a turn for a message of the Zeek: its JSON is converted, about 20 µs
_REFUSED_EVENTS = 6  # and for a rejected one: it is logged, about 60 µs
_BYTES_PER_EVENT = 512  # bytes of a message that cost as much as one event more


class BridgeConversation(ZeekConversation):
    """One Zeek.

    Args:
        connection: Its connection.
        queue: Queue of the leaf.
        endpoint: Of the Zeek.
        publish: Prefixes of messages for the Zeek.
    """

    session: BridgeSession
    unsaid = "the other side closed without Close"

    def __init__(
        self, connection: Connection, queue: QueueLimits, endpoint: Endpoint, publish: tuple[str, ...]
    ) -> None:
        limits = connection.server.settings.limits
        super().__init__(connection, queue, BridgeSession(endpoint.host, endpoint.port, limits.frame_bytes))
        self._publish = publish
        self._wanted = Wanted()
        self._renewed_s = self._server.loop.time()
        self._renewal: asyncio.TimerHandle | None = None
        self.is_acknowledged = False  # whether the Zeek has acknowledged the subscriptions
        self.is_renewed = False  # whether this connection was ended so that another one asks for other topics

    @property
    def scheme(self) -> str:
        return "zeek+ws"

    @property
    def is_open(self) -> bool:
        return self.session.phase is Phase.OPEN

    def begin(self, refusal: str) -> None:
        self._connection.far_side_closes = True
        super().begin(refusal)

    def act(self, event: Event) -> int:
        match event:
            case Publication():
                return self._publish_incoming(event)
            case Opened():
                self._become_leaf()
            case Acknowledged():
                self._start(event)
            case Failure():
                return self._log(event)
            case Closing():
                reason = f"{event.text} ({event.code})" if event.text else f"closed with {event.code}"
                self._connection.reason = reason
                self._connection.linger()
        return 1

    def _publish_incoming(self, incoming: Publication) -> int:
        handler = self._connection.handler
        if handler is None or handler.closed:
            return 1
        core = self._server.core
        try:
            route = core.routes.of(incoming.routing_key)
        except RejectedError as error:
            return self._log(Failure(error.text, outward=False))
        core.publish(handler, route, incoming.batch)
        return _MESSAGE_EVENTS + len(incoming.frame) // _BYTES_PER_EVENT

    def _become_leaf(self) -> None:
        connection, core = self._connection, self._server.core
        self._enter_zeek(dialled=True)
        handler = self._join(Role.LEAF)
        core.attach(handler, self._change_wanted)
        connection.charge_user()
        core.authority.on_refused[handler] = self._refuse_messages
        self.session.ask(self._wanted.ask())
        core.subscribe(handler, self._publish)

    def _start(self, acknowledged: Acknowledged) -> None:
        self.is_acknowledged = True
        connection = self._connection
        if connection.handler is not None:
            connection.handler.name = acknowledged.endpoint
        connection.opened()
        self._server.log.info(
            "zeek linked", address=connection.address, endpoint=acknowledged.endpoint, version=acknowledged.version
        )
        self._reconnect_if_needed()

    def _log(self, failure: Failure) -> int:
        if not failure.outward:
            self._server.rejected_messages += 1
        event = "zeek refused a message" if failure.outward else "message of zeek refused"
        self._server.log.warning(event, address=self._connection.address, reason=failure.text)
        return _REFUSED_EVENTS

    def _change_wanted(self, change: Change) -> None:
        self._wanted.change(change)
        if self.is_acknowledged:
            self._reconnect_if_needed()

    def _reconnect_if_needed(self) -> None:
        """Plan another connection if the Zeek was not asked for all of the hub's filter."""
        if self._renewal is None and not self.session.closed and not self._wanted.is_covered:
            loop = self._server.loop
            self._renewal = loop.call_at(max(self._renewed_s + RENEW_S, loop.time()), self._reconnect)

    def _reconnect(self) -> None:
        self._renewal = None
        if not self._wanted.is_covered:
            self.is_renewed = True
            self._connection.end(CloseCode.DONE, "the hub wants other topics")

    def render(self, batches: list[Batch]) -> list[bytes]:
        lost = 0
        for batch in batches:
            found, missing = texts(batch)
            self.session.send(found)
            lost += missing
        if lost:
            self._connection.lose(lost)
        outgoing = self.session.take_outgoing()
        return [outgoing] if outgoing else []

    def ping(self) -> None:
        self.session.ping()

    def time_out(self) -> None:
        text = f"no ack within {self._server.settings.limits.handshake_s:g} s"
        self._connection.end(CloseCode.PROTOCOL_ERROR, text)

    def close(self, code: int, text: str) -> str:
        self.session.close(code, text)
        return f"{text} ({int(code)})"

    def leave(self, reason: str) -> None:  # noqa: ARG002 -- the core announces it
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
