"""What a page asks of a hub with workers: each answer is that of the whole hub, whichever worker gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub.overflow import Overflow
from peers.client import Client, ServiceRequest
from peers.wire.hello import QueueWish
from tests.daemon.conftest import StartProcess
from tests.hubs.eventually import settle
from tests.hubs.raw_client import RawClient
from tests.workers.conftest import SpreadClients, StartWorkers

pytestmark = pytest.mark.timeout(120)

SERVICES = {
    "$hub/consumers",
    "$hub/drain",
    "$hub/history",
    "$hub/journal",
    "$hub/kick",
    "$hub/losses",
    "$hub/mesh/graph",
    "$hub/mesh/trace",
    "$hub/names",
    "$hub/nodes",
    "$hub/reload",
    "$hub/rights",
    "$hub/services",
    "$hub/settings",
    "$hub/state",
    "$hub/stores",
    "$hub/topics",
    "$hub/users",
    "$hub/who",
}
"""What a hub with a journal and a store answers, as far as it is asked here."""


async def ask_until(client: Client, topic: str, value: Any, holds: Callable[[Any], bool]) -> Any:
    while not holds(answer := await client.request(topic, value)):
        await settle()
    return answer


async def hear(client: Client, prefix: str, topic: str, heard: asyncio.Event) -> None:
    async with client.subscribe(prefix) as messages:
        async for message in messages:
            if message.topic == topic:
                heard.set()


async def test_topics(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers()
    one, two = await spread(hub.endpoints[0].location)
    crossed, warm = [asyncio.Event() for _ in range(2)], [asyncio.Event() for _ in range(2)]
    async with asyncio.TaskGroup() as hearing:
        tasks = [
            hearing.create_task(hear(client, "/t/", topic, event))
            for client, topic, events in ((one, "/t/from-2", 0), (two, "/t/from-1", 1))
            for topic, event in ((topic, crossed[events]), (topic + "/warm", warm[events]))
        ]
        while not all(event.is_set() for event in warm):  # until each process knows what the other one wants
            one.publish_nowait("/t/from-1/warm", 0)
            two.publish_nowait("/t/from-2/warm", 0)
            await settle()
        for _ in range(30):
            one.publish_nowait("/t/both", 1)
            two.publish_nowait("/t/both", 1)
        one.publish_nowait("/t/from-1", 1)
        two.publish_nowait("/t/from-2", 1)
        await asyncio.gather(*(event.wait() for event in crossed))
        for client in (one, two):
            answer = await client.request("$hub/topics", {"under": "/t/"})
            counted = {row["prefix"]: row for row in answer["rows"]}
            assert {"/t/both": 60, "/t/from-1": 1, "/t/from-2": 1}.items() <= {
                prefix: row["messages"] for prefix, row in counted.items()
            }.items()
            assert counted["/t/both"]["subscribers"] == 2, "links between processes are nobody"
            (whole,) = (await client.request("$hub/topics", None))["rows"]
            assert (whole["prefix"], whole["topics"], whole["subscribers"]) == ("/t/", 5, 2)
            (found,) = (await client.request("$hub/topics", {"search": "BOTH"}))["rows"]
            assert found["messages"] == 60
        for task in tasks:
            task.cancel()


async def test_topics_that_somebody_may_see(start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[roles.watcher]\nsubscribe = ["/open"]\npublish = ["/open", "/secret"]\n')
    hub = await start_workers("--access-policy", str(policy), "--anonymous", "watcher")
    one, two = await spread(hub.endpoints[0].location)
    await one.publish("/open/a", 1)
    await two.publish("/secret/a", 1)
    await two.publish("/open/b", 1)
    for client in (one, two):
        answer = await ask_until(client, "$hub/topics", None, lambda told: told["counted"] == 2)
        assert [(row["prefix"], row["topics"], row["subscribers"]) for row in answer["rows"]] == [("/open/", 2, None)]


async def test_losses_history_and_a_queue(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers()
    url = hub.endpoints[0]
    one, two = await spread(url.location)
    slow = await RawClient.connect(url, receive_bytes=4096)
    try:
        home = (await slow.greet(name="slow", queue=QueueWish(messages=5, overflow=Overflow.DROP_OLDEST))).name
        await slow.subscribe("/lost")
        near, far = (one, two) if home == "both/1" else (two, one)

        async def lose() -> bool:
            for _ in range(100):
                near.publish_nowait("/lost", bytes(10_000))
            await near.drain()
            return any((await far.request("$hub/history", None))["figures"]["dropped_messages"])

        while not await lose():  # what was lost before a process has looked for the first time is in no figure
            await settle()
        losses = await far.request("$hub/losses", None)
        (victim,) = {loss["id"] for loss in losses}
        assert {(loss["label"], loss["why"]) for loss in losses} == {("slow", "drop-oldest")}
        for client in (one, two):
            state = await ask_until(client, "$hub/state", None, lambda told: told["dropped_by"])
            assert [label for label, _ in state["dropped_by"]] == ["slow"]
            await ask_until(client, "$hub/history", None, lambda told: any(told["figures"]["dropped_messages"]))
            (row,) = await client.request("$hub/who", {"id": victim})
            assert row["queue"]["messages"] > 0
    finally:
        slow.close()


async def test_rights(start_workers: StartWorkers, spread: SpreadClients, tmp_path: Path) -> None:
    hub = await start_workers("--journal", str(tmp_path / "journal"), "--store", "s=:memory:")
    offered = []
    for client in await spread(hub.endpoints[0].location):
        offered.append((await client.request("$hub/rights", None))["asks"])
        assert set(offered[0]) >= SERVICES
        assert offered[-1] == offered[0]
        for topic in SERVICES - {"$hub/drain", "$hub/kick", "$hub/mesh/trace"}:
            await client.request(topic, None)


async def test_names(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers()
    one, two = await spread(hub.endpoints[0].location)
    await one.claim("org.example.One")
    await two.claim("org.example.Two")
    for client in (one, two):
        found = await ask_until(client, "$hub/names", None, lambda told: len(told) == 2)
        names = {row["hub"]: row["name"] for row in await client.request("$hub/mesh/graph", None)}
        assert {row["name"]: names[row["hub"]] for row in found} == {
            "org.example.One": "both/1",
            "org.example.Two": "both/2",
        }


async def test_services(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers()
    one, two = await spread(hub.endpoints[0].location)

    async def answer(request: ServiceRequest) -> Any:
        return request.value

    async with one.serve("/s/", answer), two.serve("/s/", answer), two.serve("/two/", answer):
        for client in (one, two):
            found = await ask_until(client, "$hub/services", None, lambda told: len(told) == 2)
            assert [(row["prefix"], row["connections_total"], row["hubs"]) for row in found] == [
                ("/s/", 2, []),
                ("/two/", 1, []),
            ]
            known = {row["id"] for row in await client.request("$hub/who", None)}
            assert {each["id"] for each in found[0]["connections"]} <= known


async def test_links(start_process: StartProcess, start_workers: StartWorkers, spread: SpreadClients) -> None:
    peer = await (await start_process("--listen", "tcp://127.0.0.1:0", "--name", "peer")).wait_up()
    hub = await start_workers("--peer", peer.endpoints[0].location)
    for client in await spread(hub.endpoints[0].location):
        rows = await ask_until(client, "$hub/mesh/graph", None, lambda told: any(row["name"] == "peer" for row in told))
        found = {row["name"]: row for row in rows}
        assert set(found) == {"both", "both/1", "both/2", "peer"}
        (own,) = [row for row in rows if row["own"]]
        assert own["link"] is None
        assert found["peer"]["link"]["at"] == found["both"]["hub"]
        assert found["both"]["link"]["at"] == own["hub"]
        assert all(row["link"] is not None for row in rows if not row["own"])
