"""`Cluster`: what all connections of one Zeek cluster share.

```
node's XSUB ─ SUBSCRIBE ─▶ Subscriber ─▶ core.subscribe
                                └──────▶ Cluster.want ─▶ every Publisher: what to publish, and which nodes there are
core ─ on_filter ─▶ Publisher: what clients of the hub, and other hubs, want
```

A node publishes only what it was told is wanted, and learns from subscriptions which other nodes are up. So each
subscription is told, also to the node itself; its end only when no node has it any more, nor the hub (`Wanted`). In a
cluster with a central broker of its own (`FarCluster`) the same two connections lead there.

Owner: one listener, or the two diallers of one endpoint. A subscription is in the core before a node is told of it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from hub.batch import Batch
from peers.connections.zeek_cluster.far_end import NO_CURVE
from peers.connections.zeek_cluster.returning import Returning
from peers.node.node import Node
from peers.values.forms import Form
from peers.zeek.zmtp.discovery import NODE_ID
from peers.zeek.zmtp.events import HUB_ID, JSON, EventWriter
from peers.zeek.zmtp.session import Mechanism

S = TypeVar("S", bound=Hashable)


class Wanted(Generic[S]):
    """Topics, and who wants them."""

    __slots__ = ("_by_subscriber", "_subscribers")

    def __init__(self) -> None:
        # Topic → how many subscribers want it, in the order in which topics came.
        self._subscribers: dict[bytes, int] = {}
        # Subscriber → his topics, from the first of them until the last one, or he, goes.
        self._by_subscriber: dict[S, dict[bytes, None]] = {}

    def __len__(self) -> int:
        """Return how many topics are wanted."""
        return len(self._subscribers)

    def __contains__(self, topic: bytes) -> bool:
        """Return whether anybody wants exactly this topic."""
        return topic in self._subscribers

    @property
    def topics(self) -> list[bytes]:
        """Everything that a publisher that comes is told."""
        return list(self._subscribers)

    def of(self, subscriber: S) -> int:
        """Return how many topics a subscriber has."""
        return len(self._by_subscriber.get(subscriber, ()))

    def add(self, subscriber: S, topic: bytes) -> bool:
        """Take note of a subscribe, which is told to every publisher; return whether it is new for this subscriber."""
        topics = self._by_subscriber.setdefault(subscriber, {})
        if topic in topics:
            return False
        topics[topic] = None
        self._subscribers[topic] = self._subscribers.get(topic, 0) + 1
        return True

    def remove(self, subscriber: S, topic: bytes) -> bool:
        """Take note of an unsubscribe; return whether publishers are told of it."""
        topics = self._by_subscriber.get(subscriber, {})
        if topic not in topics:
            return False
        del topics[topic]
        if not topics:
            del self._by_subscriber[subscriber]
        return self._let_go(topic)

    def leave(self, subscriber: S) -> list[bytes]:
        """Take note that a subscriber is gone; return the topics whose unsubscribe publishers are told."""
        return [topic for topic in self._by_subscriber.pop(subscriber, {}) if self._let_go(topic)]

    def _let_go(self, topic: bytes) -> bool:
        count = self._subscribers[topic] - 1
        if count:
            self._subscribers[topic] = count
            return False
        del self._subscribers[topic]
        return True


TURN_COST: Final = 4_000
"""What may be done in one turn, about µs."""

_HANDED_OUT_COST: Final = TURN_COST // 2
"""Of that, for taking note of what has changed: so that those who have taken note are told in any case."""

_NOTES_PER_COST: Final = 8
"""So many publishers take note of a topic in 1 µs."""


class Listener(Protocol):
    """A publisher."""

    def note(self, topic: bytes, *, again: bool = False) -> None:
        """Take note that it is to be told of a topic; `again`: also where it knows that it is wanted."""

    def tell_some(self) -> int:
        """Tell it some of what it is to be told; return what that has cost, about µs."""

    @property
    def has_untold(self) -> bool:
        """Whether there is more."""


class Telling:
    """Of one cluster.

    Args:
        after_turn: Calls a function once this turn of the loop is over.
        publishers: All who are told.
    """

    __slots__ = ("_after_turn", "_changed", "_is_due", "_line", "_publishers")

    def __init__(self, after_turn: Callable[[Callable[[], object]], object], publishers: Collection[Listener]) -> None:
        self._after_turn = after_turn
        self._publishers = publishers
        self._changed: OrderedDict[bytes, bool] = OrderedDict()
        """Topics of which no publisher has taken note yet, and whether that is `again`."""
        self._line: OrderedDict[Listener, None] = OrderedDict()
        """Those who have something to be told, first come."""
        self._is_due = False

    def changed(self, topic: bytes, *, again: bool) -> None:
        """All publishers are to be told of a topic; `again`: also those who know that it is wanted."""
        self._changed[topic] = again or self._changed.get(topic, False)
        self._request()

    def stand(self, publisher: Listener) -> None:
        """A publisher is to be told something."""
        self._line[publisher] = None
        self._request()

    def leave(self, publisher: Listener) -> None:
        """A publisher is gone; once or more."""
        self._line.pop(publisher, None)

    def _request(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._after_turn(self._go_on)

    def _go_on(self) -> None:
        """Do a turn's share."""
        self._is_due = False
        publishers, changed, line = self._publishers, self._changed, self._line
        cost = 0
        while changed and cost < _HANDED_OUT_COST:
            topic, again = changed.popitem(last=False)
            for publisher in publishers:
                publisher.note(topic, again=again)
            cost += 1 + len(publishers) // _NOTES_PER_COST
        while line and cost < TURN_COST:
            publisher, _ = line.popitem(last=False)
            cost += publisher.tell_some()
            if publisher.has_untold:
                line[publisher] = None
        if changed or line:
            self._request()


HUB_TOPIC: Final = b"topichub.hub."
"""What the topics begin with to which hubs subscribe: the id follows in hexadecimal digits, and a dot."""

_LOOK_S: Final = 1.0
"""How often it is looked whether the mesh has changed, seconds."""

_SETTLE_S: Final = 0.05
"""How long it is waited for what else the broker tells in the same breath, seconds."""


class Fellows:
    """Hubs in a cluster.

    Args:
        node: This one.
        address: Where the broker is, for people.
        on_change: Called when this hub leaves the cluster to another one, and when it does so no more.
    """

    __slots__ = ("_address", "_has", "_hubs", "_is_told", "_looking", "_node", "_on_change", "is_left", "topic")

    def __init__(self, node: Node, address: str, on_change: Callable[[], object]) -> None:
        self._node = node
        self._address = address
        self._on_change = on_change
        self.topic = HUB_TOPIC + node.id.hex().encode() + b"."
        """What this hub subscribes to."""
        self.is_left = False
        """Whether this hub leaves the cluster to another one."""
        # The hub that has it; None before the broker has told for the first time who is there.
        self._has: bytes | None = None
        # Those that are there, with this one, once the broker has told it; as far as it has told since it is connected.
        self._hubs: set[bytes] = set()
        self._is_told = False
        self._looking: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The broker tells from now on who is there."""
        self._hubs.clear()
        self._is_told = False
        if self._has is None:
            self._leave(is_left=len(self._node.core.mesh.graph.reached) > 1)
        self._look_in(_LOOK_S)

    def end(self) -> None:
        """It tells nothing any more; as long as that is so, nothing changes."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def appeared(self, topic: bytes) -> None:
        """Somebody has subscribed to a topic that begins with `HUB_TOPIC`; once more, perhaps."""
        self._is_told = self._is_told or topic == self.topic
        hub = _hub_of(topic)
        if hub and hub not in self._hubs:
            self._hubs.add(hub)
            self._look_in(_SETTLE_S)

    def gone(self, topic: bytes) -> None:
        """Nobody has subscribed to it any more."""
        self._hubs.discard(_hub_of(topic))
        self._look_in(0)

    def _look_in(self, seconds: float) -> None:
        self.end()
        self._looking = self._node.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._look_in(_LOOK_S)
        if not self._is_told:
            return
        reached = self._node.core.mesh.graph.reached
        before, self._has = self._has, min((hub for hub in self._hubs if hub in reached), default=self._node.id)
        is_left = self._has != self._node.id
        if self._has != before and (before is not None or is_left):
            text = "Zeek cluster left to another hub of the mesh" if is_left else "Zeek cluster taken over"
            self._node.log.info(text, cluster=self._address, hub=self._has.hex())
        self._leave(is_left=is_left)

    def _leave(self, *, is_left: bool) -> None:
        if is_left != self.is_left:
            self.is_left = is_left
            self._node.zeek_clusters_left += 1 if is_left else -1
            self._on_change()


def _hub_of(topic: bytes) -> bytes:
    """Return the id in a topic; empty where there is none."""
    try:
        return bytes.fromhex(topic[len(HUB_TOPIC) : -1].decode())
    except ValueError:
        return b""


if TYPE_CHECKING:
    from peers.connections.zeek_cluster.sockets import Publisher, Subscriber


REDIAL_S: Final = 0.3
"""How long after its start publishers are not read, seconds. Sockets of libzmq dial again within 0.1 s, in any order:
of what a publisher brings before a subscriber is back, that one would lose all."""


class Cluster:
    """One cluster.

    Args:
        node: The hub.
        name: What stands in its node id; its own name if it is empty.
        serializer: In which form events are; if it is empty, in that of the first event of who came last.
        mechanism: Makes what each of its connections gets one of.
    """

    is_far = False
    """Whether it has a central broker of its own."""

    is_left = False
    """Whether the hub leaves it to another hub of the mesh, which has joined it, too."""

    def __init__(
        self,
        node: Node,
        *,
        name: str = "",
        serializer: str = "",
        mechanism: Callable[[], Mechanism] = NO_CURVE.served,
    ) -> None:
        self.node = node
        self.mechanism = mechanism
        self.reads_at_s = node.loop.time() + (0.0 if self.is_far else REDIAL_S)
        """From when on publishers are read, by the loop's clock."""
        self._is_told = bool(serializer)
        self.wanted: Wanted[object] = Wanted()
        """What the subscribers of the cluster want."""
        self.publishers: dict[Publisher, None] = {}
        """All who are told of it, from their handshakes on."""
        self.telling = Telling(node.after_turn, self.publishers)
        """When they are told."""
        self.own = HUB_ID + f"{name or node.name}_{node.id.hex()[:12]}".encode()
        """The hub's own node id, the sender of what no node has published; what comes with it has come back."""
        self._returning = Returning(self.own, node.loop, self.publishers, self._announce)
        self.mailbox = b"" if self.is_far else self._returning.mailbox
        """What the topics begin with whose events are said to the hub itself (`hear`); empty for none."""
        self._writer = EventWriter(self.own, passes_on=not self.is_far)
        self._writer.serializer = serializer.encode()

    def form(self, _: Batch) -> Form:
        """Give a batch its form for nodes: events. For `Batch.form`."""
        return Form(self._writer.write)

    def keep(self, batch: Batch, events: bytes) -> None:
        """Give a batch that a node has sent its form for the others: the bytes that have come, which are binary."""
        if self._writer.serializer != JSON:
            batch.keep_form(self.form, Form.ready(self._writer.write, events))

    def take_in(self, publisher: Publisher) -> None:
        """A publisher is about to be told what is wanted, from now on until `let_go`."""
        self.publishers[publisher] = None
        self._returning.publisher_comes(publisher)

    def let_go(self, publisher: Publisher) -> None:
        """It is gone; once or more."""
        self.publishers.pop(publisher, None)
        self._returning.publisher_goes(publisher)
        self.telling.leave(publisher)

    def write_later(self, subscriber: Subscriber) -> None:
        """A subscriber is there."""

    def hear(self, publisher: Publisher, topic: bytes, payload: bytes) -> None:
        """A node has published an event to `mailbox`, in Broker's binary format."""
        self._returning.hear(publisher, topic, payload)

    def is_wanted(self, topic: bytes) -> bool:
        """Whether publishers are told that nodes want exactly this topic."""
        return topic in self.wanted and topic not in self._returning.held

    @property
    def told_topics(self) -> list[bytes]:
        """Everything that a publisher that comes is told."""
        return [topic for topic in self.wanted.topics if topic not in self._returning.held]

    @property
    def serializer(self) -> bytes:
        """In which form events are written to nodes; empty while it is not known."""
        return self._writer.serializer

    def learn(self, serializer: bytes) -> bool:
        """A publisher's first event is in a serializer; return whether another one is used from now on."""
        before = self._writer.serializer
        if serializer == before:
            return False
        if self._is_told:
            text, is_used = "Zeek node uses another serializer than the URL says", False
        else:
            self._writer.serializer, is_used = serializer, True
            text = "Zeek cluster uses another serializer now" if before else "Zeek cluster uses a serializer"
        log = self.node.log.warning if before else self.node.log.info
        log(text, serializer=serializer.decode(), before=before.decode())
        return is_used

    def may_ask(self, topic: bytes) -> bool:  # noqa: ARG002 -- `FarCluster` looks at it
        """Whether publishers may be told that the hub wants a topic for others than nodes of the cluster."""
        return True

    def want(self, subscriber: Subscriber, topic: bytes) -> None:
        """A subscriber has asked for a topic; once more, perhaps."""
        is_first = topic not in self.wanted
        self.wanted.add(subscriber, topic)
        if not (is_first and topic.startswith(NODE_ID) and self._returning.comes(topic, subscriber)):
            self._announce(topic)

    def want_no_more(self, subscriber: Subscriber, topic: bytes) -> None:
        """A subscriber does not ask for it any more."""
        if self.wanted.remove(subscriber, topic):
            self._end(topic)

    def leave(self, subscriber: Subscriber) -> None:
        """A subscriber is gone."""
        for topic in self.wanted.leave(subscriber):
            self._end(topic)

    def _announce(self, topic: bytes) -> None:
        self.telling.changed(topic, again=True)

    def _end(self, topic: bytes) -> None:
        if topic.startswith(NODE_ID):
            self._returning.goes(topic)
        self.telling.changed(topic, again=False)


class FarCluster(Cluster):
    """One that has a central broker of its own, where the hub is a node.

    That broker tells everybody what is wanted, this hub, too. The hub gives it what its clients, its own process, Zeeks
    of other protocols and other hubs publish, but nothing that a node of any cluster has published: where it reaches
    the same cluster by another way, that would go around without end. Where another hub of the mesh has joined the same
    cluster, one of the two leaves it to the other.

    The hub is a silent node, as programs are that Zeek serves: it says no hello, and no node takes it for one. It does
    otherwise as a `peers.connections.zeek_cluster.member.Member`.
    """

    is_far = True

    def __init__(
        self,
        node: Node,
        address: str,
        *,
        name: str = "",
        serializer: str = "",
        mechanism: Callable[[], Mechanism] = NO_CURVE.dialled,
    ) -> None:
        super().__init__(node, name=name, serializer=serializer, mechanism=mechanism)
        self.address = address
        self._fellows = Fellows(node, address, self._change_sides)
        self.wanted.add(self, self._fellows.topic)
        self.speaker: Subscriber | None = None
        """The connection by which the broker tells what nodes want, and is given what the hub publishes."""

    @property
    def is_left(self) -> bool:  # type: ignore[override]
        """Whether the hub leaves it to another hub of the mesh, which has joined it, too."""
        return self._fellows.is_left

    def _change_sides(self) -> None:
        for publisher in self.publishers:
            publisher.change_sides()
        if self.speaker is not None:
            self.speaker.change_sides()

    def write_later(self, subscriber: Subscriber) -> None:
        """The broker tells what nodes want from now on."""
        self.speaker = subscriber
        self._fellows.begin()

    def keep(self, batch: Batch, events: bytes) -> None:
        """Nobody is given the bytes that have come."""

    def may_ask(self, topic: bytes) -> bool:
        """Not where nodes would take the hub for a node, and wait for its hello."""
        return not topic.startswith(NODE_ID)

    def want(self, subscriber: Subscriber, topic: bytes) -> None:  # noqa: ARG002 -- there is one, the broker
        """The broker has told all others, too."""
        if topic.startswith(HUB_TOPIC):
            self._fellows.appeared(topic)

    def want_no_more(self, subscriber: Subscriber, topic: bytes) -> None:  # noqa: ARG002 -- as above
        """The broker has told all others, too."""
        if topic.startswith(HUB_TOPIC):
            self._fellows.gone(topic)

    def leave(self, subscriber: Subscriber) -> None:
        """The broker tells nothing any more, until it is there again."""
        if self.speaker is subscriber:
            self.speaker = None
            self._fellows.end()
