"""Hubs of one mesh that have joined the same cluster: one of them has it, and nothing comes twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import structlog

from peers.client import connect
from peers.daemon.daemon import Daemon
from peers.transport.endpoints import Endpoint
from peers.values import Count
from peers.values.event import Event
from tests.connections.zeek_cluster.hubs import joined, running
from tests.connections.zeek_cluster.node import ZmqNode
from tests.connections.zeek_cluster.test_joined import start
from tests.connections.zeek_cluster.test_member import start_zeek
from tests.connections.zeek_cluster.zeek_node import ZeekNode
from tests.connections.zeek_cluster.zmq_broker import ZmqBroker
from tests.hubs.eventually import eventually

__all__ = ["start", "start_zeek"]  # fixtures


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


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
    one, other = sorted(hubs, key=lambda hub: hub.node.id)
    return has(one) and leaves(other)


def know(prefix: str, of: Daemon, at: Daemon) -> bool:
    return prefix in at.node.core.far_hubs.wanted_by(of.node.id)


def know_of_each_other(prefix: str, one: Daemon, other: Daemon) -> bool:
    return know(prefix, one, other) and know(prefix, other, one)


def number(value: int) -> Event:
    return Event("Demo::number", Count(value))


async def test_nothing_comes_twice(broker: ZmqBroker, start: Callable[..., ZmqNode]) -> None:
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
        assert [hub.node.zeek_clusters_left for hub in hubs] == [int(leaves(hub)) for hub in hubs]
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


async def test_the_other_one_takes_over(broker: ZmqBroker, start: Callable[..., ZmqNode]) -> None:
    node = start(broker.endpoint, "node", "zeek.to")
    async with AsyncExitStack() as stack:
        hubs: dict[str, tuple[Daemon, AsyncExitStack]] = {}
        peers = [str(broker.endpoint)]
        for name in ("first", "second"):
            own = await stack.enter_async_context(AsyncExitStack())
            hubs[name] = await own.enter_async_context(running(name, peers)), own
            peers = [*peers, hubs[name][0].endpoints[0].location]
        await eventually(lambda: one_has_it(*(hub for hub, _ in hubs.values())))
        (having,) = [name for name, (hub, _) in hubs.items() if has(hub)]
        (other,) = [name for name in hubs if name != having]
        await hubs[having][1].aclose()
        await eventually(lambda: has(hubs[other][0]))
        async with (
            connect(hubs[other][0].endpoints[0].location) as client,
            client.subscribe("zeek.from") as stream,
        ):
            await eventually(lambda: node.is_told("zeek.from"))
            node.publish_event("zeek.from", number(1))
            assert Event.of((await anext(stream)).value) == number(1)
            await client.publish("zeek.to", number(2))
            await eventually(lambda: node.events)


async def test_meshes_become_one_and_fall_apart(broker: ZmqBroker, start: Callable[..., ZmqNode]) -> None:
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
        assert {left, taken} == {first.node.id.hex(), second.node.id.hex()}


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
