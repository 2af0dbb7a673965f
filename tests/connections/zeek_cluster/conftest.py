"""A hub that is the central broker of nodes, which are libzmq's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from peers.connections.zeek_cluster import cluster
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.transport.endpoints import Endpoint
from tests.connections.zeek_cluster.nodes import ZeekNode, ZmqBroker, ZmqNode, joined
from tests.hubs.eventually import eventually
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]

StartNode = Callable[..., Awaitable[ZmqNode]]


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture(autouse=True)
def _read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "REDIAL_S", 0.0)


@pytest.fixture
async def hub() -> AsyncIterator[Daemon]:
    listen = ["zeek+zmq://127.0.0.1:0", "tcp://127.0.0.1:0"]
    daemon = Daemon(load({"listen": listen}, {}), "hub")
    await daemon.start()
    yield daemon
    for connection in list(daemon.server.connections):
        connection.abort()
    await daemon.stop()


@pytest.fixture
def start_node(hub: Daemon, start: Callable[..., ZmqNode]) -> StartNode:
    async def start_node(node_id: str, *topics: str, receive_hwm: int = 0) -> ZmqNode:
        before = len(joined(hub))
        node = start(hub.endpoints[0], node_id, receive_hwm=receive_hwm)
        await eventually(lambda: len(joined(hub)) == before + 2)
        node.subscribe(*topics)
        return node

    return start_node


# Clusters that have a central broker of their own.


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.term()


@pytest.fixture
def start_broker(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Callable[[], ZmqBroker]]:
    brokers: list[ZmqBroker] = []

    def start() -> ZmqBroker:
        brokers.append(ZmqBroker(context))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.stop()


@pytest.fixture
def broker(start_broker: Callable[[], ZmqBroker]) -> ZmqBroker:
    return start_broker()


@pytest.fixture
def start(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Callable[..., ZmqNode]]:
    nodes: list[ZmqNode] = []

    def start(endpoint: Endpoint, node_id: str, *topics: str, **further: Any) -> ZmqNode:
        node = ZmqNode(context, endpoint, node_id, **further)
        node.subscribe(*topics)
        nodes.append(node)
        return node

    yield start
    for node in nodes:
        node.close()


@pytest.fixture
def start_zeek(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Callable[..., ZeekNode]]:
    nodes: list[ZeekNode] = []

    def start(endpoint: Endpoint, name: str, **further: Any) -> ZeekNode:
        nodes.append(ZeekNode(context, endpoint, name, **further))
        return nodes[-1]

    yield start
    for node in nodes:
        node.close()
