"""`end_all`: the end of tasks that run for as long as their owner does. No state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


async def end_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until each has ended, however it does."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
