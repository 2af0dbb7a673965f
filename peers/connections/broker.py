"""`BrokerConversation`: a peering with a Broker endpoint.

```
Session ─▶ FilterChanged ─▶ RemoteSubscriptions ─▶ core.subscribe, in steps
       ├─▶ PeerKnown     ─▶ Registry: go on, wait, or be dropped
       └─▶ Envelope      ─▶ StoreEnd: to the Zeeks that have the other end of the store
handler ── render ──▶ data envelopes
core ─ on_filter ─▶ announce, some ms later ─▶ routing_update
core.leaves ─ on_gateway ─▶ announce everything, or nothing: another hub of the mesh is its gateway
```
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from hub.core import Core
from hub.errors import CloseCode, NotRecognisedError, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.request_frame import Item
from hub.prefixes.filter import Change
from hub.routing.routes import Route
from hub.topics import RESERVED
from peers.connections.authentication import enter_zeek, refuse_zeek, rights_of
from peers.connections.broker_peerings import Gateway, Peerings, Verdict, endpoint_text
from peers.connections.broker_stores import StoreEnd
from peers.connections.connection import Connection
from peers.zeek.broker.envelopes import Skipped
from peers.zeek.broker.messages import BrokerCode, Envelope, encode_ping
from peers.zeek.broker.session import GOODBYE_BYTES, Drained, Ended, Event, FilterChanged, Peered, PeerKnown, Session

STEP_PREFIXES = 500
"""Prefixes that are subscribed or unsubscribed in one turn: about 8 ms."""

_COMPARED_PER_STEP = 50
"""Comparing a prefix takes so much less time."""

_AT_ONCE_PREFIXES = 10_000
"""A larger filter has taken long enough to read: it is compared in a turn of its own."""


class RemoteSubscriptions:
    """The subscriptions of one peer; `later` calls a function after this turn of the loop."""

    def __init__(self, core: Core, handler: Handler, later: Callable[[Callable[[], object]], object]) -> None:
        self._core = core
        self._handler = handler
        self._later = later
        self._targets: deque[Sequence[str]] = deque()  # filters that are not compared yet
        self._wanted: dict[str, None] = {}  # what the last one that was compared wants, in its order
        self._steps: deque[tuple[bool, list[str]]] = deque()  # whether to subscribe, and to what
        self._due = False

    def replace(self, prefixes: Sequence[str]) -> None:
        """Subscribe to these and to nothing else. The hub's own topics are left out."""
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
            except RejectedError as error:  # Broker knows no refusal of a part
                self._handler.close(error.code, error.text)
        else:
            self._core.unsubscribe(self._handler, prefixes)
        return len(prefixes)

    def _compare(self) -> int:
        """Cut the changes of the next filter into steps."""
        wanted = dict.fromkeys(prefix for prefix in self._targets.popleft() if not prefix.startswith(RESERVED))
        # First what is new: what a broader prefix replaces is never without either.
        added = [prefix for prefix in wanted if prefix not in self._wanted]
        removed = [prefix for prefix in self._wanted if prefix not in wanted]
        for subscribe, changed in ((True, added), (False, removed)):
            for first in range(0, len(changed), STEP_PREFIXES):
                self._steps.append((subscribe, changed[first : first + STEP_PREFIXES]))
        compared = len(wanted) + len(self._wanted)
        self._wanted = wanted
        return compared


GOODBYE_S = 3.0
"""How long to wait for the answer to a goodbye, seconds; as Broker does."""

_ANNOUNCE_S = 0.02
"""How long changes of the hub's filter are collected before a peer is told, seconds."""

_ANNOUNCE_PREFIX_S = 1e-5
"""And so much longer for each prefix: a filter is always sent whole."""

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
    return Connection(
        peerings.server,
        lambda connection: BrokerConversation(peerings, queue, connection, dialled=dialled),
        address=address,
    )


class BrokerConversation:
    """One endpoint. See `peers.connections.conversation.Conversation`; also a claimant of the registry."""

    changes: frozenset[type] = frozenset({PeerKnown, Peered, FilterChanged})
    scheme = "zeek"
    unsaid = "the far side closed without a goodbye"
    is_held = is_bell = False
    is_quiet = False

    def __init__(self, peerings: Peerings, queue: QueueLimits, connection: Connection, *, dialled: bool) -> None:
        server = self._server = peerings.server
        limits = server.settings.limits
        self._peerings = peerings
        self._queue = queue
        self._connection = connection
        self._dialled = dialled
        self.session: Session[Route] = Session(
            peerings.own_id,
            "connector" if dialled else "acceptor",
            server.core.routes,
            server.core.minimal_filter_for_leaves,
            frame_limit_bytes=limits.frame_bytes,
            handshake_limit_bytes=limits.handshake_bytes,
        )
        self._subscriptions: RemoteSubscriptions | None = None
        self._asked: set[str] = set()
        """The prefixes that this hub subscribes to at the far side."""
        self._announcing: asyncio.TimerHandle | None = None
        """Set while the far side is to be told of them."""
        self._gateway = Gateway(server, self._turn_over)
        self._stores = StoreEnd(peerings.stores, connection, self.session, self._announce_soon)
        """Its part in data stores, while this hub is its gateway."""
        self._far_filter: tuple[str, ...] = ()
        """The last filter of the far side, which counts while this hub is its gateway."""
        self._closing_code = 0
        """The hub's code, once this side has ended the peering, or has said goodbye."""

    @property
    def far_name(self) -> str:
        """The id of the far side."""
        return endpoint_text(self.session.peer_id)

    @property
    def is_open(self) -> bool:
        """Whether the endpoint is peered."""
        return self._connection.handler is not None

    def begin(self, refusal: str) -> None:
        """Do nothing: the session has the first word ready."""
        if refusal:
            self._connection.end(CloseCode.TRY_AGAIN_LATER, refusal)

    def end_of_stream(self) -> None:
        """Tell the session, which knows whether that was expected."""
        self.session.feed_eof()

    # What the session reports.

    def act(self, event: Event) -> int:
        """Do what an event asks for; return its share of a turn."""
        match event:
            case PeerKnown():
                self._claim(event.peer_id)
            case Peered():
                self._greet(event)
            case FilterChanged():
                self._far_filter = event.filter
                if self._gateway.is_here:
                    self._hear_filter()
            case Skipped():
                self._server.log.warning(
                    "skipped what a Zeek sent",
                    address=self._connection.address,
                    messages=event.messages,
                    reason=event.reason,
                )
            case Envelope():
                self._stores.hear(event)
            case Drained():
                self._connection.finish("")
            case Ended():
                self._finish(event)
        return 1

    def _claim(self, peer_id: bytes) -> None:
        """Ask for the place of the endpoint of this id, if the Zeek is authenticated."""
        try:
            enter_zeek(self._server, self._connection, dialled=self._dialled)
        except NotRecognisedError as error:
            self._connection.turn_away(error)
            return
        verdict = self._peerings.registry.claim(peer_id, self)
        if verdict is Verdict.PROCEED:
            self._come()
        elif verdict is Verdict.REDUNDANT:
            self.give_way()

    def proceed(self) -> None:
        """Called by the registry: the connection that this one waited for has failed."""
        self._connection.guard(self._come)
        self._connection.guard(self._connection.work)

    def give_way(self) -> None:
        """Called by the registry: another connection to the same endpoint is peered."""
        code = int(CloseCode.ALREADY_CONNECTED)
        self._connection.reason = f"already connected to endpoint {self.far_name} ({code})"
        self._closing_code = code
        self.session.refuse_redundant()
        self._connection.linger()

    def _greet(self, peered: Peered) -> None:
        server, connection = self._server, self._connection
        address = connection.address
        handler = Handler(connection, role=Role.LEAF, limits=self._queue, name=self.far_name, address=address)
        handler.rights = rights_of(server, connection)
        handler.restrict(itself=False, leaves=server.settings.zeek.forwarding == "on")
        connection.join(handler)
        self._subscriptions = RemoteSubscriptions(server.core, handler, connection.after_turn)
        self._far_filter = peered.filter
        self._gateway.join(handler)
        server.core.attach(handler, self._ask)
        server.core.authority.on_refused[handler] = partial(refuse_zeek, server, connection)
        self._peerings.added(peered.peer_id, address)
        if self._gateway.is_here:
            self._hear_filter()
        self._peerings.registry.settle(peered.peer_id)
        connection.charge_user()
        connection.opened()
        server.log.info("Zeek peered", address=address, name=self.far_name, overflow=self._queue.overflow.value)
        if not self._gateway.is_here:
            self._gateway.log(self.far_name)

    def _finish(self, ended: Ended) -> None:
        connection = self._connection
        reason = connection.reason or f"{ended.text} (Broker code {int(ended.code)}, {ended.code.name.lower()})"
        if ended.by_far_side:
            connection.finish(reason)
        else:
            connection.reason = reason
            self._closing_code = self._closing_code or CloseCode.PROTOCOL_ERROR
            connection.linger()

    # Who is its gateway.

    def _come(self) -> None:
        """Go on once other hubs have had time to say that they have this endpoint."""
        if self._gateway.claim(self.session.peer_id, partial(self._connection.guard, self._go_on)):
            self._proceed()

    def _go_on(self) -> None:
        if not self.session.closed:
            self._proceed()
            self._connection.work()

    def _proceed(self) -> None:
        wanted = self._server.core.minimal_filter_for_leaves
        self.session.announce([*wanted, *self._stores.topics] if self._gateway.is_here else ())
        self.session.proceed()

    def _turn_over(self) -> None:
        """This hub has become the gateway, or is it no longer."""
        if self._connection.handler is not None:
            self._connection.guard(self._turn_over_peered)

    def _turn_over_peered(self) -> None:
        self._gateway.log(self.far_name)
        self._hear_filter()
        if self._announcing is not None:
            self._announcing.cancel()
        self._announce()

    def _hear_filter(self) -> None:
        is_here = self._gateway.is_here
        cast("RemoteSubscriptions", self._subscriptions).replace(self._far_filter if is_here else ())
        if is_here:
            self._stores.follow(self._far_filter)
        else:
            self._stores.leave()

    # What this hub wants of the far side.

    def _ask(self, change: Change) -> None:
        """The hub's filter has changed; the far side gets it a little later, together with later changes."""
        self._asked.update(change.added)
        self._asked.difference_update(change.removed)
        if self._announcing is None:
            self._announce_in(_ANNOUNCE_S + _ANNOUNCE_PREFIX_S * len(self._asked))

    def _announce_soon(self) -> None:
        """Other topics of stores are to be announced."""
        if self._announcing is None:
            self._announce_in(_ANNOUNCE_S)

    def _announce_in(self, seconds: float) -> None:
        self._announcing = self._server.loop.call_later(seconds, self._connection.guard, self._announce)

    def _announce(self) -> None:
        self._announcing = None
        handler = self._connection.handler
        if self.session.closed:
            return
        if handler is not None and not handler.writable:  # changes merge until the far side reads on
            self._announce_in(_ANNOUNCE_S)
            return
        self.session.announce([*self._asked, *self._stores.topics] if self._gateway.is_here else ())
        self._connection.write_outgoing()

    # What the handler writes.

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches as data envelopes; nothing while another hub sends them."""
        if not self._gateway.is_here:
            self._server.core.leaves.skip(sum(batch.messages for batch in batches))
            return []
        make = self._peerings.form
        parts = self._stores.take_waiting()
        lost = 0
        for batch in batches:
            form = batch.form(make)
            parts.append(form.frames(batch))
            lost += form.lost_messages
        if lost:
            self._connection.lose(lost)
        return parts

    def render_items(self, items: list[Item]) -> list[bytes]:  # noqa: ARG002 -- a leaf neither asks nor serves
        """Return nothing."""
        return []

    def render_gap(self, lost_messages: int) -> bytes:  # noqa: ARG002 -- as above
        """Return nothing: the log and `$hub/overflow` tell."""
        return b""

    def write_more(self) -> None:
        """Write commands of stores that wait."""
        waiting = self._stores.take_waiting()
        if waiting:
            self._connection.write(waiting)

    # Ends.

    def ping(self) -> None:
        """Ask for a sign of life."""
        self.session.send(encode_ping(self._peerings.own_id, self.session.peer_id, _PING))

    def time_out(self) -> None:
        """The handshake is not over."""
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
        """Report the end of the peering, once."""
        peer_id, address = self.session.peer_id, self._connection.address
        handler = self._connection.handler
        if handler is not None and handler.id in self._server.core.handlers:
            self._server.core.detach(handler, reason)
            if self._closing_code:
                self._peerings.removed(peer_id, address, reason, self._closing_code)
            else:
                self._peerings.lost(peer_id, address, reason)
            self._server.vacancies.tell()
        self._gateway.release()
        self._stores.leave()
        self._peerings.registry.release(peer_id, self)
        if self._announcing is not None:
            self._announcing.cancel()
            self._announcing = None

    def conclude(self) -> None:
        """Drop references."""
        self._stores.conclude()
