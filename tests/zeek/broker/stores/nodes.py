"""Nodes with masters and clones behind a hub that forwards between them, over a network that does what chance says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from peers.zeek.broker.messages import LENGTH, NIL_ID, Envelope, EnvelopeType, decode_envelope, encode_envelope
from peers.zeek.broker.stores.command import clone_topic, decode_command, master_topic
from peers.zeek.broker.stores.forwarder import Forwarder, ForwarderLimits
from tests.zeek.broker.stores.simulated import CALM, ClonedStore, Network, ServedStore, node_id

HUB = b"h" * 16


class Node:
    """A Broker endpoint that is peered with the hub: it has masters and clones, and takes what is for it alone.

    As C++ Broker, it sends what has no receiver only to a peer whose filter covers the topic.
    """

    def __init__(self, number: int, hub: Hub) -> None:
        self.id = node_id(number)
        self.name = f"node {number}"
        self.hub = hub
        self.masters: dict[str, ServedStore] = {}
        self.clones: dict[str, ClonedStore] = {}
        self.objects = count(1)
        self.heard: list[Envelope] = []
        self.strangers = 0
        self.reads = True
        self.says = self.hears = self.writes = True
        hub.network.join(self.name, lambda _, data: self.hear(decode_envelope(data[LENGTH.size :])))

    @property
    def filter(self) -> tuple[str, ...]:
        return tuple(sorted([*map(master_topic, self.masters), *map(clone_topic, self.clones)]))

    def sender(self, topic: str) -> Callable[[bytes, bytes], None]:
        def send(to: bytes, command: bytes) -> None:
            is_asked = any(topic.startswith(prefix) for prefix in self.hub.forwarder.topics_for(self.id))
            if to == HUB or (to == NIL_ID and is_asked):
                envelope = Envelope(self.id, to, EnvelopeType.COMMAND, topic.encode(), command)
                self.hub.network.send(self.name, "hub", encode_envelope(envelope))

        return send

    def serve(self, name: str) -> ServedStore:
        served = self.masters[name] = ServedStore(self.id, self.sender(clone_topic(name)), number=next(self.objects))
        self.hub.forwarder.announced(self.id, self.filter)
        return served

    def copy(self, name: str) -> ClonedStore:
        cloned = self.clones[name] = ClonedStore(
            self.id, self.sender(master_topic(name)), first=1000 * next(self.objects)
        )
        self.hub.forwarder.announced(self.id, self.filter)
        cloned.clone.begin()
        return cloned

    def hear(self, envelope: Envelope) -> None:
        assert envelope.sender == HUB
        self.heard.append(envelope)
        if envelope.receiver not in (NIL_ID, self.id):
            self.strangers += 1
            return
        command = decode_command(envelope.payload)
        for name, served in self.masters.items():
            if envelope.topic.decode() == master_topic(name):
                served.master.hear(command, len(envelope.payload))
        for name, cloned in self.clones.items():
            if envelope.topic.decode() == clone_topic(name):
                cloned.clone.hear(command, len(envelope.payload))

    def tick(self) -> None:
        for served in self.masters.values():
            served.master.tick()
        for cloned in self.clones.values():
            cloned.clone.tick()

    # As the hub sees it.

    def deliver(self, frame: bytes) -> bool:
        if self.reads:
            self.hub.network.send("hub", self.name, frame)
        return self.reads

    def may_say(self, _: str, *, writes: bool) -> bool:
        return self.writes if writes else self.says

    @property
    def user(self) -> str | None:
        return None

    def may_hear(self, _: str) -> bool:
        return self.hears


class Hub:
    def __init__(self, seed: int = 0, limits: ForwarderLimits | None = None) -> None:
        self.network = Network(seed)
        self.limits = limits
        self.told = 0
        self.nodes: dict[bytes, Node] = {}
        self.forwarder = self.start()
        self.network.join("hub", lambda _, data: self.hear(decode_envelope(data[LENGTH.size :])))

    def start(self) -> Forwarder:
        self.forwarder = Forwarder(HUB, limits=self.limits)
        self.forwarder.on_topics = self.tell
        for node in self.nodes.values():
            self.forwarder.join(node.id, node, node.filter)
        return self.forwarder

    def tell(self) -> None:
        self.told += 1

    def hear(self, envelope: Envelope) -> None:
        if envelope.sender in self.nodes:
            self.forwarder.hear(envelope.sender, envelope)

    def peer(self, number: int) -> Node:
        node = Node(number, self)
        self.nodes[node.id] = node
        self.forwarder.join(node.id, node, ())
        return node

    def cut(self, node: Node) -> None:
        self.network.cut.add(node.name)
        self.forwarder.leave(node.id)

    def mend(self, node: Node) -> None:
        self.network.cut.discard(node.name)
        self.forwarder.join(node.id, node, node.filter)

    def tick(self, ticks: int = 1) -> None:
        for _ in range(ticks):
            self.forwarder.tick()
            for node in self.nodes.values():
                node.tick()
            self.network.deliver()

    def settle(self, ticks: int = 100) -> None:
        self.network.faults = CALM
        self.tick(ticks)
