"""The hub as a node with a name: who sees whom, by nodes that do what Zeek's scripts do, at either kind of broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import structlog
import zmq

from peers.client import Client, connect
from peers.connections.connection import BARRED, Connection
from peers.connections.zeek_cluster import cluster as module
from peers.connections.zeek_cluster.sockets import Publisher, Subscriber
from peers.daemon.daemon import Daemon
from peers.transport.endpoints import Endpoint
from peers.values import Count
from peers.values.event import Event
from tests.connections.zeek_cluster.conftest import StartNode
from tests.connections.zeek_cluster.nodes import ZeekNode, ZmqBroker, ZmqNode, joined, running
from tests.hubs.eventually import eventually, settle

StartZeek = Callable[..., ZeekNode]


@pytest.fixture(params=["libzmq", "a hub"])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Endpoint]:
    if request.param == "libzmq":
        yield request.getfixturevalue("broker").endpoint
        return
    async with running("far", [], "zeek+zmq://127.0.0.1:0") as far:
        yield far.endpoints[1]


@asynccontextmanager
async def member_of(endpoint: Endpoint, further: str = "name=hub") -> AsyncIterator[tuple[Daemon, Client]]:
    async with running("main", [f"{endpoint}&{further}"]) as daemon, connect(daemon.endpoints[0].location) as client:
        await eventually(lambda: len(joined(daemon)) == 2)
        yield daemon, client


def names(daemon: Daemon) -> list[str]:
    return sorted(name for one in daemon.server.zeek.clusters.values() for name in one.nodes.values())


def ups(*nodes: ZeekNode) -> list[int]:
    return [len(node.run().up) for node in nodes]


async def test_it_is_seen_and_sees(cluster: Endpoint, start_zeek: StartZeek) -> None:
    manager = start_zeek(cluster, "manager")
    async with member_of(cluster) as (hub, client), client.subscribe("$hub/nodes/") as told:
        await eventually(lambda: manager.run().up and names(hub) == ["manager"])
        worker = start_zeek(cluster, "worker-1")
        await eventually(lambda: ups(manager, worker) == [2, 2] and len(names(hub)) == 2)
        assert set(worker.up.values()) == {"manager", "hub"}
        assert manager.raised == [("up", "hub"), ("up", "worker-1")]
        assert all(node_id.startswith("topichub_hub_") for node_id, name in worker.up.items() if name == "hub")
        found = await client.request("$hub/nodes", None)
        assert {one["id"]: one["name"] for one in found} == {manager.id: "manager", worker.id: "worker-1"}
        assert await client.request("$hub/nodes", {"after": found[0]["id"]}) == found[1:]
        worker.close()
        await eventually(lambda: names(hub) == ["manager"])
        first = None
        async for message in told:
            if message.value["name"] == "worker-1":
                first = first or message
                if message.topic == "$hub/nodes/down":
                    break
        assert first is not None
        assert first.topic == "$hub/nodes/up"
        assert message.value == first.value | {"reason": "it has gone"}
    await eventually(lambda: manager.run().up == {})
    assert ("down", "hub") in manager.raised
    assert manager.warnings == []


async def test_what_is_said_to_it_reaches_clients(cluster: Endpoint, start_zeek: StartZeek) -> None:
    manager = start_zeek(cluster, "manager")
    async with member_of(cluster) as (_, client), client.subscribe("zeek.cluster.node") as messages:
        await eventually(lambda: manager.run().up)
        (own,) = manager.up
        for topic in ("zeek.cluster.node.hub.", f"zeek.cluster.nodeid.{own}."):
            manager.say(topic, Event("Demo::ask", Count(1)))
        found = []
        async for message in messages:
            if Event.of(message.value).name == "Demo::ask":
                found.append(message.topic)
            if len(found) == 2:
                break
        assert found == ["zeek.cluster.node.hub.", f"zeek.cluster.nodeid.{own}."]
        await client.publish("zeek.cluster.node.manager.", Event("Demo::tell", Count(2)))
        await eventually(lambda: manager.run().got)
    assert manager.got == [("zeek.cluster.node.manager.", Event("Demo::tell", Count(2)))]


@pytest.mark.parametrize("which", [0, 1])
async def test_one_connection_breaks(cluster: Endpoint, start_zeek: StartZeek, which: int) -> None:
    manager = start_zeek(cluster, "manager")
    async with member_of(cluster) as (hub, _):
        await eventually(lambda: manager.run().up and names(hub) == ["manager"])
        before = joined(hub)
        before[which].abort()
        await eventually(lambda: len(joined(hub)) == 2 and joined(hub)[which] is not before[which])
        if which == 0:
            await eventually(lambda: manager.run().raised == [("up", "hub"), ("down", "hub"), ("up", "hub")])
        worker = start_zeek(cluster, "worker-1")
        await eventually(lambda: ups(manager, worker) == [2, 2] and len(names(hub)) == 2)
        if which == 1:
            assert manager.raised == [("up", "hub"), ("up", "worker-1")]
    assert manager.warnings == []


async def test_what_is_odd_is_told_in_a_line(
    cluster: Endpoint, start_zeek: StartZeek, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.02)
    with structlog.testing.capture_logs() as logs:
        async with member_of(cluster) as (hub, _):
            twin = start_zeek(cluster, "hub")
            await eventually(lambda: twin.run().up and names(hub) == ["hub"])
            (own,) = twin.up
            twin.say(f"zeek.cluster.nodeid.{own}.", Event("Cluster::hello", Count(1)))
            twin.subscribe("zeek.cluster.nodeid.mute.")
            for text in (
                "has the name of this node, 'hub'",
                "other arguments than a name and an id",
                "mute has not said Cluster::hello",
            ):
                await eventually(lambda text=text: any(text in line.get("reason", "") for line in logs))  # type: ignore[misc]


@pytest.mark.parametrize("told", ["", "&serializer=broker-json-v1"])
async def test_a_cluster_that_uses_json(cluster: Endpoint, start_zeek: StartZeek, told: str) -> None:
    manager = start_zeek(cluster, "manager", serializer=b"broker-json-v1")
    async with member_of(cluster, "name=hub" + told) as (hub, client), client.subscribe("zeek.cluster.node.") as got:
        await eventually(lambda: manager.run().up and names(hub) == ["manager"])
        await client.publish("zeek.cluster.node.manager.", Event("Demo::tell", Count(2)))
        await eventually(lambda: manager.run().got)
        manager.say("zeek.cluster.node.hub.", Event("Demo::ask", Count(1)))
        found = [Event.of((await anext(got)).value) for _ in range(2)]
    assert manager.got == [("zeek.cluster.node.manager.", Event("Demo::tell", Count(2)))]
    assert found == [Event("Demo::tell", Count(2)), Event("Demo::ask", Count(1))]
    # It depends on who is first whether there was anything to be misunderstood; a hub may have put it right meanwhile.
    may_be = {"serializer broker-bin-v1", "hub sends ZeroMQ::hello twice"}
    assert set(manager.warnings) <= (set() if told else may_be)


@pytest.mark.parametrize("role", ["listen", "peers"])
async def test_a_serializer_that_is_said(broker: ZmqBroker, start_zeek: StartZeek, role: str) -> None:
    said = "serializer=broker-json-v1"
    peers, listen = ([f"{broker.endpoint}&{said}"], []) if role == "peers" else ([], [f"zeek+zmq://127.0.0.1:0?{said}"])
    with structlog.testing.capture_logs() as logs:
        async with running("main", peers, *listen) as daemon, connect(daemon.endpoints[0].location) as client:
            endpoint = broker.endpoint if peers else daemon.endpoints[1]
            reader = start_zeek(endpoint, "manager", serializer=b"broker-json-v1")
            wrong = start_zeek(endpoint, "worker-1")
            async with client.subscribe("zeek.wrong") as messages:
                await eventually(lambda: wrong.is_told("zeek.wrong"))
                wrong.say("zeek.wrong", Event("Demo::wrong"))
                await anext(messages)
            everybody = daemon.server.core.handlers
            wanted = "zeek.cluster.node.manager."
            await eventually(lambda: any(wanted in one.prefixes for one in everybody.values()))
            await client.publish(wanted, Event("Demo::tell", Count(2)))
            await eventually(lambda: reader.run().got)
    assert reader.got == [(wanted, Event("Demo::tell", Count(2)))]
    lines = [line for line in logs if line["event"] == "Zeek node uses another serializer than the URL says"]
    assert [line["serializer"] for line in lines] == ["broker-bin-v1"]


LAYOUT = ("manager", "worker-1", "worker-2", "worker-3")

BOTH = (Subscriber, Publisher)


class Zeeks:
    def __init__(self, hub: Daemon, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._hub, self._context = hub, context
        self.nodes: dict[str, ZeekNode] = {}
        self._connections: dict[str, list[Connection]] = {}

    async def start(self, name: str) -> None:
        before = joined(self._hub)
        self.nodes[name] = ZeekNode(self._context, self._hub.endpoints[0], name, LAYOUT)
        await eventually(lambda: len(joined(self._hub)) >= len(before) + 2)
        self._connections[name] = [one for one in joined(self._hub) if one not in before]

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
async def zeeks(
    hub: Daemon, context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Zeeks]:
    monkeypatch.setattr(module, "WAIT_S", 3600.0)
    made = Zeeks(hub, context)
    for name in LAYOUT[:3]:
        await made.start(name)
    await eventually(made.are_all_up)
    yield made
    for name in list(made.nodes):
        made.stop(name)


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
    await eventually(lambda: len(joined(hub)) == 5)
    await eventually(lambda: len(joined(hub)) == 6)
    await settle()
    assert zeeks.are_all_up()
    assert all(len(node.raised) == 2 and not node.warnings for node in zeeks.nodes.values())


async def test_a_hub_that_comes_back(context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_S", 3600.0)
    async with running("hub", [], "zeek+zmq://127.0.0.1:0") as hub:
        place = hub.endpoints[1]
        publisher, reader = ZmqNode(context, place, "publisher"), ZmqNode(context, place, "reader")
        reader.subscribe("zeek.")
        await eventually(lambda: publisher.is_told("zeek."))
    reader.close()  # Not before: the hub would unsubscribe at the publisher, which then keeps nothing.
    for _ in range(100):
        publisher.publish_event("zeek.a")
    monkeypatch.setattr(module, "REDIAL_S", 3600.0)
    async with running("hub", [], str(place)) as hub:
        await eventually(lambda: len(joined(hub)) == 2)
        late = ZmqNode(context, place, "late")
        late.subscribe("zeek.")
        await eventually(lambda: publisher.told.count((True, "zeek.")) == 2)
        await settle()
        assert not late.events
        for connection in joined(hub):
            connection.let_in(BARRED)
        await eventually(lambda: len(late.events) == 100)
        publisher.close()
        late.close()


async def test_a_node_that_does_not_greet_the_hub(start_node: StartNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_S", 3600.0)
    silent, other = await start_node("silent"), await start_node("other")
    topic = "zeek.cluster.nodeid.silent."
    silent.subscribe(topic)
    await eventually(lambda: other.is_told(topic))
    silent.unsubscribe(topic)
    await eventually(lambda: other.is_told(topic, is_wanted=False))
    silent.subscribe(topic)
    silent.unsubscribe(topic)
    silent.subscribe("zeek.mark")
    await eventually(lambda: other.is_told("zeek.mark"))
    assert other.is_told(topic, is_wanted=False)
    monkeypatch.setattr(module, "WAIT_S", 0.0)
    silent.subscribe(topic)
    await eventually(lambda: other.is_told(topic))
    assert any(told.startswith("zeek.cluster.nodeid.topichub_hub_") for _, told in other.told)


async def test_two_nodes_come_back_at_once(zeeks: Zeeks) -> None:
    zeeks.cut("worker-1")
    zeeks.cut("worker-2")
    manager = zeeks.nodes["manager"]
    await eventually(lambda: zeeks.are_all_up() and manager.raised[2:].count(("down", "worker-1")) == 1)
    assert manager.raised[2:].count(("down", "worker-2")) == 1
    assert [node.warnings for node in zeeks.nodes.values()] == [[], [], []]
