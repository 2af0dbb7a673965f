"""What any process of a hub announces under `$hub/` reaches the subscribers of all, once; health is that of all."""

from __future__ import annotations

import asyncio
import os
import signal
import urllib.error
import urllib.request
from collections import Counter
from typing import Any

import pytest

from peers.client import Client, connect
from peers.client.stream import MessageStream
from tests.daemon.hub_process import HubProcess
from tests.hubs.raw_client import numbered
from tests.workers.conftest import SpreadClients, SpreadRaw, StartWorkers

pytestmark = pytest.mark.timeout(120)

BOTH = ("tcp://127.0.0.1:0", "ws://127.0.0.1:0")


async def until_joined(stream: MessageStream[Any], wanted: set[str], seen: Counter[str]) -> None:
    while not wanted <= seen.keys():
        seen[(await anext(stream)).value["name"]] += 1


async def until_all_tell(url: str, stream: MessageStream[Any], name: str) -> None:
    at: dict[str, str] = {}

    async def read() -> None:
        told: set[str] = set()  # of a client it may tell before that client knows where it is
        while len({at[joined] for joined in told & at.keys()}) < 2:
            told.add((await anext(stream)).value["name"])

    reading = asyncio.create_task(read())
    while not reading.done():
        async with connect(url, name=f"{name}-{len(at)}") as client:
            assert client.hub is not None
            at[f"{name}-{len(at)}"] = client.hub.name
            await asyncio.wait([reading], timeout=0.05)
    await reading


async def test_who_comes_is_told_everywhere_once(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers()
    url = hub.endpoints[0].location
    one, two = await spread(url)
    async with one.subscribe("$hub/client/joined") as first, two.subscribe("$hub/client/joined") as second:
        await until_all_tell(url, first, "early")
        await until_all_tell(url, second, "later")
        names = {f"client-{number}" for number in range(20)}
        clients = [await connect(url, name=name) for name in sorted(names)]
        assert {client.hub.name for client in clients if client.hub is not None} == {"both/1", "both/2"}
        last = await connect(url, name="last")
        for stream in (first, second):
            seen: Counter[str] = Counter()
            await until_joined(stream, {*names, "last"}, seen)
            assert {name: seen[name] for name in names} == dict.fromkeys(names, 1)
        for client in [*clients, last]:
            await client.close()


async def test_losses_are_told_everywhere(
    start_workers: StartWorkers, spread: SpreadClients, spread_raw: SpreadRaw
) -> None:
    hub = await start_workers("--queue-messages", "100")
    url = hub.endpoints[0].location
    _, two = await spread(url)
    slow, _, publisher = await spread_raw(hub.endpoints[0], receive_bytes=4096)
    await slow.subscribe("/flood")
    async with two.subscribe("$hub/overflow") as losses:
        told = asyncio.create_task(anext(losses))
        while not told.done():
            await publisher.send(numbered("/flood", range(2_000), padding=1000))
            await asyncio.wait([told], timeout=0.1)
        assert told.result().value["prefixes"] == ["/flood"]


async def test_what_all_do_is_told_once(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers()
    url = hub.endpoints[0].location
    both = await spread(url)
    for place, client in enumerate(both):
        async with client.subscribe("$hub/audit") as audit, client.subscribe("$hub/client/joined") as joined:
            await until_all_tell(url, joined, f"early-{place}")
            found: list[str] = []
            for _ in range(3):
                await both[0].request("$hub/reload", None)
            while len(found) < 3:
                event = (await anext(audit)).value
                assert event["what"] == "reload"
                found.append(event["what"])
            await both[0].request("$hub/kick", {"id": await number_of(client, url, f"victim-{place}")})
            assert (await anext(audit)).value["what"] == "kick", "there was no fourth reload"


async def number_of(client: Client, url: str, name: str) -> int:
    await connect(url, name=name, reconnect=False)
    (number,) = [row["id"] for row in await client.request("$hub/who", None) if row["name"] == name]
    assert isinstance(number, int)
    return number


async def get(hub: HubProcess, path: str) -> tuple[int, str]:
    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{hub.page}{path}", timeout=60) as answer:  # noqa: S310 -- this test's own hub
                return answer.status, answer.read().decode().strip()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode().strip()
        except OSError as error:
            return 0, str(error)

    return await asyncio.to_thread(ask)


async def until(hub: HubProcess, path: str, wanted: tuple[int, str]) -> None:
    while await get(hub, path) != wanted:  # noqa: ASYNC110 -- nobody tells
        await asyncio.sleep(0.02)


async def test_ready_is_who_is_whole(start_workers: StartWorkers) -> None:
    hub = await start_workers("--limits-ping-after-s", "0.5", "--limits-ping-timeout-s", "0.5", listen=BOTH)
    for path, text in (("readyz", "ready"), ("healthz", "ok")):
        for _ in range(4):
            assert await get(hub, path) == (200, text)
    victim = (await hub.wait_logged("worker is up"))["pid"]
    await hub.wait_logged("worker is up")
    os.kill(victim, signal.SIGKILL)
    await hub.wait_logged("worker ended")
    await hub.wait_logged("worker is up")
    await until(hub, "readyz", (200, "ready"))


async def test_a_core_that_is_stopped(start_workers: StartWorkers) -> None:
    hub = await start_workers("--limits-ping-after-s", "600", listen=BOTH)
    hub.signal(signal.SIGSTOP)
    text = "the core of this hub has not answered within 4 s"
    try:
        status, told = await get(hub, "healthz")
        assert (status, text in told) == (503, True)
        status, told = await get(hub, "readyz")
        assert (status, text in told) == (503, True)
    finally:
        hub.signal(signal.SIGCONT)
    await until(hub, "healthz", (200, "ok"))
    await until(hub, "readyz", (200, "ready"))
