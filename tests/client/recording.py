"""Hubs with a journal, in the test's own loop, and what reads their streams."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any, Self

from hub.settings.sections import JournalSettings
from hub.settings.settings import Settings
from peers.client import Client, MessageStream
from peers.transport.endpoints import Endpoint
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub


class RecordingHub(Hub):
    """A hub with a journal."""

    def __init__(self, path: Path, **journal: Any) -> None:
        super().__init__(Settings(journal=JournalSettings(path=str(path), **({"commit_s": 0.001} | journal))))
        assert self.journal is not None
        self._stopped = False

    async def start(self, url: str | Endpoint) -> None:
        """Listen."""
        await self.listen(url if isinstance(url, Endpoint) else Endpoint.parse(url))

    async def stop(self) -> None:
        """End everything; what was taken is written."""
        if not self._stopped:
            self._stopped = True
            await super().stop()

    def abort(self, source: random.Random, name: str) -> None:
        """Cut one of the connections of that name."""
        mine: list[Any] = [
            one
            for one in self.node.connections
            if (handler := getattr(one, "handler", None)) is not None and handler.name == name
        ]
        if mine:
            source.choice(mine).abort()


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
        """Publish so many more, and wait until they are recorded."""
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
    """Reads numbers, and sees to it that they come in order, once each, with none missing but where that is told."""

    def __init__(self, stream: MessageStream, expected: int = 0) -> None:
        self.stream = stream
        self.next = expected
        self.holes = 0
        self._told = (stream.breaks, stream.lost_messages)

    def take(self, values: list[int]) -> None:
        """Look at what was read."""
        told = (self.stream.breaks, self.stream.lost_messages)
        for value in values:
            if value != self.next:
                assert value > self.next, f"{value} has come before, {self.next} was to come"
                assert told != self._told, f"{self.next} is missing, {value} has come, and nothing was told"
                self.holes += 1
            self._told = told
            self.next = value + 1

    async def some(self) -> None:
        """Read what is there."""
        messages = await self.stream.batch()
        assert messages, "the stream has ended"
        self.take([message.value for message in messages])

    async def until(self, last: int) -> None:
        """Read until that number has come."""
        while self.next <= last:
            await self.some()
