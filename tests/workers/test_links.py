"""Hubs elsewhere that are linked with a hub of several processes, by whichever worker: it is one hub to them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from peers.client import Client, connect
from peers.wire.hello import QueueWish
from tests.daemon.conftest import StartProcess
from tests.daemon.hub_process import HubProcess
from tests.workers.conftest import SpreadClients, StartWorkers, workers_of
from tests.workers.test_workers import asked, heard

pytestmark = pytest.mark.timeout(120)

TOTAL = 500
"""Messages of each publisher."""

LARGE = QueueWish(messages=100_000)


async def hubs(client: Client) -> dict[str, dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while True:
        page = await client.request("$hub/mesh/graph", {"after": rows[-1]["hub"]} if rows else None)
        if not page:
            return {row["name"]: row for row in rows}
        rows += page


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


async def start_far(start_process: StartProcess, name: str, *arguments: str) -> HubProcess:
    words = arguments if "--listen" in arguments else ("--listen", "tcp://127.0.0.1:0", *arguments)
    far = await start_process(*words, "--name", name, "--log-format", "json", "--queue-messages", "100000")
    return await far.wait_up()


async def until_heard(clients: list[Client], topic: str = "/warm") -> None:
    """Wait until what each publishes reaches all others, and so all that they have subscribed to before, too.

    The topic is one that was not told before: of what is given up and wanted again within a second nothing is told.
    """
    for one in clients:
        for place, other in enumerate(clients):
            if one is not other:
                await heard(one, other, f"{topic}/{place}")


async def numbers(client: Client, publishers: int, subscribed: asyncio.Semaphore) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    left = set(range(publishers))
    async with client.subscribe("/load/") as messages:
        subscribed.release()
        async for message in messages:
            source, number = message.value
            found[source].append(number)
            if number == TOTAL - 1:
                left.discard(source)
                if not left:
                    return found
    raise AssertionError("the stream has ended")


async def test_messages_go_both_ways_once_and_in_order(
    start_workers: StartWorkers, start_process: StartProcess, spread: SpreadClients
) -> None:
    hub = await start_workers("--queue-messages", "100000")
    far = await start_far(start_process, "far", "--peer", hub.endpoints[0].location)
    both = await spread(hub.endpoints[0].location, queue=LARGE)
    async with connect(far.endpoints[0].location, queue=LARGE) as outside:
        clients = [*both, outside]
        await until_heard(clients)
        subscribed = asyncio.Semaphore(0)
        takers = [asyncio.create_task(numbers(client, len(clients), subscribed)) for client in clients]
        for _ in clients:
            await subscribed.acquire()
        await until_heard(clients, "/ready")  # subscriptions are told in their order

        async def publish(place: int) -> None:
            for number in range(TOTAL):
                await clients[place].publish(f"/load/{place}", [place, number])

        await asyncio.gather(*map(publish, range(len(clients))))
        for found in await asyncio.gather(*takers):
            assert found == {place: list(range(TOTAL)) for place in range(len(clients))}


async def test_requests_and_names_cross(
    start_workers: StartWorkers, start_process: StartProcess, spread: SpreadClients
) -> None:
    hub = await start_workers()
    far = await start_far(start_process, "far", "--peer", hub.endpoints[0].location)
    both = await spread(hub.endpoints[0].location)
    async with connect(far.endpoints[0].location) as outside:
        for place, worker in enumerate(both, 1):
            async with worker.serve(f"/double/{place}", lambda request: request.value * 2):
                assert await asked(outside, f"/double/{place}", 21) == 42
            async with outside.serve(f"/half/{place}", lambda request: request.value // 2):
                assert await asked(worker, f"/half/{place}", 42) == 21


async def test_the_mesh_is_shown_as_it_is(
    start_workers: StartWorkers, start_process: StartProcess, spread: SpreadClients
) -> None:
    hub = await start_workers()
    far = await start_far(start_process, "far", "--peer", hub.endpoints[0].location)
    both = await spread(hub.endpoints[0].location)
    async with connect(far.endpoints[0].location) as outside:
        await until_heard([*both, outside])
        near = await linked(outside, "both/", "far")
        (other,) = {"both/1", "both/2"} - {near}
        star = {frozenset(("both", "both/1")), frozenset(("both", "both/2")), frozenset((near, "far"))}
        for client in (outside, *both):
            assert await links(client) == star
        async with both[int(other[-1]) - 1].subscribe("/traced"):
            await heard(outside, both[int(other[-1]) - 1], "/traced/known")
            hops = await outside.request("$hub/mesh/trace", {"topic": "/traced"})
        assert {hop["name"]: hop["wants"] for hop in hops} == {"far": False, near: False, "both": False, other: True}


async def test_a_link_comes_back_when_its_worker_dies(
    start_workers: StartWorkers, start_process: StartProcess, spread: SpreadClients
) -> None:
    hub = await start_workers()
    workers = {line["worker"]: line["pid"] for line in [await hub.wait_logged("worker is up") for _ in range(2)]}
    far = await start_far(start_process, "far", "--peer", hub.endpoints[0].location)
    both = await spread(hub.endpoints[0].location)
    async with connect(far.endpoints[0].location) as outside:
        await until_heard([*both, outside])
        near = await linked(outside, "both/", "far")
        os.kill(workers[int(near[-1])], signal.SIGKILL)
        await hub.wait_logged("worker ended")
        await until_heard([*both, outside])
    assert len(workers_of(hub.pid)) == 2


async def test_two_hubs_elsewhere(
    start_workers: StartWorkers, start_process: StartProcess, spread: SpreadClients
) -> None:
    hub = await start_workers("--queue-messages", "100000")
    url = hub.endpoints[0].location
    first = await start_far(start_process, "first", "--peer", url)
    second = await start_far(start_process, "second", "--peer", url, "--peer", first.endpoints[0].location)
    both = await spread(url, queue=LARGE)
    async with (
        connect(first.endpoints[0].location, queue=LARGE) as one,
        connect(second.endpoints[0].location, queue=LARGE) as other,
    ):
        clients = [*both, one, other]
        await until_heard(clients)
        await linked(one, "second", "first")
        subscribed = asyncio.Semaphore(0)
        takers = [asyncio.create_task(numbers(client, 1, subscribed)) for client in clients]
        for _ in clients:
            await subscribed.acquire()
        await until_heard(clients, "/ready")
        for number in range(TOTAL):
            await one.publish("/load/0", [0, number])
        for found in await asyncio.gather(*takers):
            assert found == {0: list(range(TOTAL))}


async def test_the_core_confirms_to_hubs_elsewhere(
    start_workers: StartWorkers, start_process: StartProcess, tmp_path: Path
) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"))
    far = await start_far(start_process, "far", "--peer", hub.endpoints[0].location, "--journal-of", "both")
    async with connect(far.endpoints[0].location) as client:
        while "both" not in await hubs(client):  # noqa: ASYNC110 -- nobody tells
            await asyncio.sleep(0.02)
        await until_recorded(client)
        offsets = [await client.publish_confirmed("/a", number) for number in range(20)]
        found = {one.offset: one.value async for one in client.read("/a", start=0)}
    assert [found[offset] for offset in offsets] == list(range(20))


async def until_recorded(client: Client) -> None:
    number = 0
    while not [one async for one in client.read("/warm", start=0)]:
        await client.publish("/warm", number)
        number += 1
