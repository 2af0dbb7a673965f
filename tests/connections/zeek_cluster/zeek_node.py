"""`ZeekNode`: a node of a cluster that finds others as Zeek's scripts do, made of libzmq's sockets."""

from __future__ import annotations

import zmq

from peers.transport.endpoints import Endpoint
from peers.values.event import Event
from peers.zeek.zmtp.events import from_json, to_json
from tests.connections.zeek_cluster.node import ZmqNode

_NODE_ID = "zeek.cluster.nodeid."
_GREETING = "Cluster::Backend::ZeroMQ::hello"
_ANSWER = "Cluster::hello"


class ZeekNode(ZmqNode):
    """One node. Zeek's main loop is `run`.

    Args:
        context: Of libzmq.
        broker: Where the central broker is.
        name: Of the node.
        layout: The names of all nodes, as `Cluster::nodes` has them.
        serializer: Which one its events are in; what is in another one is an error.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        broker: Endpoint,
        name: str,
        layout: tuple[str, ...] = ("manager", "worker-1", "hub"),
        serializer: bytes = b"broker-bin-v1",
    ) -> None:
        super().__init__(context, broker, f"zeromq_{name}_host_4242_N{id(self):x}")
        self.name = name
        self.up: dict[str, str] = {}
        """The names of those that are up, by their ids."""
        self.raised: list[tuple[str, str]] = []
        """Which of `node_up` and `node_down` were raised, and the names."""
        self.warnings: list[str] = []
        """What Zeek's reporter says."""
        self.got: list[tuple[str, Event]] = []
        """What was published to this node, or to what it subscribes to, but for greetings."""
        self._layout, self._serializer, self._is_json = layout, serializer, serializer == b"broker-json-v1"
        self._seen: set[str] = set()
        self.subscriptions: set[str] = set()
        self.hellos: set[str] = set()
        """Halves of greetings: of each that stays, Zeek's reporter warns after 10 s."""
        self._told_until = self._got_until = 0
        self.subscribe("zeek.cluster.worker", f"{_NODE_ID}{self.id}.", f"zeek.cluster.node.{name}.")

    def run(self) -> ZeekNode:
        while self._told_until < len(self.told):
            is_wanted, topic = self.told[self._told_until]
            self._told_until += 1
            if topic.startswith(_NODE_ID):
                (self._comes if is_wanted else self._goes)(topic[len(_NODE_ID) : -1])
        while self._got_until < len(self.events):
            topic, sender, serializer, payload = self.events[self._got_until]
            self._got_until += 1
            if serializer != self._serializer:
                self.warnings.append(f"serializer {serializer.decode()}")
            elif sender != self.id.encode():
                self._gets(topic.decode(), self.read(payload))
        return self

    def read(self, payload: bytes) -> Event:
        return Event.decode(from_json(payload) if self._is_json else payload)

    def write(self, event: Event) -> bytes:
        return to_json(event.encode()) if self._is_json else event.encode()

    def say(self, topic: str, event: Event) -> None:
        self.publish(topic.encode(), self.id.encode(), self._serializer, self.write(event))

    def _comes(self, node_id: str) -> None:
        if node_id != self.id and node_id not in self._seen:
            self._seen.add(node_id)
            self.say(f"{_NODE_ID}{node_id}.", Event(_GREETING, self.name, self.id))
            if node_id in self.hellos:
                self.hellos.discard(node_id)
                self._answer(node_id)
            else:
                self.subscriptions.add(node_id)

    def _goes(self, node_id: str) -> None:
        self._seen.discard(node_id)
        if node_id in self.up:
            self.raised.append(("down", self.up.pop(node_id)))
        elif node_id != self.id:
            self.warnings.append(f"unsubscription of unknown node {node_id}")

    def _gets(self, topic: str, event: Event) -> None:
        if event.name not in {_GREETING, _ANSWER}:
            self.got.append((topic, event))
            return
        name, node_id = event.args
        assert isinstance(name, str)
        assert isinstance(node_id, str)
        if event.name == _GREETING:
            if node_id in self.up:
                self.warnings.append(f"{name} sends ZeroMQ::hello twice")
            elif node_id in self.subscriptions:
                self.subscriptions.discard(node_id)
                self._answer(node_id)
            else:
                self.hellos.add(node_id)
        elif name not in self._layout:
            self.warnings.append(f"Got Cluster::hello msg from unexpected node {name}")
        elif node_id not in self.up:
            self.up[node_id] = name
            self.raised.append(("up", name))

    def _answer(self, node_id: str) -> None:
        self.say(f"{_NODE_ID}{node_id}.", Event(_ANSWER, self.name, self.id))
