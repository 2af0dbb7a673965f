"""The hub as a node of a cluster whose central broker is libzmq's proxy, or another hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import structlog
import zmq

from peers.client import Message, connect
from peers.daemon.daemon import Daemon
from peers.transport.endpoints import Endpoint
from peers.values import Count
from peers.values.event import Event
from tests.connections.zeek_cluster.hubs import joined, running
from tests.connections.zeek_cluster.node import HELLO, ZmqNode
from tests.connections.zeek_cluster.zmq_broker import ZmqBroker
from tests.hubs.eventually import eventually

StartNode = Callable[..., ZmqNode]


@pytest.fixture
def start(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[StartNode]:
    nodes: list[ZmqNode] = []

    def start(endpoint: Endpoint, node_id: str, *topics: str) -> ZmqNode:
        node = ZmqNode(context, endpoint, node_id)
        node.subscribe(*topics)
        nodes.append(node)
        return node

    yield start
    for node in nodes:
        node.close()


@pytest.fixture
async def hub(broker: ZmqBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Daemon]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with running("hub", [str(broker.endpoint)]) as daemon:
        await eventually(lambda: len(joined(daemon)) == 2)
        yield daemon


def numbers(events: list[list[bytes]]) -> list[int]:
    known = {number(value).encode(): value for value in range(10)}
    return [known[parts[3]] for parts in events]


async def test_both_directions(hub: Daemon, broker: ZmqBroker, start: StartNode) -> None:
    node = start(broker.endpoint, "zeromq_worker-1", "zeek.to")
    async with connect(hub.endpoints[0].location) as client, client.subscribe("zeek.") as messages:
        await eventually(lambda: node.is_told("zeek.") and is_wanted(hub, "zeek.to"))
        await client.publish("zeek.to.nodes", HELLO)
        await client.publish("zeek.to.nodes", "no event")
        await eventually(lambda: node.events)
        node.publish_event("zeek.from")
        found = [await anext(messages) for _ in range(3)]
    assert [(message.topic, message.labels) for message in found] == [
        ("zeek.to.nodes", ()),
        ("zeek.to.nodes", ()),
        ("zeek.from", ("zeek-node=zeromq_worker-1",)),
    ]
    ((topic, sender, serializer, payload),) = node.events
    assert (topic, serializer, payload) == (b"zeek.to.nodes", b"broker-bin-v1", HELLO.encode())
    assert sender.startswith(b"topichub_hub_")


async def test_it_is_silent(hub: Daemon, broker: ZmqBroker, start: StartNode) -> None:
    node = start(broker.endpoint, "node", "zeek.cluster.nodeid.node.")
    async with connect(hub.endpoints[0].location) as client:
        async with client.subscribe("zeek.cluster.nodeid."), client.subscribe("zeek.cluster.nodeid.x."):
            async with client.subscribe("zeek.a"):
                await eventually(lambda: node.is_told("zeek.a"))
            await eventually(lambda: node.is_told("zeek.a", is_wanted=False))
        async with client.subscribe("zeek.b"):
            await eventually(lambda: node.is_told("zeek.b"))
    told = {topic for _, topic in node.told}
    assert told == {"zeek.cluster.nodeid.node.", "zeek.a", "zeek.b", f"topichub.hub.{hub.node.id.hex()}."}
    assert node.events == []
    assert {one.far_name for one in joined(hub)} == {""}


async def test_a_broker_that_is_restarted(hub: Daemon, broker: ZmqBroker, start: StartNode) -> None:
    node = start(broker.endpoint, "node", "zeek.to")
    async with connect(hub.endpoints[0].location) as client, client.subscribe("zeek.from") as messages:
        await eventually(lambda: node.is_told("zeek.from") and is_wanted(hub, "zeek.to"))
        for step in range(2):
            broker.stop()
            await eventually(lambda: not joined(hub))
            broker.start()
            # libzmq asks again when it is looked for events
            await eventually(lambda: node.events is not None and is_wanted(hub, "zeek.to"))
            got = asyncio.ensure_future(came(messages, number(step)))
            # libzmq tells nobody that its own XPUB is connected again, so the node goes on until something has come
            while not got.done():
                node.publish_event("zeek.from", number(step))
                await asyncio.sleep(0.01)
            await client.publish("zeek.to", number(step))
            await eventually(lambda count=step + 1: len(node.events) == count)
    assert numbers(node.events) == [0, 1]


@pytest.mark.parametrize("which", [0, 1])
async def test_one_connection_breaks(hub: Daemon, broker: ZmqBroker, start: StartNode, which: int) -> None:
    node = start(broker.endpoint, "node", "zeek.to")
    async with connect(hub.endpoints[0].location) as client, client.subscribe("zeek.from") as messages:
        await eventually(lambda: node.is_told("zeek.from") and is_wanted(hub, "zeek.to"))
        told = len(node.told)
        before = joined(hub)
        before[which].abort()
        await eventually(lambda: len(joined(hub)) == 2 and joined(hub)[which] is not before[which])
        assert joined(hub)[1 - which] is before[1 - which]
        # The first subscription may have been told twice, and the second time count here: what is told last decides.
        await eventually(lambda: is_wanted(hub, "zeek.to") and (which or len(node.told) >= told + 2))
        await eventually(lambda: node.is_told("zeek.from"))
        node.publish_event("zeek.from")
        assert Event.of((await anext(messages)).value) == HELLO
        await client.publish("zeek.to", HELLO)
        await eventually(lambda: node.events)


async def test_clusters_stay_apart(
    start_broker: Callable[[], ZmqBroker], start: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first, second = start_broker(), start_broker()
    async with running("hub", [str(first.endpoint), str(second.endpoint)]) as hub:
        one, other = start(first.endpoint, "one", "zeek."), start(second.endpoint, "other", "zeek.")
        async with connect(hub.endpoints[0].location) as client, client.subscribe("zeek.a") as messages:
            await eventually(lambda: one.is_told("zeek.a") and other.is_told("zeek.a") and wanting(hub, "zeek.") == 2)
            one.publish_event("zeek.a", number(1))
            await anext(messages)
            await client.publish("zeek.a", number(2))
            await eventually(lambda: len(one.events) == 2 and other.events)
    assert numbers(one.events) == [1, 2]
    assert numbers(other.events) == [2]


async def test_another_hub_is_the_broker(start: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with running("far", [], "zeek+zmq://127.0.0.1:0") as far, running("hub", [str(far.endpoints[1])]) as hub:
        node = start(far.endpoints[1], "node", "zeek.")
        async with (
            connect(far.endpoints[0].location) as there,
            connect(hub.endpoints[0].location) as here,
            there.subscribe("zeek.") as got_there,
            here.subscribe("zeek.") as got_here,
        ):
            everybody = far.node.core.handlers
            await eventually(lambda: sum("zeek." in one.prefixes for one in everybody.values()) == 3)
            await eventually(lambda: node.is_told("zeek.") and is_wanted(hub, "zeek."))
            for step in range(0, 9, 3):
                node.publish_event("zeek.a", number(step))
                await eventually(lambda n=step + 1: len(node.events) == n)
                await here.publish("zeek.a", number(step + 1))
                await eventually(lambda n=step + 2: len(node.events) == n)
                await there.publish("zeek.a", number(step + 2))
                await eventually(lambda n=step + 3: len(node.events) == n)
            for messages in (got_there, got_here):
                found = [Event.of((await anext(messages)).value) for _ in range(9)]
                assert found == [number(each) for each in range(9)]
    assert numbers(node.events) == list(range(9))


async def came(messages: AsyncIterator[Message], event: Event) -> None:
    async for message in messages:
        if Event.of(message.value) == event:
            return


def number(value: int) -> Event:
    return Event("Demo::number", Count(value))


def wanting(hub: Daemon, prefix: str) -> int:
    return sum(1 for one in joined(hub) if one.handler is not None and prefix in one.handler.prefixes)


def is_wanted(hub: Daemon, prefix: str) -> bool:
    return wanting(hub, prefix) > 0


async def test_a_broker_of_the_same_mesh_is_not_joined(
    start: StartNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with running("far", [], "zeek+zmq://127.0.0.1:0") as far:
        broker = str(far.endpoints[1])
        async with running("hub", [broker]) as hub:
            await eventually(lambda: len(joined(hub)) == 2)
            with structlog.testing.capture_logs() as logs:
                async with running("link", [far.endpoints[0].location, hub.endpoints[0].location]):
                    await eventually(lambda: not joined(hub))
            assert any(line["event"] == "Zeek cluster not joined" for line in logs)
            await eventually(lambda: len(joined(hub)) == 2)  # the mesh has fallen apart
        async with running("hub", [broker, far.endpoints[0].location]) as hub:
            node = start(far.endpoints[1], "node")
            async with connect(hub.endpoints[0].location) as client, client.subscribe("zeek.") as messages:
                await eventually(lambda: node.is_told("zeek.") and not joined(hub))
                for value in range(5):
                    node.publish_event("zeek.a", number(value))
                found = [Event.of((await anext(messages)).value) for _ in range(5)]
    assert found == [number(value) for value in range(5)]
