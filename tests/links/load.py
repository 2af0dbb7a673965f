"""`Load`: publishers, one at each hub, that publish numbers."""

from __future__ import annotations

import asyncio

from tests.hubs.raw_client import RawClient, numbered

__all__ = ["Load"]


class Load:
    """Publishers, one at each hub, that publish numbers until they are told to stop."""

    def __init__(self, clients: list[RawClient]) -> None:
        self._clients = clients
        self._go_on = True
        # How many numbers each has published.
        self.published = [0] * len(clients)
        self._tasks = [asyncio.ensure_future(self._publish(number)) for number in range(len(clients))]

    async def _publish(self, number: int) -> None:
        while self._go_on:
            first = self.published[number]
            await self._clients[number].send(numbered(f"/from/{number}", range(first, first + 10)))
            self.published[number] += 10
            await self._clients[number].ping()
            await asyncio.sleep(0.002)

    async def stop(self) -> None:
        self._go_on = False
        await asyncio.gather(*self._tasks)

    async def publish(self, count: int) -> None:
        for number, client in enumerate(self._clients):
            first = self.published[number]
            await client.send(numbered(f"/from/{number}", range(first, first + count)))
            self.published[number] += count
