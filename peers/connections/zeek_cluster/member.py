"""`Member`: a cluster with a central broker of its own, in which the hub is a node with a name, that others see.

```
subscriptions of nodes ─▶ Discovery ─▶ greetings, to the broker's XSUB
events to this node    ─▶     └─────▶ $hub/nodes/up, $hub/nodes/down; the log
```

The hub subscribes to the topics of its id and of its name, as nodes do, and to no pool: what a cluster shares out among
the nodes of a pool would be lost here. It goes as nodes do, whose connections close.

Greetings are no messages of the hub: they are offered to the connection to the broker alone, behind what waits there,
since nodes of other clusters would take them for greetings, too. What nodes say to this one are messages, as everything
is that they publish.

Owner: the two diallers of one endpoint. Invariant: what `Discovery` wants to be said is offered in the turn in which it
has found it out. Not here: who is greeted when (`peers.zeek.zmtp.discovery`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from hub.batch import Batch
from hub.events import zeek_node
from hub.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from peers.connections.zeek_cluster.cluster import FarCluster
from peers.connections.zeek_cluster.far_end import NO_CURVE
from peers.node.node import Node
from peers.zeek.zmtp.discovery import LOOK_S, NODE_ID, Discovery, Down, Odd, Say, Up
from peers.zeek.zmtp.events import BINARY
from peers.zeek.zmtp.session import Mechanism

if TYPE_CHECKING:
    from peers.connections.zeek_cluster.sockets import Publisher, Subscriber


class Member(FarCluster):
    """One cluster.

    Args:
        node: The hub.
        address: Where the broker is, for people.
        name: What it is called there.
        serializer: As for `Cluster`.
        mechanism: As for `Cluster`.
    """

    def __init__(
        self,
        node: Node,
        address: str,
        *,
        name: str,
        serializer: str = "",
        mechanism: Callable[[], Mechanism] = NO_CURVE.dialled,
    ) -> None:
        super().__init__(node, address, name=name, serializer=serializer, mechanism=mechanism)
        self._discovery = Discovery(name, self.own.decode())
        node.zeek_clusters[address] = self._discovery
        self.mailbox = self._discovery.mailbox
        for topic in (self.mailbox, b"zeek.cluster.node." + name.encode() + b"."):
            self.wanted.add(self, topic)
        # Set from the first connection on, until the hub stops.
        self._looking: asyncio.TimerHandle | None = None

    def take_in(self, publisher: Publisher) -> None:
        """The broker brings events, and is about to be told what the hub wants."""
        super().take_in(publisher)
        self._discovery.subscribing()
        self._look_again()

    def write_later(self, subscriber: Subscriber) -> None:
        """The broker tells what nodes want from now on."""
        super().write_later(subscriber)
        self._look_again()

    def want(self, subscriber: Subscriber, topic: bytes) -> None:
        """A node has asked for a topic; once more, perhaps."""
        super().want(subscriber, topic)
        if topic.startswith(NODE_ID):
            self._discovery.subscribed(topic)
            self._act()

    def want_no_more(self, subscriber: Subscriber, topic: bytes) -> None:
        """No node asks for it any more."""
        super().want_no_more(subscriber, topic)
        if topic.startswith(NODE_ID):
            self._discovery.unsubscribed(topic)
            self._act()

    def hear(self, publisher: Publisher, topic: bytes, payload: bytes) -> None:  # noqa: ARG002 -- there is one
        """A node has published an event to this one."""
        self._discovery.hear(payload)
        self._act()

    def learn(self, serializer: bytes) -> bool:
        """A publisher's first event is in a serializer: whoever was greeted in another one has not understood it."""
        before = self.serializer or BINARY
        is_used = super().learn(serializer)
        if is_used and serializer != before:
            self._discovery.greet_again()
            self._act()
        return is_used

    def leave(self, subscriber: Subscriber) -> None:
        """The broker tells nothing any more, until it is there again."""
        if self.speaker is not subscriber:
            return
        super().leave(subscriber)
        self._discovery.interrupted()
        if self.node.draining and self._looking is not None:
            self._looking.cancel()

    def _look_again(self) -> None:
        if self._looking is None:
            self._looking = self.node.loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._looking = None
        if not self.node.draining:
            self._discovery.look()
            self._act()
            self._look_again()

    def _act(self) -> None:
        for change in self._discovery.changes():
            match change:
                case Say():
                    self._say(change)
                case Up(node_id, name):
                    self.node.log.info("Zeek node is up", node=name, id=node_id, cluster=self.address)
                    self.node.core.own_events.announce(zeek_node("up", self.address, node_id, name))
                case Down(node_id, name, reason):
                    self.node.log.info("Zeek node is down", node=name, id=node_id, cluster=self.address, reason=reason)
                    self.node.core.own_events.announce(zeek_node("down", self.address, node_id, name, reason))
                case Odd(reason):
                    self.node.log.warning("Zeek cluster", cluster=self.address, reason=reason)
                case _:
                    assert_never(change)

    def _say(self, word: Say) -> None:
        handler = None if self.speaker is None else self.speaker.handler
        if handler is not None:
            frame = encode_frame(KIND_MESSAGES, word.payload, key=word.topic, flags=BROKER_FLAGS)
            handler.offer(Batch(frame, 1))
