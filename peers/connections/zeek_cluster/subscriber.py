"""`Subscriber`: the XSUB of a Zeek node, or of a central broker, which gets events and says which.

```
SUBSCRIBE topic ─▶ core.subscribe, then Cluster.want
handler ── render ──▶ events, 4 parts each
```

A node that does not read has a queue like everybody, and everybody else goes on. Boxes of CURVE are made for each
node by itself, which takes long: so nodes stand in the line of a turn's writers (`hub.writers`) by what they cost.

Owner: one `Connection`. Invariant: whoever is told that a node wants a topic publishes it to a core in which the node's
subscription stands. Cost: per read, and 0.5 µs a message that no other node has made ready.
"""

from __future__ import annotations

from hub.batch import Batch
from hub.errors import CloseCode, HubError, InvalidTopicError, RejectedError
from hub.handler import Handler
from hub.limits import PEER_LIMITS
from hub.overflow import QueueLimits
from hub.topics import RESERVED
from peers.connections.connection import Connection
from peers.connections.zeek_cluster.cluster import Cluster
from peers.connections.zeek_cluster.complaints import Complaints
from peers.connections.zeek_cluster.far_end import PROOF_COST, FarEnd
from peers.zeek.zmtp.discovery import NODE_ID
from peers.zeek.zmtp.session import Ended, Event, Proving, Ready, Refused, Session, SocketType, Subscribed, Unsubscribed

__all__ = ["Subscriber", "subscriber_connection"]


def subscriber_connection(cluster: Cluster, queue: QueueLimits, address: str = "") -> Connection:
    """Make a connection to the XSUB of a node, or of a central broker.

    Args:
        cluster: That it belongs to.
        queue: Queue of its handler.
        address: Where the broker is, which this hub dials; empty for a node that has come.
    """
    return Connection(cluster.node, lambda connection: Subscriber(cluster, queue, connection), address=address)


class Subscriber(FarEnd):
    """One node. See `peers.connections.conversation.Conversation`."""

    __slots__ = ("_cluster", "_put_off", "_refused", "is_dialled")

    changes: frozenset[type] = frozenset({Proving, Ready, Subscribed, Unsubscribed})

    def __init__(self, cluster: Cluster, queue: QueueLimits, connection: Connection) -> None:
        limit_bytes = cluster.node.settings.limits.handshake_bytes  # it sends nothing but subscriptions
        session = Session(SocketType.XPUB, limit_bytes, cluster.node.id, cluster.mechanism(), waits=not cluster.is_far)
        super().__init__(cluster.node, queue, connection, session)
        self._cluster = cluster
        self.is_dialled = cluster.is_far
        self._refused = Complaints(connection, "subscription of a Zeek node refused")
        # What it has asked for while the cluster is left to another hub.
        self._put_off: dict[str, None] = {}

    @property
    def handler(self) -> Handler | None:
        """What it gets is offered here, while it is part of the hub."""
        return self._connection.handler

    def act(self, event: Event) -> int:
        """Do what an event asks for; return its share of a turn."""
        match event:
            case Proving():
                return PROOF_COST
            case Ready():
                if self._join():
                    self._cluster.write_later(self)
                    text = "Zeek cluster joined: it subscribes" if self.is_dialled else "Zeek node subscribes"
                    self._node.log.info(text, address=self._connection.address)
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
                self._put_off_one(prefix)
            elif prefix not in handler.prefixes:
                self._node.core.subscribe(handler, (prefix,))
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
                self._node.core.unsubscribe(handler, (prefix,))
            except InvalidTopicError:
                return  # it was refused when it came
            self._cluster.want_no_more(self, topic)

    def _put_off_one(self, prefix: str) -> None:
        if prefix not in self._put_off and len(self._put_off) >= PEER_LIMITS.prefixes:
            raise RejectedError(CloseCode.BAD_DATA, "it has asked for too many topics")
        self._put_off[prefix] = None

    def change_sides(self) -> None:
        """The cluster is left to another hub, which gives it what it wants; or is not any more."""
        handler = self._connection.handler
        if handler is None:
            return
        if self._cluster.is_left:
            self._put_off.update(dict.fromkeys(handler.prefixes))
            self._node.core.unsubscribe(handler, tuple(handler.prefixes))
            return
        put_off, self._put_off = self._put_off, {}
        for prefix in put_off:
            try:
                self._node.core.subscribe(handler, (prefix,))
            except HubError as error:
                self._refuse(error.text if isinstance(error, RejectedError) else str(error))

    def _refuse(self, reason: str) -> None:
        """A subscription is not taken, and nobody is told of it; the node goes on."""
        self._node.zeek_refused_subscriptions += 1
        self._refused.add(reason)

    def render(self, batches: list[Batch]) -> list[bytes]:
        """Return batches as events."""
        parts = []
        lost = 0
        for batch in batches:
            form = batch.form(self._cluster.form)
            parts.append(form.frames(batch))
            lost += form.lost_messages
        if lost:
            self._connection.lose(lost)
        return [self.session.seal(part) for part in parts] if self.session.is_sealed else parts

    def leave(self, reason: str) -> None:
        """The node is gone, and so is all that it wanted; once or more."""
        self._refused.end()
        super().leave(reason)
        self._cluster.leave(self)


def _prefix(topic: bytes) -> str:
    """Return what is subscribed to in the core.

    Raises:
        InvalidTopicError: The hub has no such topics, or they are its own.
    """
    try:
        prefix = topic.decode()
    except UnicodeDecodeError as error:
        raise InvalidTopicError(f"a topic is not UTF-8: {error.reason}") from error
    if prefix.startswith(RESERVED):
        raise InvalidTopicError(f"{RESERVED} is for clients of the hub")
    return prefix
