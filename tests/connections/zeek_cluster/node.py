"""`ZmqNode`: the two sockets of a Zeek node, made of libzmq with Zeek's options."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import zmq

from peers.transport.endpoints import Endpoint
from peers.values.event import Event

HELLO = Event("Cluster::hello", "worker-1", "zeromq_worker-1")
"""An event as nodes send it to each other."""


class ZmqNode:
    """One node.

    Args:
        context: Of libzmq.
        broker: Where the central broker is.
        node_id: What it calls itself.
        receive_hwm: How many messages libzmq keeps for it that it has not read.
        secure: Sets what its sockets need for CURVE, if they are to speak it.
    """

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
