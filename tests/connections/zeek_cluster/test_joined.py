"""The hub as a node of a cluster whose central broker is libzmq's proxy, or another hub."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
import structlog

from peers.client import Message, connect
from peers.daemon.daemon import Daemon
from peers.transport.endpoints import Endpoint
from peers.values import Count
from peers.values.event import Event
from tests.connections.zeek_cluster.nodes import ZeekNode, ZmqBroker, ZmqNode, joined, running
from tests.hubs.eventually import eventually

Start = Callable[..., ZmqNode]


@pytest.fixture
async def hub(broker: ZmqBroker) -> AsyncIterator[Daemon]:
    async with running("hub", [str(broker.endpoint)]) as daemon:
        await eventually(lambda: len(joined(daemon)) == 2)
        yield daemon


def numbers(events: list[list[bytes]]) -> list[int]:
    known = {number(value).encode(): value for value in range(10)}
    return [known[parts[3]] for parts in events]


async def test_a_broker_that_is_restarted(hub: Daemon, broker: ZmqBroker, start: Start) -> None:
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


async def test_clusters_stay_apart(start_broker: Callable[[], ZmqBroker], start: Start) -> None:
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


async def test_a_broker_of_the_same_mesh_is_not_joined(start: Start) -> None:
    async with running("far", [], "zeek+zmq://127.0.0.1:0") as far:
        broker = str(far.endpoints[1])
        async with running("hub", [broker]) as hub:
            await eventually(lambda: len(joined(hub)) == 2)
            with structlog.testing.capture_logs() as logs:
                async with running("link", [far.endpoints[0].location, hub.endpoints[0].location]):
                    told = "Zeek cluster not joined"  # by two that were there, and by those that come again
                    await eventually(lambda: [line["event"] for line in logs].count(told) >= 4)
                    events = [line["event"] for line in logs]
                    behind = events[events.index(told) :]
                    assert not [event for event in behind if event.startswith("Zeek cluster joined")]
            await eventually(lambda: len(joined(hub)) == 2)  # the mesh has fallen apart
        async with running("hub", [broker, far.endpoints[0].location]) as hub:
            node = start(far.endpoints[1], "node")
            async with connect(hub.endpoints[0].location) as client, client.subscribe("zeek.") as messages:
                await eventually(lambda: node.is_told("zeek.") and not joined(hub))
                for value in range(5):
                    node.publish_event("zeek.a", number(value))
                found = [Event.of((await anext(messages)).value) for _ in range(5)]
    assert found == [number(value) for value in range(5)]


def has(hub: Daemon) -> bool:
    handlers = [one.handler for one in joined(hub) if one.handler is not None]
    wants = any(prefix.startswith("zeek.") for one in handlers for prefix in one.prefixes)
    return len(handlers) == 2 and wants and not any(one.delivery.is_left for one in handlers)


def leaves(hub: Daemon) -> bool:
    handlers = [one.handler for one in joined(hub) if one.handler is not None]
    return (
        len(handlers) == 2
        and any(one.delivery.is_left for one in handlers)
        and not any(one.prefixes for one in handlers)
    )


def one_has_it(*hubs: Daemon) -> bool:
    one, other = sorted(hubs, key=lambda hub: hub.server.id)
    return has(one) and leaves(other)


def know(prefix: str, of: Daemon, at: Daemon) -> bool:
    return prefix in at.server.core.remote_hubs.wanted_by(of.server.id)


def know_of_each_other(prefix: str, one: Daemon, other: Daemon) -> bool:
    return know(prefix, one, other) and know(prefix, other, one)


async def test_nothing_comes_twice(broker: ZmqBroker, start: Start) -> None:
    node = start(broker.endpoint, "node", "zeek.to")
    async with AsyncExitStack() as stack:
        leaving, staying = AsyncExitStack(), AsyncExitStack()
        await stack.enter_async_context(leaving)
        await stack.enter_async_context(staying)
        first = await leaving.enter_async_context(running("first", [str(broker.endpoint)]))
        peers = [str(broker.endpoint), first.endpoints[0].location]
        second = await staying.enter_async_context(running("second", peers))
        await eventually(lambda: one_has_it(first, second))
        hubs = [first, second]
        clients = [await staying.enter_async_context(connect(hub.endpoints[0].location)) for hub in hubs]
        streams = [await staying.enter_async_context(one.subscribe("zeek.from")) for one in clients]
        assert [hub.server.zeek.clusters_left for hub in hubs] == [int(leaves(hub)) for hub in hubs]
        await eventually(lambda: node.is_told("zeek.from") and know_of_each_other("zeek.from", first, second))
        for value in range(20):
            node.publish_event("zeek.from", number(value))
        for stream in streams:
            got = [Event.of((await anext(stream)).value) for _ in range(20)]
            assert got == [number(value) for value in range(20)]
        having, other = (first, second) if has(first) else (second, first)
        await eventually(lambda: know("zeek.to", having, other))
        for value, client in enumerate(clients * 10):
            await client.publish("zeek.to", number(value))
        await eventually(lambda: len(node.events) >= 20)
        # What comes twice would come by the other way: each way has another one behind it.
        for value, client in enumerate(clients, 20):
            await client.publish("zeek.to", number(value))
        await eventually(lambda: len(node.events) >= 22)
        assert Counter(parts[3] for parts in node.events) == {number(value).encode(): 1 for value in range(22)}
        node.publish_event("zeek.from", number(99))
        assert [Event.of((await anext(stream)).value) for stream in streams] == [number(99)] * 2


async def test_meshes_become_one_and_fall_apart(broker: ZmqBroker, start: Start) -> None:
    start(broker.endpoint, "node", "zeek.to")
    cluster = str(broker.endpoint)
    async with running("first", [cluster]) as first, running("second", [cluster]) as second:
        await eventually(lambda: has(first) and has(second))
        with structlog.testing.capture_logs() as logs:
            async with running("link", [first.endpoints[0].location, second.endpoints[0].location]):
                await eventually(lambda: one_has_it(first, second))
            await eventually(lambda: has(first) and has(second))
        told = [line["event"] for line in logs if line["event"].startswith("Zeek cluster")]
        assert told == ["Zeek cluster left to another hub of the mesh", "Zeek cluster taken over"]
        left, taken = [line["hub"] for line in logs if line["event"].startswith("Zeek cluster")]
        assert {left, taken} == {first.server.id.hex(), second.server.id.hex()}


async def test_two_with_names(broker: ZmqBroker, start_zeek: Callable[..., ZeekNode]) -> None:
    layout = ("manager", "hub-1", "hub-2")
    manager = start_zeek(broker.endpoint, "manager", layout=layout)
    cluster: Endpoint = broker.endpoint
    async with running("first", [f"{cluster}&name=hub-1"]) as first:
        async with running("second", [f"{cluster}&name=hub-2", first.endpoints[0].location]) as second:
            await eventually(lambda: one_has_it(first, second))
            await eventually(lambda: sorted(manager.run().up.values()) == ["hub-1", "hub-2"])
            async with (
                connect(first.endpoints[0].location) as one,
                connect(second.endpoints[0].location) as two,
                one.subscribe("zeek.cluster.node.hub-2.") as at_one,
                two.subscribe("zeek.cluster.node.hub-2.") as at_two,
            ):
                await eventually(lambda: manager.told.count((True, "zeek.cluster.node.hub-2.")) >= 1)
                said = Event("Demo::ask", Count(0))
                await eventually(lambda: know_of_each_other("zeek.cluster.node.hub-2.", first, second))
                manager.say("zeek.cluster.node.hub-2.", said)
                assert [Event.of((await anext(stream)).value) for stream in (at_one, at_two)] == [said, said]
        await eventually(lambda: list(manager.run().up.values()) == ["hub-1"])
