"""`Cluster`: the state of one Zeek cluster; `Notices` and `Returning`: when nodes learn of each other.

```
node's XSUB ─ SUBSCRIBE ─▶ Subscriber ─▶ core.subscribe, then Cluster.want ─▶ every Publisher: topics, and nodes
core ─ on_filter ─▶ Publisher: topics of clients of the hub, and of other hubs
```

A node publishes only wanted topics, and learns from subscriptions which nodes are up. So each subscription is
sent to all nodes, also to its own; its end only when neither a node nor the hub has it any more (`Wanted`). In a
cluster with a central broker (`RemoteCluster`) both connections lead there; in a `Member` the hub has a name.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TYPE_CHECKING, Final, assert_never

from hub.messages.batch import Batch
from hub.messages.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from hub.statistics.events import zeek_node
from peers.connections.zeek_cluster.remote_end import NO_CURVE
from peers.server.server import Server
from peers.values.binary import InvalidDataError
from peers.values.event import Event, NoEventError
from peers.values.forms import Form
from peers.zeek.zmtp.discovery import GREETING, LOOK_S, NODE_ID, NODES_LIMIT, Discovery, Down, Odd, Say, Up
from peers.zeek.zmtp.events import BINARY, HUB_ID, JSON, EventWriter
from peers.zeek.zmtp.session import Mechanism

if TYPE_CHECKING:
    from peers.connections.zeek_cluster.sockets import Publisher, Subscriber


class Wanted:
    """Topics and their subscribers."""

    def __init__(self) -> None:
        self._subscribers: dict[bytes, int] = {}  # topic → number of subscribers, in the order in which topics came
        self._by_subscriber: dict[Hashable, dict[bytes, None]] = {}

    def __contains__(self, topic: bytes) -> bool:
        return topic in self._subscribers

    @property
    def topics(self) -> list[bytes]:
        return list(self._subscribers)

    def add(self, subscriber: Hashable, topic: bytes) -> bool:
        """Add a subscription; return whether it is new for this subscriber."""
        topics = self._by_subscriber.setdefault(subscriber, {})
        if topic in topics:
            return False
        topics[topic] = None
        self._subscribers[topic] = self._subscribers.get(topic, 0) + 1
        return True

    def remove(self, subscriber: Hashable, topic: bytes) -> bool:
        """Remove a subscription; return whether it was the last one to the topic."""
        topics = self._by_subscriber.get(subscriber, {})
        if topic not in topics:
            return False
        del topics[topic]
        if not topics:
            del self._by_subscriber[subscriber]
        return self._release(topic)

    def leave(self, subscriber: Hashable) -> list[bytes]:
        """Remove all subscriptions of a subscriber; return the topics that are not wanted any more."""
        return [topic for topic in self._by_subscriber.pop(subscriber, {}) if self._release(topic)]

    def _release(self, topic: bytes) -> bool:
        self._subscribers[topic] -= 1
        if self._subscribers[topic]:
            return False
        del self._subscribers[topic]
        return True


TURN_COST: Final = 4_000  # work in one turn, about µs
_HANDED_OUT_COST: Final = TURN_COST // 2  # of that, for noting changes, so that the rest is left for sending them
_NOTES_PER_COST: Final = 8  # publishers that note a topic in 1 µs


class Notices:
    """Spreads the subscriptions for the publishers of a cluster over turns.

    Args:
        after_turn: Calls a function once this turn of the loop is over.
        publishers: All of the cluster.
    """

    def __init__(self, after_turn: Callable[[Callable[[], object]], object], publishers: Collection[Publisher]) -> None:
        self._after_turn = after_turn
        self._publishers = publishers
        self._changed: OrderedDict[bytes, bool] = OrderedDict()  # topics for all publishers → `again`
        self._line: OrderedDict[Publisher, None] = OrderedDict()  # publishers with something to be sent, first come
        self._is_due = False

    def changed(self, topic: bytes, *, again: bool) -> None:
        """A topic has changed; `again`: also for publishers that know that it is wanted."""
        self._changed[topic] = again or self._changed.get(topic, False)
        self._request()

    def stand(self, publisher: Publisher) -> None:
        self._line[publisher] = None
        self._request()

    def leave(self, publisher: Publisher) -> None:
        self._line.pop(publisher, None)

    def _request(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._after_turn(self._go_on)

    def _go_on(self) -> None:
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
            cost += publisher.send_some()
            if publisher.has_unsent:
                line[publisher] = None
        if changed or line:
            self._request()


WAIT_S: Final = 5.0  # timeout for a node that comes back to greet the hub; nodes wait 10 s for a greeting's other half
_UNHEARD_S: Final = 300.0  # how long before its end a connection may have been dead; keepalive finds that out in 240 s
_PROBES_LIMIT: Final = 16  # greetings of a node that is gone that are kept


class _Known:
    """A nodeid topic; times are the loop's."""

    __slots__ = ("born_s", "ended_s", "probes", "subscriber")

    def __init__(self, born_s: float) -> None:
        self.born_s = born_s
        self.ended_s = math.inf  # when it has last gone
        self.probes: list[bytes] = []  # where its node has greeted the hub while it was gone, and was not greeted back
        self.subscriber: Subscriber | None = None  # while it is gone


class Returning:
    """Nodes whose connection has broken, and which come back under the same id.

    For all others such a node was down. For the node itself nothing has happened: its socket has kept the subscriptions
    of the others, so it would greet none of them, and none would have it up again. So it is sent the end of each nodeid
    topic that it knows, then the topic; and only then the others hear that it is there.

    ```
    nodeid topic comes back ─▶ held ─▶ which publisher is the node's? all get a probe, each greets it with its id
                                    ─▶ that one is sent all topics again, then another probe
    greeted there, or WAIT_S are over   ─▶ the others hear of the node
    ```

    A probe is a nodeid topic of the hub: a Zeek greets the hub there, and the hub greets it back, so that it waits for
    nothing. New nodes get no ends: Zeek warns of an end that it does not expect.

    Args:
        own: The hub's node id.
        loop: Of the hub.
        publishers: All of the cluster.
        announce: Called with a topic that is not held any more.
    """

    def __init__(
        self,
        own: bytes,
        loop: asyncio.AbstractEventLoop,
        publishers: Mapping[Publisher, object],
        announce: Callable[[bytes], object],
    ) -> None:
        self.mailbox = NODE_ID + own + b"."  # beginning of the topics of probes
        self.held: dict[bytes, asyncio.TimerHandle] = {}  # topics of returned nodes that others do not know yet
        self._loop = loop
        self._publishers = publishers
        self._announce = announce
        self._known: dict[bytes, _Known] = {}
        self._probes = 0  # a node greets the hub only at a probe that is new to it
        self._sent_anew: dict[Publisher, bytes] = {}  # publisher with all topics again → the probe behind

    def comes(self, topic: bytes, subscriber: Subscriber) -> bool:
        """A node subscribes to its nodeid topic, which was not wanted; return whether the topic is held."""
        known = self._known.get(topic)
        if known is None:
            if len(self._known) >= NODES_LIMIT:
                for gone in [each for each, known in self._known.items() if known.subscriber is None]:
                    del self._known[gone]
            if len(self._known) < NODES_LIMIT:
                known = self._known[topic] = _Known(self._loop.time())
                known.subscriber = subscriber
            return False
        known.subscriber = subscriber
        probes, known.probes = known.probes, []
        for probe in probes:
            _greet(subscriber, topic, probe)
        self.held[topic] = self._loop.call_later(WAIT_S, self._release, topic)
        for publisher in self._publishers:
            if publisher.node_topic == topic:
                self._send_anew(publisher)
                return True
        probe = self._new_probe()
        for publisher in self._publishers:
            if not publisher.node_topic:
                publisher.ask(probe)
        return True

    def goes(self, topic: bytes) -> None:
        if (timer := self.held.pop(topic, None)) is not None:
            timer.cancel()
        if (known := self._known.get(topic)) is not None:
            known.ended_s, known.subscriber = self._loop.time(), None

    def publisher_comes(self, publisher: Publisher) -> None:
        publisher.since_s = self._loop.time()
        if self.held:
            publisher.ask(self._new_probe())

    def publisher_goes(self, publisher: Publisher) -> None:
        self._sent_anew.pop(publisher, None)

    def _new_probe(self) -> bytes:
        self._probes += 1
        return self.mailbox + b"%d." % self._probes

    def hear(self, publisher: Publisher, topic: bytes, payload: bytes) -> None:
        try:
            event = Event.decode(payload)
        except (NoEventError, InvalidDataError):
            return
        if event.name != GREETING or len(event.args) != 2 or not isinstance(event.args[1], str):
            return
        publisher.node_topic = NODE_ID + event.args[1].encode() + b"."
        known = self._known.get(publisher.node_topic)
        if known is not None and known.subscriber is not None:
            _greet(known.subscriber, publisher.node_topic, topic)
        elif known is not None and len(known.probes) < _PROBES_LIMIT:
            known.probes.append(topic)
        if self._sent_anew.get(publisher) == topic:
            del self._sent_anew[publisher]
            self._release(publisher.node_topic)
        elif publisher.node_topic in self.held and publisher not in self._sent_anew:
            self._send_anew(publisher)

    def _send_anew(self, publisher: Publisher) -> None:
        """Send a node that has come back all nodeid topics that it knows again."""
        lost_s = self._known[publisher.node_topic].ended_s
        has_stayed = publisher.since_s <= lost_s
        for topic, known in self._known.items():
            if topic == publisher.node_topic:
                continue
            if publisher.is_sent(topic) if has_stayed else known.born_s <= lost_s <= known.ended_s + _UNHEARD_S:
                publisher.send_anew(topic)
        self._sent_anew[publisher] = probe = self._new_probe()
        publisher.ask(probe)

    def _release(self, topic: bytes) -> None:
        if (timer := self.held.pop(topic, None)) is not None:
            timer.cancel()
            self._announce(topic)


def _greet(subscriber: Subscriber, topic: bytes, probe: bytes) -> None:
    """Greet a node back, under a name that no layout has."""
    greeting = Event(GREETING, "", probe[len(NODE_ID) : -1].decode())
    _offer(subscriber, topic, greeting.encode())


def _offer(subscriber: Subscriber | None, topic: bytes, payload: bytes) -> None:
    """Send one node an event behind its queue; it is no message of the hub."""
    if subscriber is not None and (handler := subscriber.handler) is not None:
        handler.offer(Batch(encode_frame(KIND_MESSAGES, payload, key=topic, flags=BROKER_FLAGS), 1))


REDIAL_S: Final = 0.3
"""How long after its start publishers are not read, seconds. Sockets of libzmq dial again within 0.1 s, in any order: a
subscriber that is back later than a publisher would lose its events."""


class Cluster:
    """One cluster, of a listener or of the two diallers of one endpoint.

    Args:
        server: The hub.
        name: Part of the hub's node id; its own name if it is empty.
        serializer: Form of events; if it is empty, that of the first event of the publisher that came last.
        mechanism: Makes the mechanism of each connection.
    """

    is_far = False  # whether it has a central broker of its own

    is_left = False  # whether another hub of the mesh, which has joined it, too, exchanges its events

    def __init__(
        self,
        server: Server,
        *,
        name: str = "",
        serializer: str = "",
        mechanism: Callable[[], Mechanism] = NO_CURVE.served,
    ) -> None:
        self.server = server
        self.mechanism = mechanism
        self.reads_at_s = server.loop.time() + (0.0 if self.is_far else REDIAL_S)
        """From when on publishers are read, by the loop's clock."""
        self._is_fixed = bool(serializer)
        self.wanted: Wanted = Wanted()
        self.publishers: dict[Publisher, None] = {}  # from their handshakes on
        self.notices = Notices(server.after_turn, self.publishers)
        self.own = HUB_ID + f"{name or server.name}_{server.id.hex()[:12]}".encode()
        """The hub's node id, sender of events that no node has published."""
        self._returning = Returning(self.own, server.loop, self.publishers, self._announce)
        self.mailbox = b"" if self.is_far else self._returning.mailbox  # topics of events to the hub itself
        self._writer = EventWriter(self.own, passes_on=not self.is_far)
        self._writer.serializer = serializer.encode()

    def form(self, _: Batch) -> Form:
        return Form(self._writer.write)

    def keep(self, batch: Batch, events: bytes) -> None:
        if self._writer.serializer != JSON:
            batch.keep_form(self.form, Form.ready(self._writer.write, events))

    def take_in(self, publisher: Publisher) -> None:
        self.publishers[publisher] = None
        self._returning.publisher_comes(publisher)

    def let_go(self, publisher: Publisher) -> None:
        self.publishers.pop(publisher, None)
        self._returning.publisher_goes(publisher)
        self.notices.leave(publisher)

    def write_later(self, subscriber: Subscriber) -> None:
        """A subscriber is there."""

    def hear(self, publisher: Publisher, topic: bytes, payload: bytes) -> None:
        self._returning.hear(publisher, topic, payload)

    def is_wanted(self, topic: bytes) -> bool:
        """Whether nodes want exactly this topic, and publishers may know it."""
        return topic in self.wanted and topic not in self._returning.held

    @property
    def sent_topics(self) -> list[bytes]:
        return [topic for topic in self.wanted.topics if topic not in self._returning.held]

    @property
    def serializer(self) -> bytes:
        return self._writer.serializer

    def learn(self, serializer: bytes) -> bool:
        before = self._writer.serializer
        if serializer == before:
            return False
        if self._is_fixed:
            text = "Zeek node uses another serializer than the URL says"
        else:
            self._writer.serializer = serializer
            text = "Zeek cluster uses another serializer now" if before else "Zeek cluster uses a serializer"
        log = self.server.log.warning if before else self.server.log.info
        log(text, serializer=serializer.decode(), before=before.decode())
        return not self._is_fixed

    def may_ask(self, topic: bytes) -> bool:  # noqa: ARG002 -- `RemoteCluster` looks at it
        return True

    def want(self, subscriber: Subscriber, topic: bytes) -> None:
        is_first = topic not in self.wanted
        self.wanted.add(subscriber, topic)
        if not (is_first and topic.startswith(NODE_ID) and self._returning.comes(topic, subscriber)):
            self._announce(topic)

    def want_no_more(self, subscriber: Subscriber, topic: bytes) -> None:
        if self.wanted.remove(subscriber, topic):
            self._end(topic)

    def leave(self, subscriber: Subscriber) -> None:
        for topic in self.wanted.leave(subscriber):
            self._end(topic)

    def _announce(self, topic: bytes) -> None:
        self.notices.changed(topic, again=True)

    def _end(self, topic: bytes) -> None:
        if topic.startswith(NODE_ID):
            self._returning.goes(topic)
        self.notices.changed(topic, again=False)


HUB_TOPIC: Final = b"topichub.hub."  # beginning of the topics to which hubs subscribe: hexadecimal id and a dot follow

_LOOK_S: Final = 1.0  # how often it is looked whether the mesh has changed
_SETTLE_S: Final = 0.05  # how long it is waited for more subscriptions from the broker


class RemoteCluster(Cluster):
    """A cluster with a central broker of its own, where the hub is a node.

    The hub publishes there messages of its clients, its own process, Zeeks of other protocols and other hubs, but
    nothing that a node of any cluster has published, which could go around without end. Of the hubs of one mesh that
    have joined the same cluster, the one with the smallest id exchanges its events.

    The hub is a silent node, as programs are that Zeek serves: it says no hello, and no node takes it for one.
    """

    is_far = True

    def __init__(
        self,
        server: Server,
        address: str,
        *,
        name: str = "",
        serializer: str = "",
        mechanism: Callable[[], Mechanism] = NO_CURVE.dialled,
    ) -> None:
        super().__init__(server, name=name, serializer=serializer, mechanism=mechanism)
        self.address = address
        self._hub_topic = HUB_TOPIC + server.id.hex().encode() + b"."
        self.wanted.add(self, self._hub_topic)
        self.speaker: Subscriber | None = None  # the broker's connection for subscriptions and the hub's events
        self._holder: bytes | None = None  # the hub that exchanges the events; None: unknown yet
        self._hubs: set[bytes] = set()  # hubs whose subscriptions the broker has sent since it is connected
        self._is_heard = False  # the broker has sent this hub's own subscription
        self._hub_timer: asyncio.TimerHandle | None = None

    def write_later(self, subscriber: Subscriber) -> None:
        self.speaker = subscriber
        self._hubs.clear()
        self._is_heard = False
        if self._holder is None:
            self._set_left(is_left=len(self.server.core.mesh.graph.reached) > 1)
        self._look_at_hubs_in(_LOOK_S)

    def keep(self, batch: Batch, events: bytes) -> None:
        """Nothing is sent to other nodes."""

    def may_ask(self, topic: bytes) -> bool:
        return not topic.startswith(NODE_ID)

    def want(self, subscriber: Subscriber, topic: bytes) -> None:  # noqa: ARG002 -- there is one, the broker
        if topic.startswith(HUB_TOPIC):
            self._is_heard = self._is_heard or topic == self._hub_topic
            hub = _hub_of(topic)
            if hub and hub not in self._hubs:
                self._hubs.add(hub)
                self._look_at_hubs_in(_SETTLE_S)

    def want_no_more(self, subscriber: Subscriber, topic: bytes) -> None:  # noqa: ARG002 -- as above
        if topic.startswith(HUB_TOPIC):
            self._hubs.discard(_hub_of(topic))
            self._look_at_hubs_in(0)

    def leave(self, subscriber: Subscriber) -> None:
        if self.speaker is subscriber:
            self.speaker = None
            if self._hub_timer is not None:
                self._hub_timer.cancel()
                self._hub_timer = None

    def _look_at_hubs_in(self, seconds: float) -> None:
        if self._hub_timer is not None:
            self._hub_timer.cancel()
        self._hub_timer = self.server.loop.call_later(seconds, self._look_at_hubs)

    def _look_at_hubs(self) -> None:
        self._look_at_hubs_in(_LOOK_S)
        if not self._is_heard:
            return
        reached = self.server.core.mesh.graph.reached
        holder = min((hub for hub in self._hubs if hub in reached), default=self.server.id)
        before, self._holder = self._holder, holder
        is_left = holder != self.server.id
        if holder != before and (before is not None or is_left):
            text = "Zeek cluster left to another hub of the mesh" if is_left else "Zeek cluster taken over"
            self.server.log.info(text, cluster=self.address, hub=holder.hex())
        self._set_left(is_left=is_left)

    def _set_left(self, *, is_left: bool) -> None:
        if is_left != self.is_left:
            self.is_left = is_left
            self.server.zeek.clusters_left += 1 if is_left else -1
            for publisher in self.publishers:
                publisher.change_sides()
            if self.speaker is not None:
                self.speaker.change_sides()


def _hub_of(topic: bytes) -> bytes:
    try:
        return bytes.fromhex(topic[len(HUB_TOPIC) : -1].decode())
    except ValueError:
        return b""


class Member(RemoteCluster):
    """A cluster with a central broker of its own, in which the hub is a node with a name, that others see.

    ```
    subscriptions of nodes ─▶ Discovery ─▶ greetings, to the broker's XSUB
    events to this node    ─▶     └─────▶ $hub/nodes/up, $hub/nodes/down; the log
    ```

    The hub subscribes to the topics of its id and of its name, as nodes do, and to no pool: events that it shares out
    among the nodes of a pool would be lost here. Greetings are no messages of the hub, since nodes of other clusters
    would take them for greetings, too. Events of nodes to this one are messages.
    """

    def __init__(
        self,
        server: Server,
        address: str,
        *,
        name: str,
        serializer: str = "",
        mechanism: Callable[[], Mechanism] = NO_CURVE.dialled,
    ) -> None:
        super().__init__(server, address, name=name, serializer=serializer, mechanism=mechanism)
        self._discovery = Discovery(name, self.own.decode())
        server.zeek.clusters[address] = self._discovery
        self.mailbox = self._discovery.mailbox
        for topic in (self.mailbox, b"zeek.cluster.node." + name.encode() + b"."):
            self.wanted.add(self, topic)
        self._looking: asyncio.TimerHandle | None = None  # set from the first connection on, until the hub stops

    def take_in(self, publisher: Publisher) -> None:
        super().take_in(publisher)
        self._discovery.subscribing()
        self._look_again()

    def write_later(self, subscriber: Subscriber) -> None:
        super().write_later(subscriber)
        self._look_again()

    def want(self, subscriber: Subscriber, topic: bytes) -> None:
        super().want(subscriber, topic)
        if topic.startswith(NODE_ID):
            self._discovery.subscribed(topic)
            self._act()

    def want_no_more(self, subscriber: Subscriber, topic: bytes) -> None:
        super().want_no_more(subscriber, topic)
        if topic.startswith(NODE_ID):
            self._discovery.unsubscribed(topic)
            self._act()

    def hear(self, publisher: Publisher, topic: bytes, payload: bytes) -> None:  # noqa: ARG002 -- there is one
        self._discovery.hear(payload)
        self._act()

    def learn(self, serializer: bytes) -> bool:
        before = self.serializer or BINARY
        is_used = super().learn(serializer)
        if is_used and serializer != before:
            self._discovery.greet_again()
            self._act()
        return is_used

    def leave(self, subscriber: Subscriber) -> None:
        if self.speaker is not subscriber:
            return
        super().leave(subscriber)
        self._discovery.interrupted()
        if self.server.draining and self._looking is not None:
            self._looking.cancel()

    def _look_again(self) -> None:
        if self._looking is None:
            self._looking = self.server.loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._looking = None
        if not self.server.draining:
            self._discovery.look()
            self._act()
            self._look_again()

    def _act(self) -> None:
        log, announce = self.server.log, self.server.core.system_events.announce
        for change in self._discovery.changes():
            match change:
                case Say(topic, payload):
                    _offer(self.speaker, topic, payload)
                case Up(node_id, name):
                    log.info("Zeek node is up", node=name, id=node_id, cluster=self.address)
                    announce(zeek_node("up", self.address, node_id, name))
                case Down(node_id, name, reason):
                    log.info("Zeek node is down", node=name, id=node_id, cluster=self.address, reason=reason)
                    announce(zeek_node("down", self.address, node_id, name, reason))
                case Odd(reason):
                    log.warning("Zeek cluster", cluster=self.address, reason=reason)
                case _:
                    assert_never(change)
