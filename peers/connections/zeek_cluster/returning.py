"""`Returning`: nodes of a Zeek cluster whose connection has broken, and which come back under the same id.

For all others such a node was down. For the node itself nothing has happened: its socket has kept the subscriptions of
the others, so it would greet none of them, and none of them would have it `up` again. So it is told anew: the end of
each `zeek.cluster.nodeid.` topic that it knows, then the topic; and only then the others are told that it is there.

```
nodeid topic comes back ─▶ held back ─▶ which publisher is the node's? told a probe, each greets it with its id
                                     ─▶ that one is told all topics anew, then another probe
greeted there, or WAIT_S are over    ─▶ the others are told of the node
```

A probe is a nodeid topic of the hub. A Zeek that is told one greets the hub there; the hub greets it back, so that it
waits for nothing. New nodes are told no ends: Zeek warns of an end that it does not expect.

Owner: a cluster whose central broker is the hub. Memory: at most `NODES_LIMIT` topics.
"""

from __future__ import annotations

import math
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from hub.batch import Batch
from hub.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from peers.values.event import Event, NoEventError
from peers.values.layout import InvalidDataError
from peers.zeek.zmtp.discovery import GREETING, NODE_ID, NODES_LIMIT

if TYPE_CHECKING:
    from peers.connections.zeek_cluster.sockets import Publisher, Subscriber

WAIT_S: Final = 5.0
"""How long a node that comes back may take to greet the hub, seconds: nodes wait 10 s for a greeting's other half."""

_UNHEARD_S: Final = 300.0
"""How long before its end a connection may have brought nothing any more, seconds: keepalive finds that out in 240."""

_PROBES_LIMIT: Final = 16
"""Most greetings of a node that is gone that are kept."""


class _Known:
    """A nodeid topic; times are the loop's."""

    __slots__ = ("born_s", "ended_s", "probes", "subscriber")

    def __init__(self, born_s: float) -> None:
        self.born_s = born_s
        self.ended_s = math.inf
        """When it has last gone."""
        self.probes: list[bytes] = []
        """Where its node has greeted the hub while it was gone, and was not greeted back."""
        # None while it is gone.
        self.subscriber: Subscriber | None = None


class Returning:
    """Those of one cluster.

    Args:
        own: The hub's node id.
        loop: For `WAIT_S`.
        publishers: All connections that are told of topics.
        announce: Tells them of a topic that was held back.
    """

    def __init__(
        self,
        own: bytes,
        loop: AbstractEventLoop,
        publishers: Mapping[Publisher, object],
        announce: Callable[[bytes], object],
    ) -> None:
        self.mailbox = NODE_ID + own + b"."
        """What the topics of probes begin with."""
        self.held: dict[bytes, TimerHandle] = {}
        """Topics of nodes that have come back, and of which others are not told yet."""
        self._loop = loop
        self._publishers = publishers
        self._announce = announce
        self._known: dict[bytes, _Known] = {}
        # Counts probes: a node greets the hub at one that it was not told before.
        self._probes = 0
        # Publishers that were told all anew → the probe behind that.
        self._told_anew: dict[Publisher, bytes] = {}

    # Nodes come and go.

    def comes(self, topic: bytes, subscriber: Subscriber) -> bool:
        """A node subscribes to its nodeid topic, which nobody had; return whether others are to be told of it later."""
        known = self._known.get(topic)
        if known is None:
            if len(self._known) >= NODES_LIMIT:
                self._forget_gone()
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
                self._tell_anew(publisher)
                return True
        self._probe_all()
        return True

    def goes(self, topic: bytes) -> None:
        """Nobody has the topic any more."""
        if (timer := self.held.pop(topic, None)) is not None:
            timer.cancel()
        if (known := self._known.get(topic)) is not None:
            known.ended_s, known.subscriber = self._loop.time(), None

    def _forget_gone(self) -> None:
        for topic in [topic for topic, known in self._known.items() if known.subscriber is None]:
            del self._known[topic]

    # Which publisher belongs to which node.

    def publisher_comes(self, publisher: Publisher) -> None:
        """A publisher is about to be told what is wanted."""
        publisher.since_s = self._loop.time()
        if self.held:
            publisher.tell(self._new_probe())

    def publisher_goes(self, publisher: Publisher) -> None:
        """It is gone; once or more."""
        self._told_anew.pop(publisher, None)

    def _probe_all(self) -> None:
        probe = self._new_probe()
        for publisher in self._publishers:
            if not publisher.node_topic:
                publisher.tell(probe)

    def _new_probe(self) -> bytes:
        self._probes += 1
        return self.mailbox + b"%d." % self._probes

    def hear(self, publisher: Publisher, topic: bytes, payload: bytes) -> None:
        """A node has published an event under a topic that begins with `mailbox`: whose publisher it is."""
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
        if self._told_anew.get(publisher) == topic:
            del self._told_anew[publisher]
            self._release(publisher.node_topic)
        elif publisher.node_topic in self.held and publisher not in self._told_anew:
            self._tell_anew(publisher)

    # What is done about it.

    def _tell_anew(self, publisher: Publisher) -> None:
        """Tell a node that has come back all nodeid topics that it knows anew."""
        lost_s = self._known[publisher.node_topic].ended_s
        has_stayed = publisher.since_s <= lost_s
        for topic, known in self._known.items():
            if topic == publisher.node_topic:
                continue
            if publisher.is_told(topic) if has_stayed else known.born_s <= lost_s <= known.ended_s + _UNHEARD_S:
                publisher.tell_anew(topic)
        self._told_anew[publisher] = probe = self._new_probe()
        publisher.tell(probe)

    def _release(self, topic: bytes) -> None:
        if (timer := self.held.pop(topic, None)) is not None:
            timer.cancel()
            self._announce(topic)


def _greet(subscriber: Subscriber, topic: bytes, probe: bytes) -> None:
    """Greet a node back, under a name that no layout has."""
    if (handler := subscriber.handler) is not None:
        greeting = Event(GREETING, "", probe[len(NODE_ID) : -1].decode())
        handler.offer(Batch(encode_frame(KIND_MESSAGES, greeting.encode(), key=topic, flags=BROKER_FLAGS), 1))
