"""A hub of several processes is one hub to a hub elsewhere; the two serve all tests here, in their order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from peers.client import Client, connect
from tests.cli.programs import RunningHub, run_hub
from tests.connections.zeek_cluster.nodes import ZeekNode, ZmqBroker
from tests.hubs.eventually import eventually, settle
from tests.workers.conftest import SpreadClients, StartWorkers, asked, heard, workers_of

pytestmark = pytest.mark.timeout(120)
TOTAL = 300  # Messages of each publisher


@pytest.fixture(scope="module")
def far(both: RunningHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with run_hub(tmp_path_factory.mktemp("far"), "--name", "far", "--peer", both.tcp, "--journal-of", "both") as hub:
        yield hub


async def hubs(client: Client) -> dict[str, dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while page := await client.request("$hub/mesh/graph", {"after": rows[-1]["hub"]} if rows else None):
        rows += page
    return {row["name"]: row for row in rows}


async def links(client: Client) -> set[frozenset[str]]:
    found = await hubs(client)
    names = {row["hub"]: name for name, row in found.items()}
    pairs = ((name, other) for name, row in found.items() for other in row["links"] if other in names)
    return {frozenset((name, names[other])) for name, other in pairs}


async def linked(client: Client, prefix: str, name: str) -> str:
    while True:
        for link in await links(client):
            others = [one for one in link - {name} if one.startswith(prefix)]
            if name in link and others:
                return others[0]
        await asyncio.sleep(0.02)


async def until_heard(clients: list[Client], topic: str) -> None:
    """Wait until what each publishes reaches all others, and so all that they have subscribed to before, too.

    The topic is one that was not told before: of what is given up and wanted again within a second nothing is told.
    """
    for one in clients:
        for place, other in enumerate(clients):
            if one is not other:
                await heard(one, other, f"{topic}/{place}")


async def numbers(client: Client, prefix: str, publishers: int, subscribed: asyncio.Semaphore) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    left = set(range(publishers))
    async with client.subscribe(prefix) as messages:
        subscribed.release()
        while left:
            source, number = (await messages.receive()).value
            found[source].append(number)
            if number == TOTAL - 1:
                left.discard(source)
    return found


async def publish_all(clients: list[Client], prefix: str, publishers: list[Client]) -> None:
    """Publish at some clients, and have all of them get everything once, and in order."""
    await until_heard(clients, f"{prefix}warm")
    subscribed = asyncio.Semaphore(0)
    load = f"{prefix}load/"
    takers = [asyncio.create_task(numbers(client, load, len(publishers), subscribed)) for client in clients]
    for _ in clients:
        await subscribed.acquire()
    await until_heard(clients, f"{prefix}ready")  # subscriptions are told in their order

    async def publish(place: int, client: Client) -> None:
        for number in range(TOTAL):
            await client.publish(f"{load}{place}", [place, number])

    await asyncio.gather(*(publish(place, client) for place, client in enumerate(publishers)))
    for found in await asyncio.gather(*takers):
        assert found == {place: list(range(TOTAL)) for place in range(len(publishers))}


async def test_messages_requests_and_the_mesh(both: RunningHub, far: RunningHub, spread: SpreadClients) -> None:
    workers = await spread(both.tcp)
    async with connect(far.tcp) as outside:
        clients = [*workers, outside]
        await publish_all(clients, "/one/", clients)
        for place, worker in enumerate(workers, 1):
            async with worker.serve(f"/double/{place}", lambda request: request.value * 2):
                assert await asked(outside, f"/double/{place}", 21) == 42
            async with outside.serve(f"/half/{place}", lambda request: request.value // 2):
                assert await asked(worker, f"/half/{place}", 42) == 21
        near = await linked(outside, "both/", "far")
        (other,) = {"both/1", "both/2"} - {near}
        star = {frozenset(("both", "both/1")), frozenset(("both", "both/2")), frozenset((near, "far"))}
        for client in clients:
            assert await links(client) == star
        for worker, name in zip(workers, ("both/1", "both/2"), strict=True):
            rows = await hubs(worker)
            assert (rows[name]["own"], rows[name]["link"]) == (True, None)
            assert rows["both"]["link"]["at"] == rows[name]["hub"]
            assert rows["far"]["link"]["at"] == rows[near]["hub"]
            assert all(row["link"] is not None for row in rows.values() if not row["own"])
        async with workers[int(other[-1]) - 1].subscribe("/traced"):
            await heard(outside, workers[int(other[-1]) - 1], "/traced/known")
            # "both" wants it for its workers: messages pass before the interest of the worker itself is known.
            while len(hops := await outside.request("$hub/mesh/trace", {"topic": "/traced"})) < 4:
                await settle()
        assert {hop["name"]: hop["wants"] for hop in hops} == {"far": False, near: False, "both": True, other: True}


async def test_the_core_confirms_to_hubs_elsewhere(far: RunningHub) -> None:
    async with connect(far.tcp) as client:
        while "both" not in await hubs(client):  # noqa: ASYNC110 -- nobody tells
            await asyncio.sleep(0.02)
        number = 0
        while not [one async for one in client.read("/recorded/warm", start=0)]:
            await client.publish("/recorded/warm", number)
            number += 1
        offsets = [await client.publish_confirmed("/recorded/a", number) for number in range(20)]
        found = {one.offset: one.value async for one in client.read("/recorded/a", start=0)}
    assert [found[offset] for offset in offsets] == list(range(20))


async def test_a_link_comes_back_when_its_worker_dies(both: RunningHub, far: RunningHub, spread: SpreadClients) -> None:
    workers = await spread(both.tcp)
    async with connect(far.tcp) as outside:
        await until_heard([*workers, outside], "/before")
        for worker in workers_of(both.process.pid):
            os.kill(worker, signal.SIGKILL)
        await linked(outside, "both/", "far")
        await until_heard([*workers, outside], "/after")
    assert len(workers_of(both.process.pid)) == 2


async def test_clients_of_all_workers_hear_of_zeek_nodes(start_workers: StartWorkers, spread: SpreadClients) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    broker = ZmqBroker(context)
    manager = ZeekNode(context, broker.endpoint, "manager")
    try:
        hub = await start_workers("--peer", f"{broker.endpoint}&name=hub")
        await eventually(lambda: manager.run().up)
        for client in await spread(hub.endpoints[0].location):
            while not (found := await client.request("$hub/nodes", None)):
                pass
            assert [row["name"] for row in found] == ["manager"]
            async with client.subscribe("$hub/nodes/") as told:
                first = asyncio.ensure_future(anext(told))
                while not first.done():  # a worker says within a second that it is wanted there
                    worker = ZeekNode(context, broker.endpoint, "worker-1")
                    await eventually(lambda node=worker: "hub" in node.run().up.values())  # type: ignore[misc]
                    worker.close()
                    await asyncio.sleep(0.1)
                assert (await first).value["name"] == "worker-1"
    finally:
        manager.close()
        broker.stop()
        context.term()
