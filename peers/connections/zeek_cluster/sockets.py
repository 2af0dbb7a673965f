"""The connections to the sockets of a Zeek node, or of a central broker: `Publisher`, `Subscriber` and `Logger`.

```
Publisher   XPUB of a node: events ─▶ runs ─▶ core.publish;  what the cluster and the hub want ─▶ SUBSCRIBE, CANCEL
Subscriber  XSUB of a node: SUBSCRIBE topic ─▶ core.subscribe, then Cluster.want;  handler ── render ──▶ events
Logger      PUSH of a node: its log batches ─▶ core.publish
```

Zeek waits for the echo of its own subscriptions, so each one is sent, also one that a node knows. While a node does not
read, changes are kept until it reads on. Boxes of CURVE are made for each node by itself, which takes long: so nodes
stand in the line of a turn's writers by their cost.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from hub.errors import CloseCode, HubError, InvalidTopicError, RejectedError
from hub.handlers.handler import Handler
from hub.limits import PEER_PREFIXES, QueueLimits
from hub.messages.batch import Batch
from hub.prefixes import Change
from hub.routing.routes import Route
from hub.topics import RESERVED
from peers.connections.connection import Connection
from peers.connections.zeek_cluster.cluster import Cluster
from peers.connections.zeek_cluster.remote_end import NO_CURVE, PROOF_COST, Complaints, RemoteEnd
from peers.server.server import Server
from peers.zeek.zmtp.discovery import NODE_ID
from peers.zeek.zmtp.events import Addressed, EventSession, NoEvent
from peers.zeek.zmtp.logs import LogSession
from peers.zeek.zmtp.session import (
    Ended,
    Event,
    Mechanism,
    Proving,
    Ready,
    Refused,
    Session,
    SocketType,
    Subscribed,
    Unsubscribed,
    encode_subscription,
)

_SENT_AT_ONCE: Final = 64  # topics that one node is sent before it is the turn of another one
_WRITE_COST: Final = 20  # of a write, µs
_PLAIN_COST: Final = 1  # of a topic
_SEALED_COST: Final = 5  # of a topic in a box


def publisher_connection(cluster: Cluster, queue: QueueLimits, address: str = "") -> Connection:
    return Connection(cluster.server, lambda connection: Publisher(connection, queue, cluster), address=address)


class Publisher(RemoteEnd):
    """One node."""

    changes = frozenset({Proving, Ready, Addressed})

    def __init__(self, connection: Connection, queue: QueueLimits, cluster: Cluster) -> None:
        server = cluster.server
        session: EventSession[Route] = EventSession(
            server.settings.limits.frame_bytes,
            server.core.routes,
            cluster.keep,
            cluster.own,
            server.id,
            mechanism=cluster.mechanism(),
            waits=not cluster.is_far,
            mailbox=cluster.mailbox,
            learn=cluster.learn,
        )
        super().__init__(connection, queue, session)
        self._cluster = cluster
        self.is_dialled = cluster.is_far
        self._asked: set[bytes] = set()  # topics that the hub wants for others than nodes of the cluster
        self._sent: set[bytes] = set()  # topics that are wanted, as far as the node knows
        self._unsent: OrderedDict[bytes, bool] = OrderedDict()  # topic → also where the node knows it
        self._anew: set[bytes] = set()  # topics whose end is sent first
        self._is_behind = False  # as it does not read
        self.node_topic = b""  # nodeid topic of its node, once the node has greeted the hub
        self.since_s = 0.0  # when it has come, by the loop's clock

    def act(self, event: Event | Addressed[Route] | NoEvent) -> int:
        match event:
            case Proving():
                return PROOF_COST
            case Ready():
                self._greet()
            case Addressed():
                self._hear(event)
            case NoEvent():
                self.skip(event.reason)
            case Ended():
                self._finish(event)
        return 1

    def _greet(self) -> None:
        if self._become_leaf(self._ask):
            self._leave_out()
            self._cluster.take_in(self)
            for topic in self._cluster.sent_topics:
                self.note(topic)
            text = "Zeek cluster joined: it publishes" if self.is_dialled else "Zeek node publishes"
            self._server.log.info(text, address=self._connection.address)
            self._connection.bar(self._cluster.reads_at_s - self._server.loop.time())

    def _hear(self, event: Addressed[Route]) -> None:
        if (handler := self._connection.handler) is not None:
            self._server.core.publish(handler, event.run.route, event.run)
            self._cluster.hear(self, event.topic, event.payload)

    def _ask(self, change: Change) -> None:
        for prefix in change.added:
            topic = prefix.encode()
            if self._cluster.may_ask(topic):
                self._asked.add(topic)
                self.note(topic, again=True)
        for prefix in change.removed:
            topic = prefix.encode()
            self._asked.discard(topic)
            self.note(topic)

    def note(self, topic: bytes, *, again: bool = False) -> None:
        """Send the node a topic soon: that it is wanted, or not any more.

        Args:
            topic: The topic.
            again: Also where the node knows that it is wanted. Sockets of libzmq count how often, and a topic is over
                only when its end was sent as often.
        """
        self._unsent[topic] = again or self._unsent.get(topic, False)
        self._cluster.notices.stand(self)

    def is_sent(self, topic: bytes) -> bool:
        return topic in self._sent or topic in self._unsent

    def ask(self, topic: bytes) -> None:
        self._asked.add(topic)
        self.note(topic)

    def send_anew(self, topic: bytes) -> None:
        """Send the node the end of a topic, and then that it is wanted, if it is."""
        self._anew.add(topic)
        self._unsent.pop(topic, None)
        self.note(topic)

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def send_some(self) -> int:
        """Send some of it; return the cost, about µs."""
        unsent = self._unsent
        if self._connection.is_choked:
            unsent.clear()
            self._is_behind = True
            return 1
        count = min(len(unsent), _SENT_AT_ONCE)
        if said := b"".join([self._word(*unsent.popitem(last=False)) for _ in range(count)]):
            self.session.send(said)
            self._connection.write_later()
        return _WRITE_COST + count * (_SEALED_COST if self.session.is_sealed else _PLAIN_COST)

    def _word(self, topic: bytes, again: bool) -> bytes:  # noqa: FBT001 -- see `note`
        is_wanted = self._cluster.is_wanted(topic) or (topic in self._asked and not self._cluster.is_left)
        end = b""
        if topic in self._anew:
            self._anew.discard(topic)
            self._sent.discard(topic)
            end = encode_subscription(topic, is_wanted=False)
        if is_wanted is (topic in self._sent) and not (is_wanted and again):
            return end
        (self._sent.add if is_wanted else self._sent.discard)(topic)
        return end + encode_subscription(topic, is_wanted=is_wanted)

    def write_more(self) -> None:
        if self._is_behind:
            self._is_behind = False
            self._note_changes()

    def change_sides(self) -> None:
        self._leave_out()
        self._note_changes()

    def _leave_out(self) -> None:
        handler = self._connection.handler
        if handler is not None and handler.delivery.is_left != self._cluster.is_left:
            handler.leave_out(left=self._cluster.is_left)

    def _note_changes(self) -> None:
        wanted = set(self._cluster.sent_topics)
        if not self._cluster.is_left:
            wanted |= self._asked
        for topic in (*self._anew, *((wanted ^ self._sent) - self._anew)):
            self.note(topic)

    def leave(self, reason: str) -> None:
        self._cluster.let_go(self)
        super().leave(reason)


def subscriber_connection(cluster: Cluster, queue: QueueLimits, address: str = "") -> Connection:
    return Connection(cluster.server, lambda connection: Subscriber(connection, queue, cluster), address=address)


class Subscriber(RemoteEnd):
    """One node."""

    changes = frozenset({Proving, Ready, Subscribed, Unsubscribed})

    def __init__(self, connection: Connection, queue: QueueLimits, cluster: Cluster) -> None:
        limit_bytes = cluster.server.settings.limits.handshake_bytes  # it sends nothing but subscriptions
        session = Session(
            SocketType.XPUB, limit_bytes, cluster.server.id, cluster.mechanism(), waits=not cluster.is_far
        )
        super().__init__(connection, queue, session)
        self._cluster = cluster
        self.is_dialled = cluster.is_far
        self._refused = Complaints(connection, "subscription of a Zeek node refused")
        self._put_off: dict[str, None] = {}  # subscriptions while the cluster is left to another hub

    @property
    def handler(self) -> Handler | None:
        return self._connection.handler

    def act(self, event: Event) -> int:
        match event:
            case Proving():
                return PROOF_COST
            case Ready():
                if self._become_leaf():
                    self._cluster.write_later(self)
                    text = "Zeek cluster joined: it subscribes" if self.is_dialled else "Zeek node subscribes"
                    self._server.log.info(text, address=self._connection.address)
            case Subscribed():
                self._subscribe(event.topic)
            case Unsubscribed():
                self._unsubscribe(event.topic)
            case Refused(reason, is_subscription):
                (self._refuse if is_subscription else self.skip)(reason)
            case Ended():
                self._finish(event)
        return 1

    def _subscribe(self, topic: bytes) -> None:
        handler = self._connection.handler
        if handler is None:
            return
        try:
            prefix = _prefix(topic)
            if self._cluster.is_left:
                if prefix not in self._put_off and len(self._put_off) >= PEER_PREFIXES:
                    raise RejectedError(CloseCode.BAD_DATA, "it has asked for too many topics")
                self._put_off[prefix] = None
            elif prefix not in handler.prefixes:
                self._server.core.subscribe(handler, (prefix,))
        except HubError as error:
            self._refuse(error.text if isinstance(error, RejectedError) else str(error))
            return
        if topic.startswith(NODE_ID) and not (handler.name or self.is_dialled):
            handler.name = topic[len(NODE_ID) :].decode().removesuffix(".")
        self._cluster.want(self, topic)

    def _unsubscribe(self, topic: bytes) -> None:
        handler = self._connection.handler
        if handler is not None:
            try:
                prefix = _prefix(topic)
                self._put_off.pop(prefix, None)
                self._server.core.unsubscribe(handler, (prefix,))
            except InvalidTopicError:
                return  # it was refused when it came
            self._cluster.want_no_more(self, topic)

    def change_sides(self) -> None:
        handler = self._connection.handler
        if handler is None:
            return
        if self._cluster.is_left:
            self._put_off.update(dict.fromkeys(handler.prefixes))
            self._server.core.unsubscribe(handler, tuple(handler.prefixes))
            return
        put_off, self._put_off = self._put_off, {}
        for prefix in put_off:
            try:
                self._server.core.subscribe(handler, (prefix,))
            except HubError as error:
                self._refuse(error.text if isinstance(error, RejectedError) else str(error))

    def _refuse(self, reason: str) -> None:
        self._server.zeek.refused_subscriptions += 1
        self._refused.add(reason)

    def render(self, batches: list[Batch]) -> list[bytes]:
        parts = self.forms(batches, self._cluster.form)
        return [self.session.seal(part) for part in parts] if self.session.is_sealed else parts

    def leave(self, reason: str) -> None:
        self._refused.end()
        super().leave(reason)
        self._cluster.leave(self)


def _prefix(topic: bytes) -> str:
    try:
        prefix = topic.decode()
    except UnicodeDecodeError as error:
        raise InvalidTopicError(f"a topic is not UTF-8: {error.reason}") from error
    if prefix.startswith(RESERVED):
        raise InvalidTopicError(f"{RESERVED} is for clients of the hub")
    return prefix


def logger_connection(
    server: Server, queue: QueueLimits, mechanism: Callable[[], Mechanism] = NO_CURVE.served
) -> Connection:
    return Connection(server, lambda connection: Logger(connection, queue, mechanism()))


class Logger(RemoteEnd):
    """One node."""

    changes = frozenset({Proving, Ready})

    def __init__(self, connection: Connection, queue: QueueLimits, mechanism: Mechanism) -> None:
        server = connection.server
        session: LogSession[Route] = LogSession(
            server.settings.limits.frame_bytes, server.core.routes, mechanism, waits=True
        )
        super().__init__(connection, queue, session)

    @property
    def scheme(self) -> str:
        return "zeek+log"

    def act(self, event: Event | NoEvent) -> int:
        match event:
            case Proving():
                return PROOF_COST
            case Ready():
                if self._become_leaf():
                    self._server.log.info("Zeek node logs", address=self._connection.address)
            case NoEvent():
                self.skip(event.reason)
            case Ended():
                self._finish(event)
        return 1
