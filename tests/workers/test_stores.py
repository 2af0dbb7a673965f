"""Stores of a hub with workers: the core has them, and clients of all workers share them."""

from __future__ import annotations

import pytest

from hub.errors import HubError
from peers.client import Client
from tests.hubs.eventually import settle
from tests.workers.conftest import SpreadClients, StartWorkers

pytestmark = pytest.mark.timeout(120)


async def _reached(client: Client) -> None:
    """Wait until the worker has heard of the store."""
    while True:
        try:
            await client.store("s").state()
        except HubError:
            await settle()
        else:
            return


async def test_clients_of_all_workers_share_a_store(start_workers: StartWorkers, spread: SpreadClients) -> None:
    """What one writes another one reads, watches and copies; both hear which stores there are."""
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
        assert [row["name"] for row in await one.request("$hub/stores", None)] == ["s"]
