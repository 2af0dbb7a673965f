"""What stands in for a client and the services behind it, in one process. It answers right, unless told otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from peers.bench.y.operation import ARITHMETIC, Operation
from peers.bench.y.records import answer, requests_in, results_for
from peers.shm.ring import Block

Change = Callable[[int, Any], Any]
"""Gets how many answers there were before, and the right one; returns the one to give, or raises."""


class Asker:
    """Answers a turn of the loop later.

    Args:
        change: What to do to answers.
    """

    def __init__(self, change: Change = lambda _, right: right) -> None:
        self._change = change
        self.asked: list[tuple[str, Any]] = []
        self.open = self.most_open = self.allocated = 0

    def request_nowait(self, topic: str, value: Any, *, timeout_s: float) -> asyncio.Future[Any]:
        """Ask."""
        assert timeout_s > 0
        loop = asyncio.get_running_loop()
        number = len(self.asked)
        if isinstance(value, Block):
            value = value.memory
        value = bytes(value) if isinstance(value, memoryview) else value
        self.asked.append((topic, value))
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        future: asyncio.Future[Any] = loop.create_future()
        loop.call_soon(self._answer, number, future)
        return future

    async def request(self, topic: str, value: Any, *, timeout_s: float) -> Any:
        """Ask, and wait."""
        return await self.request_nowait(topic, value, timeout_s=timeout_s)

    async def allocate(self, size_bytes: int) -> Block:
        """Memory of this process."""
        self.allocated += 1
        return Block.alone(size_bytes)

    def _answer(self, number: int, future: asyncio.Future[Any]) -> None:
        self.open -= 1
        topic, value = self.asked[number]
        try:
            answered = self._change(number, right(topic, value))
        except Exception as error:  # noqa: BLE001 -- whatever a test wants
            future.set_exception(error)
        else:
            if answered is not None:
                future.set_result(answered)


def right(topic: str, value: Any) -> Any:
    """What the service must answer."""
    operation = Operation[topic.removesuffix("/records").rpartition("/")[2].upper()]
    if not topic.endswith("/records"):
        first, second = value
        return ARITHMETIC[operation](first, second)
    requests = requests_in(value)
    results = results_for(requests)
    answer(operation, requests, results)
    return results.tobytes()
