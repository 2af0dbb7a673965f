"""`Waiters`: those who wait until something has changed, and look again then."""

from __future__ import annotations

import asyncio

__all__ = ["Waiters"]


class Waiters:
    """Those of one event loop who wait for a change."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        # A future for each of them; `wake` empties it.
        self._waiting: list[asyncio.Future[None]] = []

    def __bool__(self) -> bool:
        """Return whether anybody waits."""
        return bool(self._waiting)

    async def wait(self) -> None:
        """Wait for the next `wake`. Cancellation: nobody waits any more."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def wake(self) -> None:
        """Let all of them look again, as something has changed."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
