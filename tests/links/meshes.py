"""Several hubs that are linked, and `QuietPair`: two clients there who want nothing to do with what else happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient

__all__ = ["QuietPair", "know_each_other", "row", "settled"]
_PREFIX = "/quiet"
_AT_ONCE = 10


async def row(start_hub: StartHub, *names: str) -> list[Hub]:
    hubs = [await start_hub(name=name) for name in names]
    for one, other in pairwise(hubs):
        one.dial(other)
    await know_each_other(hubs)
    return hubs


async def know_each_other(hubs: Sequence[Hub]) -> None:
    ids = {hub.server.id for hub in hubs}
    await eventually(lambda: all(ids <= set(hub.server.core.mesh.graph.reached) for hub in hubs))


async def settled(hubs: Sequence[Hub]) -> None:
    await eventually(lambda: all(hub.server.core.mesh.is_settled for hub in hubs))


class QuietPair:
    """A publisher at one hub and a subscriber at another one, who gets every message."""

    def __init__(self, near: Hub, far: Hub, reader: RawClient, writer: RawClient) -> None:
        self.near, self.far = near, far
        self._reader, self._writer = reader, writer
        self._published = 0

    @classmethod
    async def of(cls, near: Hub, far: Hub) -> QuietPair:
        near.dial(far)
        reader = await far.client(_PREFIX)
        await eventually(lambda: near.wanted_by(far) == {_PREFIX})
        pair = cls(near, far, reader, await near.client())
        await pair.exchange()
        return pair

    async def exchange(self) -> None:
        for _ in range(_AT_ONCE):
            await self._writer.publish(_PREFIX, self._published)
            assert await self._reader.values(1) == [(_PREFIX, self._published)]
            self._published += 1

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        goes_on = True

        async def exchange() -> None:
            while goes_on:
                await self.exchange()

        task = asyncio.ensure_future(exchange())
        try:
            yield
        finally:
            goes_on = False
            await task
