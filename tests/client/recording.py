"""Who publishes to a journal, and who reads its stream."""

from __future__ import annotations

import asyncio
from typing import Self

from peers.client import Client, MessageStream
from tests.hubs.eventually import eventually

_BURST = 10
"""Messages in one turn of the loop."""

AHEAD = 2_000
"""How far a publisher runs ahead of those who read."""


class Publishing:
    """Publishes 0, 1, 2, ... under some topics, without a pause until the block is over, but not far ahead of readers.

    Args:
        client: Who publishes.
        topics: In turn.
    """

    def __init__(self, client: Client, *topics: str) -> None:
        self.published = 0
        self.readers: list[Reading] = []
        self._client = client
        self._topics = topics or ("/n/0", "/n/1", "/n/2")
        self._task: asyncio.Task[None]

    async def some(self, count: int) -> None:
        for _ in range(count - 1):
            await self._next()
        topic = self._topics[self.published % len(self._topics)]
        self.published += 1
        await self._client.publish_confirmed(topic, self.published - 1)

    async def _next(self) -> None:
        topic = self._topics[self.published % len(self._topics)]
        self.published += 1
        await self._client.publish(topic, self.published - 1)

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            for _ in range(_BURST):
                await self._next()
            await asyncio.sleep(0.0005)
            await eventually(lambda: all(reader.next >= self.published - AHEAD for reader in self.readers))


class Reading:
    def __init__(self, stream: MessageStream, expected: int = 0) -> None:
        self.stream = stream
        self.next = expected
        self.holes = 0
        self._told = (stream.breaks, stream.lost_messages)

    def take(self, values: list[int]) -> None:
        told = (self.stream.breaks, self.stream.lost_messages)
        for value in values:
            if value != self.next:
                assert value > self.next, f"{value} has come before, {self.next} was to come"
                assert told != self._told, f"{self.next} is missing, {value} has come, and nothing was told"
                self.holes += 1
            self._told = told
            self.next = value + 1

    async def some(self) -> None:
        messages = await self.stream.batch()
        assert messages, "the stream has ended"
        self.take([message.value for message in messages])

    async def until(self, last: int) -> None:
        while self.next <= last:
            await self.some()
