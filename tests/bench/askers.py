"""What stands in for a client and the services behind it, in one process. It answers right, unless told otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from peers.bench.y import OPERATIONS

__all__ = ["Asker", "Change"]

Change = Callable[[int, Any], Any]
"""Gets how many answers there were before, and the right one; returns the one to give, None for none, or raises."""


class Asker:
    """Answers a turn of the loop later.

    Args:
        change: What to do to answers.
        right: What the service behind a topic must answer.
    """

    def __init__(self, change: Change = lambda _, right: right, right: Callable[[str, Any], Any] | None = None) -> None:
        self._change = change
        self._right = right or _right
        self.asked: list[tuple[str, Any]] = []
        self.open = self.most_open = 0

    async def request(self, topic: str, value: Any, *, timeout_s: float) -> Any:
        """Ask, and wait for the answer."""
        assert timeout_s > 0
        number = len(self.asked)
        self.asked.append((topic, value))
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        await asyncio.sleep(0)
        self.open -= 1
        answer = self._change(number, self._right(topic, value))
        if answer is None:
            await asyncio.get_running_loop().create_future()
        return answer


def _right(topic: str, value: tuple[int, int]) -> int:
    return OPERATIONS[topic.rpartition("/")[2]](*value)
