"""`BrokerConversation`: a peering with a Broker endpoint.

```
Session ─▶ FilterChanged ─▶ RemoteSubscriptions ─▶ core.subscribe, in steps
       ├─▶ PeerKnown     ─▶ Registry: go on, wait, or be dropped ─▶ core.leaves: which hub is its gateway?
       └─▶ Envelope      ─▶ forwarder: to the Zeeks that have the other end of the store
core ─ on_filter ─▶ announce, some ms later ─▶ routing_update          handler ── render ──▶ data envelopes
```

One hub of the mesh, the gateway, exchanges messages and data stores with an endpoint. A hub with links waits for claims
of other hubs in the handshake, so nothing comes twice while two hubs are peered with one endpoint.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, cast

from hub.core import Core
from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.policy.policy import not_granted
from hub.prefixes import Change
from hub.routing.routes import Route
from hub.topics import RESERVED
from peers.connections.broker_peerings import Peerings, endpoint_text
from peers.connections.connection import Connection
from peers.connections.conversation import ZeekConversation
from peers.zeek.broker.envelopes import Skipped
from peers.zeek.broker.messages import BrokerCode, Envelope, encode_ping
from peers.zeek.broker.session import GOODBYE_BYTES, Drained, Ended, Event, FilterChanged, Peered, PeerKnown, Session
from peers.zeek.broker.stores.command import is_store_topic, store_of

STEP_PREFIXES = 500  # prefixes that are subscribed or unsubscribed in one turn: about 8 ms
_COMPARED_PER_STEP = 50  # comparing a prefix takes so much less time
_AT_ONCE_PREFIXES = 10_000  # a larger filter has taken long enough to read: it is compared in a turn of its own


class RemoteSubscriptions:
    """The subscriptions of one peer; `later` calls a function after this turn of the loop."""

    def __init__(self, core: Core, handler: Handler, later: Callable[[Callable[[], object]], object]) -> None:
        self._core = core
        self._handler = handler
        self._later = later
        self._targets: deque[Sequence[str]] = deque()  # filters that are not compared yet
        self._wanted: dict[str, None] = {}  # the last one that was compared, in its order
        self._steps: deque[tuple[bool, list[str]]] = deque()  # whether to subscribe, and to what
        self._due = False

    def replace(self, prefixes: Sequence[str]) -> None:
        """Subscribe to these and to nothing else, except the hub's own topics."""
        self._targets.append(prefixes)
        if self._due:
            return
        if len(prefixes) > _AT_ONCE_PREFIXES:
            self._put_off()
        else:
            self._go_on()

    def _put_off(self) -> None:
        self._due = True
        self._later(self._go_on)

    def _go_on(self) -> None:
        self._due = False
        left = STEP_PREFIXES
        while left > 0 and not self._handler.closed and (self._steps or self._targets):
            if self._steps:
                left -= self._step()
            else:
                left -= self._compare() // _COMPARED_PER_STEP
        if (self._steps or self._targets) and not self._handler.closed:
            self._put_off()

    def _step(self) -> int:
        subscribe, prefixes = self._steps.popleft()
        if subscribe:
            try:
                self._core.subscribe(self._handler, prefixes)
            except RejectedError as error:  # Broker cannot reject a part
                self._handler.close(error.code, error.text)
        else:
            self._core.unsubscribe(self._handler, prefixes)
        return len(prefixes)

    def _compare(self) -> int:
        wanted = dict.fromkeys(prefix for prefix in self._targets.popleft() if not prefix.startswith(RESERVED))
        # First the new ones: a topic that a broader prefix takes over is never without either.
        added = [prefix for prefix in wanted if prefix not in self._wanted]
        removed = [prefix for prefix in self._wanted if prefix not in wanted]
        for subscribe, changed in ((True, added), (False, removed)):
            for first in range(0, len(changed), STEP_PREFIXES):
                self._steps.append((subscribe, changed[first : first + STEP_PREFIXES]))
        compared = len(wanted) + len(self._wanted)
        self._wanted = wanted
        return compared


GOODBYE_S = 3.0  # how long to wait for the answer to a goodbye, seconds; as Broker does

GATEWAY_S = 0.25  # wait for claims of other hubs to the same endpoint; an announcement crosses a mesh in far less

_ANNOUNCE_S = 0.02  # how long changes of the hub's filter are collected before a peer gets them, seconds
_ANNOUNCE_PREFIX_S = 1e-5  # and so much longer for each prefix: a filter is always sent whole
QUEUE_COMMANDS: Final = 1024  # most commands of stores that wait for one slow peer
QUEUE_BYTES: Final = 16 * 1024 * 1024  # most bytes of these; a single one may be as long as a frame
_LOGGED_REFUSALS = 100  # most stores of which a rejection is logged
_LOGGED_STORES = 20  # most stores that one line of the log names

_PING = b"hub"

_CODES = {
    CloseCode.TRY_AGAIN_LATER: BrokerCode.PEER_UNAVAILABLE,
    CloseCode.PROTOCOL_ERROR: BrokerCode.PEER_TIMEOUT,
    CloseCode.GOING_AWAY: BrokerCode.SHUTTING_DOWN,
}
"""Broker's codes for the ends of this side; all others are unspecified."""


def broker_connection(
    peerings: Peerings, queue: QueueLimits, *, dialled: bool = False, address: str = ""
) -> Connection:
    """Make a connection to a Broker endpoint; with an address if this side connects."""

    def make(connection: Connection) -> BrokerConversation:
        return BrokerConversation(connection, queue, peerings, dialled=dialled)

    return Connection(peerings.server, make, address=address)


class BrokerConversation(ZeekConversation):
    """One endpoint; also a `peers.zeek.broker.stores.forwarder.End`, and a claimant of the registry."""

    session: Session[Route]
    changes = frozenset({PeerKnown, Peered, FilterChanged})
    unsaid = "the other side closed without a goodbye"

    def __init__(self, connection: Connection, queue: QueueLimits, peerings: Peerings, *, dialled: bool) -> None:
        server = connection.server
        limits = server.settings.limits
        session: Session[Route] = Session(
            peerings.own_id,
            "connector" if dialled else "acceptor",
            server.core.routes,
            server.core.minimal_filter_for_leaves,
            frame_limit_bytes=limits.frame_bytes,
            handshake_limit_bytes=limits.handshake_bytes,
        )
        super().__init__(connection, queue, session)
        self._peerings = peerings
        self._dialled = dialled
        self._subscriptions: RemoteSubscriptions | None = None
        self._asked: set[str] = set()  # the prefixes that this hub subscribes to at the far side
        self._announcing: asyncio.TimerHandle | None = None  # set while they are to be announced to the far side
        self._far_filter: tuple[str, ...] = ()  # its last one; it counts while this hub is its gateway
        self._closing_code = 0  # the hub's code, once this side has ended the peering, or has said goodbye
        self._gateway = b""  # the id of the hub that is the gateway; empty before it is claimed
        self._claimed = b""  # the endpoint, from its claim on
        self._waiting_for_claims: asyncio.TimerHandle | None = None
        self._has_stores = False  # whether it takes part in data stores
        self._store_topics: tuple[str, ...] = ()
        self._logged: set[tuple[str, bool]] = set()
        self._commands: list[bytes] = []  # commands of stores that wait for the far side
        self._commands_bytes = 0

    @property
    def scheme(self) -> str:
        return "zeek"

    @property
    def far_name(self) -> str:
        return endpoint_text(self.session.peer_id)

    def end_of_stream(self) -> None:
        self.session.feed_eof()  # which knows whether that was expected

    def act(self, event: Event) -> int:
        match event:
            case PeerKnown():
                self._claim(event.peer_id)
            case Peered():
                self._greet(event)
            case FilterChanged():
                self._far_filter = event.filter
                if self._is_gateway:
                    self._apply_filter()
            case Skipped():
                text, address = "skipped invalid data from a Zeek", self._connection.address
                self._server.log.warning(text, address=address, messages=event.messages, reason=event.reason)
            case Envelope():
                self._server.zeek.forwarder.hear(event.sender, event)
            case Drained():
                self._connection.finish("")
            case Ended():
                self._finish(event)
        return 1

    # The registry of endpoints.

    def _claim(self, peer_id: bytes) -> None:
        try:
            self._enter_zeek(dialled=self._dialled)
        except NotRecognisedError as error:
            self._connection.turn_away(error)
        else:
            self._peerings.registry.claim(peer_id, self)

    def proceed(self) -> None:
        """It has the place of its endpoint: go on once other hubs have had time to claim the endpoint, too."""
        self._connection.guard(self._claim_gateway)

    def give_way(self) -> None:
        code = int(CloseCode.ALREADY_CONNECTED)
        self._connection.reason = f"already connected to endpoint {self.far_name} ({code})"
        self._closing_code = code
        self.session.refuse_redundant()
        self._connection.linger()

    def _claim_gateway(self) -> None:
        server, core = self._server, self._server.core
        self._claimed = self.session.peer_id
        self._gateway = core.leaves.claim(self._claimed, server.wall_us(), self._turn)
        if core.mesh.links:
            self._waiting_for_claims = server.loop.call_later(GATEWAY_S, self._connection.guard, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        if not self.session.closed:
            self._announce_now()
            self.session.proceed()
            self._connection.after_turn(self._work_on)

    def _work_on(self) -> None:
        if not self.session.closed:
            self._connection.work()

    def _greet(self, peered: Peered) -> None:
        server, connection = self._server, self._connection
        address = connection.address
        handler = self._join(Role.LEAF, name=self.far_name)
        handler.restrict(itself=False, leaves=server.settings.zeek.forwarding == "on")
        self._subscriptions = RemoteSubscriptions(server.core, handler, connection.after_turn)
        self._far_filter = peered.filter
        server.core.leaves.join(self._claimed, handler)
        server.core.attach(handler, self._ask)
        server.core.authority.on_refused[handler] = self._refuse_messages
        self._peerings.added(peered.peer_id, address)
        if self._is_gateway:
            self._apply_filter()
        self._peerings.registry.settle(peered.peer_id)
        connection.charge_user()
        connection.opened()
        server.log.info("Zeek peered", address=address, name=self.far_name, overflow=self._queue.overflow.value)
        if not self._is_gateway:
            self._log_gateway()

    def _finish(self, ended: Ended) -> None:
        connection = self._connection
        reason = connection.reason or f"{ended.text} (Broker code {int(ended.code)}, {ended.code.name.lower()})"
        if ended.by_far_side:
            connection.finish(reason)
        else:
            connection.reason = reason
            self._closing_code = self._closing_code or CloseCode.PROTOCOL_ERROR
            connection.linger()

    # Its gateway.

    @property
    def _is_gateway(self) -> bool:
        return self._gateway == self._server.id

    def _turn(self, hub: bytes) -> None:
        was_here = self._is_gateway
        self._gateway = hub
        if self._is_gateway is not was_here and self._connection.handler is not None:
            self._connection.guard(self._change_sides)

    def _change_sides(self) -> None:
        self._log_gateway()
        self._apply_filter()
        if self._announcing is not None:
            self._announcing.cancel()
        self._announce()

    def _log_gateway(self) -> None:
        hub = self._gateway
        record = self._server.core.mesh.records.get(hub)
        text = "this hub is the gateway of a Zeek now" if self._is_gateway else "a Zeek is left to another hub"
        hub_name = "" if record is None else record.name
        self._server.log.info(text, name=self.far_name, hub=hub.hex(), hub_name=hub_name)

    def _apply_filter(self) -> None:
        subscriptions = cast("RemoteSubscriptions", self._subscriptions)
        if self._is_gateway:
            subscriptions.replace(self._far_filter)
            self._join_stores(self._far_filter)
        else:
            subscriptions.replace(())
            self._leave_stores()

    # The hub's subscriptions at the far side.

    def _ask(self, change: Change) -> None:
        self._asked.update(change.added)
        self._asked.difference_update(change.removed)
        self._announce_in(_ANNOUNCE_S + _ANNOUNCE_PREFIX_S * len(self._asked))

    def announce_soon(self) -> None:
        self._announce_in(_ANNOUNCE_S)

    def _announce_in(self, seconds: float) -> None:
        if self._announcing is None:
            self._announcing = self._server.loop.call_later(seconds, self._connection.guard, self._announce)

    def _announce(self) -> None:
        self._announcing = None
        handler = self._connection.handler
        if self.session.closed:
            return
        if handler is not None and not handler.writable:  # changes merge until the far side reads on
            self._announce_in(_ANNOUNCE_S)
            return
        self._announce_now()
        self._connection.write_outgoing()

    def _announce_now(self) -> None:
        wanted = self._server.core.minimal_filter_for_leaves if self._connection.handler is None else self._asked
        topics = self._server.zeek.forwarder.topics_for(self.session.peer_id)
        self.session.announce([*wanted, *topics] if self._is_gateway else ())

    # Data stores.

    def _join_stores(self, prefixes: Sequence[str]) -> None:
        forwarder, stores = self._server.zeek.forwarder, self._peerings.stores
        if self._has_stores:
            forwarder.announced(self.session.peer_id, prefixes)
        else:
            self._has_stores = True
            forwarder.join(self.session.peer_id, self, prefixes)
            stores.enter(self.announce_soon)
        topics = tuple(filter(is_store_topic, prefixes))
        if topics != self._store_topics:
            self._store_topics = topics
            self._log_stores()
        stores.look_at(self.far_name, prefixes)

    def _leave_stores(self) -> None:
        if self._has_stores:
            self._has_stores = False
            self._store_topics = ()
            self._peerings.stores.leave(self.announce_soon, self.session.peer_id)
        self._take_commands()

    def _log_stores(self) -> None:
        stores = [store for store in map(store_of, self._store_topics) if store is not None]
        masters = sorted(name for name, is_master in stores if is_master)
        clones = sorted(name for name, is_master in stores if not is_master)
        self._server.log.info(
            "data stores of a Zeek",
            name=self.far_name,
            masters=masters[:_LOGGED_STORES],
            clones=clones[:_LOGGED_STORES],
            more=max(0, len(masters) - _LOGGED_STORES) + max(0, len(clones) - _LOGGED_STORES),
        )

    def may_say(self, name: str, *, writes: bool) -> bool:
        """See `End`: writing a store is publishing under its name; copying it is subscribing."""
        handler = self._connection.handler
        if handler is None:
            return False
        rights, action = handler.rights, handler.acts.publishing if writes else handler.acts.seeing
        if rights is None or rights.may(action, name):
            return True
        refused = (name, writes)
        if refused not in self._logged and len(self._logged) < _LOGGED_REFUSALS:
            self._logged.add(refused)
            text, address = "a Zeek may not use a data store", self._connection.address
            reason = not_granted(rights, action, name).text
            self._server.log.warning(text, address=address, store=name, reason=reason)
        return False

    def may_hear(self, name: str) -> bool:
        return self.may_say(name, writes=False)

    @property
    def user(self) -> str | None:
        """See `End`: the user whom the connection is charged to."""
        handler = self._connection.handler
        return None if handler is None or handler.rights is None else handler.rights.user.name

    def deliver(self, frame: bytes) -> bool:
        """See `End`: write a command after this turn, or let it wait; False if there is no room."""
        connection = self._connection
        handler = connection.handler
        if handler is None or self.session.closed or connection.transport.is_closing():
            return False
        if handler.writable and not self._commands:
            self.session.send(frame)
            connection.write_later()
            return True
        is_full = len(self._commands) >= QUEUE_COMMANDS or self._commands_bytes + len(frame) > QUEUE_BYTES
        if self._commands and is_full:
            return False  # the channel sends it again
        self._commands.append(frame)
        self._commands_bytes += len(frame)
        self._server.held.charge(len(frame))
        return True

    def _take_commands(self) -> list[bytes]:
        if self._commands_bytes:
            self._server.held.charge(-self._commands_bytes)
            self._commands_bytes = 0
        commands, self._commands = self._commands, []
        return commands

    # The handler's messages.

    def render(self, batches: list[Batch]) -> list[bytes]:
        if not self._is_gateway:
            self._server.core.leaves.skip(sum(batch.messages for batch in batches))
            return []
        # Commands go first: they are few, and a channel without any for 50 s is given up.
        return [*self._take_commands(), *self.forms(batches, self._peerings.form)]

    def write_more(self) -> None:
        commands = self._take_commands()
        if commands:
            self._connection.write(commands)

    # Ends.

    def ping(self) -> None:
        self.session.send(encode_ping(self._peerings.own_id, self.session.peer_id, _PING))

    def time_out(self) -> None:
        text = f"no handshake within {self._server.settings.limits.handshake_s:g} s"
        self._connection.end(CloseCode.PROTOCOL_ERROR, text)

    def drain(self, text: str) -> None:
        """The hub stops: a peer says when it has read all; others are dropped."""
        connection = self._connection
        if connection.handler is None:
            connection.end(CloseCode.GOING_AWAY, "shutting down")
        elif not self._closing_code:
            connection.reason = f"{text} ({int(CloseCode.GOING_AWAY)})"
            self._closing_code = CloseCode.GOING_AWAY
            self.session.say_goodbye(secrets.token_bytes(GOODBYE_BYTES))
            connection.write_outgoing()
            connection.end_in(GOODBYE_S)

    def close(self, code: int, text: str) -> str:
        """Drop the connection: Broker has no other word once it is peered."""
        self._closing_code = code
        self.session.drop(_CODES.get(CloseCode(code), BrokerCode.UNSPECIFIED), text)
        return f"{text} ({int(code)})"

    def leave(self, reason: str) -> None:
        server, peer_id, address = self._server, self.session.peer_id, self._connection.address
        handler = self._connection.handler
        if handler is not None and handler.id in server.core.handlers:
            server.core.detach(handler, reason)
            if self._closing_code:
                self._peerings.removed(peer_id, address, reason, self._closing_code)
            else:
                self._peerings.lost(peer_id, address, reason)
            server.vacancies.tell()
        for timer in (self._waiting_for_claims, self._announcing):
            if timer is not None:
                timer.cancel()
        self._waiting_for_claims = self._announcing = None
        if self._claimed:
            server.core.leaves.release(self._claimed)
            self._claimed = b""
        self._leave_stores()
        self._peerings.registry.release(peer_id, self)

    def conclude(self) -> None:
        self._leave_stores()
