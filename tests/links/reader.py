"""`Reader`: a subscriber that notices what comes twice, or out of order, and hears of what is lost before its hub."""

from __future__ import annotations

import asyncio

from hub.batch import decode_values
from hub.frame import encode_frame
from peers.wire.control import Notice, decode_notice
from peers.wire.kinds import Kind
from tests.hubs.eventually import eventually
from tests.hubs.raw_client import RawClient

__all__ = ["Reader"]


class Reader:
    """A subscriber that checks, of what each publisher has numbered, that the numbers only grow."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        # Topic → the numbers that have come.
        self.seen: dict[str, list[int]] = {}
        # How many it was told to have missed.
        self.missed = 0
        self._task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for frame in self._client.frames():
            if frame.kind == Kind.PING:
                await self._client.send(encode_frame(Kind.PONG, frame.body))
                continue
            if frame.kind == Kind.NOTICE:
                notice = decode_notice(frame.body)
                assert notice == Notice("dropped", count=notice.count), notice
                self.missed += notice.count
                continue
            assert frame.kind == Kind.MESSAGES, frame
            seen = self.seen.setdefault(frame.topic.decode(), [-1])
            for number, _ in decode_values(frame):
                assert number > seen[-1], f"{number} behind {seen[-1]} under {frame.topic!r}"
                seen.append(number)

    async def reach(self, topic: str, number: int) -> None:
        await eventually(lambda: self._task.done() or self.seen.get(topic, [-1])[-1] >= number)
        if self._task.done():
            await self._task
        assert self.seen[topic][-1] == number

    async def miss(self, messages: int) -> None:
        await eventually(lambda: self._task.done() or self.missed >= messages)
        assert self.missed == messages

    async def stop(self) -> None:
        if self._task.done():
            await self._task
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
