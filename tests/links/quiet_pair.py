"""`QuietPair`: two clients at two hubs that have nothing to do with what others do there, and get every message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient

__all__ = ["QuietPair"]

_PREFIX = "/quiet"
_AT_ONCE = 10


class QuietPair:
    """A publisher at one hub and a subscriber at another one, who want nothing to do with what else is said."""

    def __init__(self, near: Hub, far: Hub, reader: RawClient, writer: RawClient) -> None:
        self.near, self.far = near, far
        self._reader, self._writer = reader, writer
        self._published = 0

    @classmethod
    async def of(cls, near: Hub, far: Hub) -> QuietPair:
        reader = await far.client(_PREFIX)
        await eventually(lambda: near.wanted_by(far) == {_PREFIX})
        return cls(near, far, reader, await near.client())

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
