"""Stores of a hub with workers: the core has them, and clients of all workers share them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from hub.errors import HubError
from peers.client import Client
from tests.hubs.eventually import settle
from tests.workers.conftest import SpreadClients, StartWorkers

pytestmark = pytest.mark.timeout(120)


async def _reached(client: Client) -> None:
    while True:
        try:
            await client.store("s").state()
        except HubError:
            await settle()
        else:
            return


async def test_clients_of_all_workers_share_a_store(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers("--store", "s=:memory:")
    one, other = await spread(hub.endpoints[0].location)
    await _reached(one)
    await _reached(other)
    await one.store("s").put("k", 1)
    far = other.store("s")
    assert await far.get("k") == 1
    async with one.store("s").watch() as changes, one.store("s").replica() as replica:
        assert (await anext(changes)).value == 1
        assert await far.increment("k") == 2
        assert (await anext(changes)).value == 2
        await replica.at_least(far.written)
        assert replica.get("k") == 2
        for client in (one, other):
            assert [row["name"] for row in await client.request("$hub/stores", None)] == ["s"]


async def test_a_store_is_fed_by_clients_of_all_workers(start_workers: StartWorkers, spread: SpreadClients) -> None:
    hub = await start_workers("--store", "s=:memory:", "--store-from", "s=/status/")
    one, other = await spread(hub.endpoints[0].location)
    await _reached(one)
    await _reached(other)
    told = {"/status/one": -1, "/status/other": -1}
    number = 0
    async with other.store("s").watch("/status/") as changes:
        while min(told.values()) < 100:
            for _ in range(10):
                one.publish_nowait("/status/one", number)
                other.publish_nowait("/status/other", number)
                number += 1
            with suppress(TimeoutError):  # what is published while links are made may be lost: then once more
                async with asyncio.timeout(0.1):
                    for change in await changes.batch():
                        assert change.value > told[change.key]
                        told[change.key] = change.value
    entries = {entry.key: entry.value async for entry in one.store("s").entries()}
    assert all(entries[key] >= value for key, value in told.items())
    assert [row["fed_from"] for row in await one.request("$hub/stores", None)] == [["/status/"]]
