"""Clusters made of libzmq with Zeek's options: nodes, nodes that find each other, brokers; and hubs beside them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import zmq

from peers.connections.connection import Connection
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.transport.endpoints import Endpoint, Scheme
from peers.values.event import Event
from peers.zeek.zmtp.events import from_json, to_json

HELLO = Event("Cluster::hello", "worker-1", "zeromq_worker-1")  # an event as nodes send it to each other


class ZmqNode:
    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        broker: Endpoint,
        node_id: str,
        receive_hwm: int = 0,
        secure: Callable[[zmq.Socket[bytes]], None] = lambda _: None,
    ) -> None:
        self.id = node_id
        self._subscriber = context.socket(zmq.XSUB)
        self._publisher = context.socket(zmq.XPUB)
        self._publisher.setsockopt(zmq.XPUB_VERBOSE, 1)
        self._publisher.setsockopt(zmq.XPUB_NODROP, 1)
        self._publisher.setsockopt(zmq.SNDHWM, 0)
        self._subscriber.setsockopt(zmq.RCVHWM, receive_hwm)
        for socket, port in ((self._subscriber, broker.port), (self._publisher, broker.xsub)):
            socket.setsockopt(zmq.LINGER, 0)
            secure(socket)
            socket.connect(f"tcp://127.0.0.1:{port}")
        self._told: list[tuple[bool, str]] = []
        self._events: list[list[bytes]] = []

    def subscribe(self, *topics: str) -> None:
        for topic in topics:
            self._subscriber.send(b"\1" + topic.encode())

    def unsubscribe(self, *topics: str) -> None:
        for topic in topics:
            self._subscriber.send(b"\0" + topic.encode())

    def ask(self, frame: bytes) -> None:
        self._subscriber.send(frame)

    def publish(self, *parts: bytes) -> None:
        self._publisher.send_multipart(parts)

    def publish_event(self, topic: str, event: Event = HELLO) -> None:
        self.publish(topic.encode(), self.id.encode(), b"broker-bin-v1", event.encode())

    @property
    def told(self) -> list[tuple[bool, str]]:
        with contextlib.suppress(zmq.Again):
            while True:
                (frame,) = self._publisher.recv_multipart(zmq.NOBLOCK)
                self._told.append((frame[:1] == b"\1", frame[1:].decode()))
        return self._told

    @property
    def events(self) -> list[list[bytes]]:
        with contextlib.suppress(zmq.Again):
            while True:
                self._events.append(self._subscriber.recv_multipart(zmq.NOBLOCK))
        return self._events

    def is_told(self, topic: str, *, is_wanted: bool = True) -> bool:
        return [wanted for wanted, one in self.told if one == topic][-1:] == [is_wanted]

    def close(self) -> None:
        self._subscriber.close()
        self._publisher.close()


_NODE_ID = "zeek.cluster.nodeid."
_GREETING = "Cluster::Backend::ZeroMQ::hello"
_ANSWER = "Cluster::hello"


class ZeekNode(ZmqNode):
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
        self.up: dict[str, str] = {}  # the names of those that are up, by their ids
        self.raised: list[tuple[str, str]] = []  # which of `node_up` and `node_down` were raised, and the names
        self.warnings: list[str] = []  # what Zeek's reporter says
        self.got: list[tuple[str, Event]] = []
        """What was published to this node, or to what it subscribes to, but for greetings."""
        self._layout, self._serializer, self._is_json = layout, serializer, serializer == b"broker-json-v1"
        self._seen: set[str] = set()
        self.subscriptions: set[str] = set()
        self.hellos: set[str] = set()  # halves of greetings: of each that stays, Zeek's reporter warns after 10 s
        self._told_until = self._got_until = 0
        self.subscribe("zeek.cluster.worker", f"{_NODE_ID}{self.id}.", f"zeek.cluster.node.{name}.")

    def run(self) -> ZeekNode:
        while self._told_until < len(self.told):
            is_wanted, told = self.told[self._told_until]
            self._told_until += 1
            if told.startswith(_NODE_ID):
                (self._comes if is_wanted else self._goes)(told[len(_NODE_ID) : -1])
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


class ZmqBroker:
    """One broker, in a thread of its own; ports that the system picks at first, and then the same ones again."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], secure: Callable[[zmq.Socket[bytes]], None] = lambda _: None
    ) -> None:
        self._context = context
        self._secure = secure
        self.endpoint = Endpoint(Scheme.ZEEK_ZMQ, "127.0.0.1")
        self.start()

    def start(self) -> None:
        control = f"inproc://control-{id(self)}"
        xsub, xpub, told = (self._context.socket(kind) for kind in (zmq.XSUB, zmq.XPUB, zmq.PAIR))
        self._teller = self._context.socket(zmq.PAIR)
        xpub.setsockopt(zmq.XPUB_VERBOSER, 1)
        xpub.setsockopt(zmq.XPUB_NODROP, 1)
        ports = []
        for socket, port in ((xpub, self.endpoint.port), (xsub, self.endpoint.xsub)):
            socket.setsockopt(zmq.LINGER, 0)
            self._secure(socket)
            socket.bind(f"tcp://127.0.0.1:{port or '*'}")
            ports.append(int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2]))
        told.bind(control)
        self._teller.connect(control)
        self.endpoint = Endpoint(Scheme.ZEEK_ZMQ, "127.0.0.1", ports[0], xsub=ports[1])
        self._thread = threading.Thread(target=_forward, args=(xsub, xpub, told))
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._teller.send(b"TERMINATE")
            self._thread.join()
            self._teller.close()


def _forward(xsub: zmq.Socket[bytes], xpub: zmq.Socket[bytes], told: zmq.Socket[bytes]) -> None:
    zmq.proxy_steerable(xsub, xpub, None, told)
    for socket in (xsub, xpub, told):
        socket.close()


@asynccontextmanager
async def running(name: str, peers: Sequence[str], *listen: str, **sections: Any) -> AsyncIterator[Daemon]:
    settings = {"listen": ["tcp://127.0.0.1:0", *listen], "peers": list(peers), **sections}
    daemon = Daemon(load(settings, {}), name)
    await daemon.start()
    try:
        yield daemon
    finally:
        for connection in list(daemon.server.connections):
            connection.abort()
        await daemon.stop()


def joined(hub: Daemon) -> list[Connection]:
    found = [one for one in hub.server.connections if one.protocol == "zeek+zmq" and one.handler is not None]
    return sorted(found, key=lambda one: type(one.conversation).__name__)
