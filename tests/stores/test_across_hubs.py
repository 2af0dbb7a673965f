"""Master and copies at hubs that are not neighbours: links are lost, the copies are equal once it is quiet."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from hub.errors import HubError
from hub.settings.sections import StoresSettings
from hub.settings.settings import Settings
from peers.client import Client, StoreChange, connect
from peers.client.store import StoreChangeKind
from peers.values import to_text
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.stores.packed import unpack

Answer = TypeVar("Answer")


async def _row_of_three(start_hub: StartHub) -> list[Hub]:
    stores = StoresSettings(open=("s=:memory:",), changes=50)
    hubs = [await start_hub(settings=Settings(stores=stores), name="first")]
    hubs += [await start_hub(name=name) for name in ("middle", "last")]
    hubs[0].dial(hubs[1])
    hubs[2].dial(hubs[1])
    return hubs


async def _answered(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask until there is an answer.

    Where hubs tell each other of links again and again, they do so less often: one that was there is away again for a
    moment, when a hub hears of an end which it has outlived.
    """
    while True:
        try:
            return await ask()
        except HubError:
            await asyncio.sleep(0.001)


async def _reached(client: Client) -> None:
    await _answered(client.store("s").state)


def _follow(state: dict[Any, Any], change: StoreChange) -> None:
    if change.kind is StoreChangeKind.CLEAR:
        state.clear()
        return
    assert change.old == state.get(change.key)
    if change.value is None:
        del state[change.key]
    else:
        state[change.key] = change.value


@pytest.mark.parametrize("seed", range(3))
async def test_copies_at_other_hubs_are_equal_once_it_is_quiet(start_hub: StartHub, seed: int) -> None:
    """Whatever was lost with links: what a watch tells leads from each state to the next, and a replica has it all."""
    chance = random.Random(seed)  # noqa: S311 -- to be repeated, not to be secret
    hubs = await _row_of_three(start_hub)
    async with connect(hubs[0].url) as near, connect(hubs[2].url) as far:
        await _reached(far)
        store = near.store("s")
        state: dict[Any, Any] = {}
        async with far.store("s").watch() as changes, far.store("s").replica() as replica:

            async def follow() -> None:
                async for change in changes:
                    _follow(state, change)

            following = asyncio.ensure_future(follow())
            for step in range(300):
                act = chance.random()
                if act < 0.02:
                    await hubs[1].crash()
                elif act < 0.8:
                    await store.put(chance.randrange(20), step)
                elif act < 0.98:
                    await store.erase(chance.randrange(20))
                else:
                    await store.clear()
                if not step % 7:
                    await asyncio.sleep(0)
            await store.put("last", to_text(seed))
            await replica.at_least(store.written)
            await eventually(lambda: "last" in state or following.done())
            following.cancel()
        master = hubs[0].node.stores.get("s")
        assert master is not None
        entries = {unpack(key): unpack(entry[0]) for key, entry in master.store.entries.items()}
        assert dict(replica.items()) == entries
        assert state == entries


async def test_a_command_over_a_link_that_is_lost_says_so(start_hub: StartHub) -> None:
    """It is not repeated by itself; with the version that was read it can be, and is carried out once."""
    hubs = await _row_of_three(start_hub)
    async with connect(hubs[2].url) as client:
        await _reached(client)
        store = client.store("s")
        version = 0
        for number in range(20):
            asking = asyncio.ensure_future(store.put("n", number, if_version=version))
            if number % 3 == 0:
                await asyncio.sleep(0)
                await hubs[1].crash()
            try:
                done = await asking
            except HubError:
                done = await _answered(
                    lambda number=number, version=version: store.put("n", number, if_version=version)
                )
            entry = await _answered(lambda: store.entry("n")) if done is None else None
            version = entry.version if entry is not None else done or 0
            assert entry is None or entry.value == number
        assert await _answered(lambda: store.get("n")) == 19
        master = hubs[0].node.stores.get("s")
        assert master is not None
        assert master.store.number - master.store.epoch == 20
