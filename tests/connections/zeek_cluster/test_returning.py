"""Nodes whose connections to the hub break: they come back, and everybody has everybody up again, as after a start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import zmq

from peers.connections.connection import BARRED, Connection
from peers.connections.zeek_cluster import cluster
from peers.connections.zeek_cluster.sockets import Publisher, Subscriber
from peers.daemon.daemon import Daemon
from peers.values.event import Event
from tests.connections.zeek_cluster.conftest import StartNode, joined_nodes
from tests.connections.zeek_cluster.hubs import running
from tests.connections.zeek_cluster.node import ZmqNode
from tests.connections.zeek_cluster.zeek_node import ZeekNode
from tests.hubs.eventually import eventually, settle

LAYOUT = ("manager", "worker-1", "worker-2", "worker-3")

BOTH = (Subscriber, Publisher)


class Zeeks:
    """A cluster: its nodes, and the connections by which they came first, by their names."""

    def __init__(self, hub: Daemon, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._hub, self._context = hub, context
        self.nodes: dict[str, ZeekNode] = {}
        self._connections: dict[str, list[Connection]] = {}

    async def start(self, name: str) -> None:
        before = joined_nodes(self._hub)
        self.nodes[name] = ZeekNode(self._context, self._hub.endpoints[0], name, LAYOUT)
        await eventually(lambda: len(joined_nodes(self._hub)) >= len(before) + 2)
        self._connections[name] = [one for one in joined_nodes(self._hub) if one not in before]

    def stop(self, name: str) -> None:
        self.nodes.pop(name).close()

    def cut(self, name: str, kinds: tuple[type, ...] = BOTH) -> None:
        for connection in self._connections[name]:
            if isinstance(connection.conversation, kinds):
                connection.abort()

    def are_all_up(self) -> bool:
        names = set(self.nodes)
        return all(
            set(node.up.values()) == names - {node.name} and not (node.subscriptions or node.hellos)
            for node in [node.run() for node in self.nodes.values()]
        )

    def raised(self, name: str) -> list[list[tuple[str, str]]]:
        return [[one for one in node.raised if one[1] == name] for node in self.nodes.values() if node.name != name]


@pytest.fixture
async def zeeks(hub: Daemon, context: zmq.Context[zmq.Socket[bytes]]) -> AsyncIterator[Zeeks]:
    made = Zeeks(hub, context)
    for name in LAYOUT[:3]:
        await made.start(name)
    await eventually(made.are_all_up)
    yield made
    for name in list(made.nodes):
        made.stop(name)


@pytest.fixture(autouse=True)
def _no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "WAIT_S", 3600.0)


DOWN_AND_UP = ["up", "down", "up"]


@pytest.mark.parametrize("kinds", [BOTH, (Subscriber,)], ids=["both", "subscriber"])
async def test_a_node_that_comes_back_is_up_again(zeeks: Zeeks, kinds: tuple[type, ...]) -> None:
    zeeks.cut("worker-1", kinds)
    await eventually(
        lambda: zeeks.are_all_up() and zeeks.raised("worker-1") == [[(word, "worker-1") for word in DOWN_AND_UP]] * 2
    )
    assert [node.warnings for node in zeeks.nodes.values()] == [[], [], []]
    zeeks.nodes["worker-1"].publish_event("zeek.cluster.worker", Event("Demo::hello"))
    await eventually(lambda: zeeks.nodes["manager"].run().got and zeeks.nodes["worker-2"].run().got)


async def test_only_the_publisher_has_broken(hub: Daemon, zeeks: Zeeks) -> None:
    zeeks.cut("worker-1", (Publisher,))
    await eventually(lambda: len(joined_nodes(hub)) == 5)
    await eventually(lambda: len(joined_nodes(hub)) == 6)
    await settle()
    assert zeeks.are_all_up()
    assert all(len(node.raised) == 2 and not node.warnings for node in zeeks.nodes.values())


async def test_two_nodes_come_back_at_once(zeeks: Zeeks) -> None:
    zeeks.cut("worker-1")
    zeeks.cut("worker-2")
    manager = zeeks.nodes["manager"]
    await eventually(lambda: zeeks.are_all_up() and manager.raised[2:].count(("down", "worker-1")) == 1)
    assert manager.raised[2:].count(("down", "worker-2")) == 1
    assert [node.warnings for node in zeeks.nodes.values()] == [[], [], []]


async def test_nodes_come_and_go_meanwhile(hub: Daemon, zeeks: Zeeks) -> None:
    zeeks.stop("worker-2")
    zeeks.cut("worker-1")
    await eventually(lambda: len(joined_nodes(hub)) < 4)
    await zeeks.start("worker-3")
    await eventually(lambda: zeeks.are_all_up() and ("down", "worker-2") in zeeks.nodes["worker-1"].raised)
    assert [node.warnings for node in zeeks.nodes.values()] == [[], [], []]


async def test_a_hub_that_comes_back(
    context: zmq.Context[zmq.Socket[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with running("hub", [], "zeek+zmq://127.0.0.1:0") as hub:
        place = hub.endpoints[1]
        publisher, reader = ZmqNode(context, place, "publisher"), ZmqNode(context, place, "reader")
        reader.subscribe("zeek.")
        await eventually(lambda: publisher.is_told("zeek."))
    reader.close()  # Not before: the hub would unsubscribe at the publisher, which then keeps nothing.
    for _ in range(100):
        publisher.publish_event("zeek.a")
    monkeypatch.setattr(cluster, "REDIAL_S", 3600.0)
    async with running("hub", [], str(place)) as hub:
        await eventually(lambda: len(joined_nodes(hub)) == 2)
        late = ZmqNode(context, place, "late")
        late.subscribe("zeek.")
        await eventually(lambda: publisher.told.count((True, "zeek.")) == 2)
        await settle()
        assert not late.events
        for connection in joined_nodes(hub):
            connection.let_in(BARRED)
        await eventually(lambda: len(late.events) == 100)
        publisher.close()
        late.close()


async def test_a_node_that_does_not_greet_the_hub(start_node: StartNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "WAIT_S", 0.0)
    silent, other = await start_node("silent"), await start_node("other")
    topic = "zeek.cluster.nodeid.silent."
    silent.subscribe(topic)
    await eventually(lambda: other.is_told(topic))
    silent.unsubscribe(topic)
    await eventually(lambda: other.is_told(topic, is_wanted=False))
    silent.subscribe(topic)
    await eventually(lambda: other.is_told(topic))
    assert any(told.startswith("zeek.cluster.nodeid.topichub_hub_") for _, told in other.told)
