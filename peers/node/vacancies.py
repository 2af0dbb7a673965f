"""`Vacancies`: a dialler that was refused, because its peer is connected already, waits here until some peer has gone.

Two hubs may be told to dial each other. One link is enough, so one of the two diallers is refused for as long as the
other link stands. It should not ask again and again, and should dial at once when that link is lost.

Owner: the node, in one event loop. Cost: a peer that goes wakes everybody who waits, which are a few diallers at most.
"""

from __future__ import annotations

import asyncio
import math


class Vacancies:
    """Tells diallers that the place of a peer, which is a hub or a Zeek, is free again."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        """One future for each dialler that waits; removed when a peer goes, or when the dialler's time is up."""

    def tell(self) -> None:
        """Wake everybody who waits, since a peer has gone."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, limit_s: float) -> None:
        """Wait until a peer goes, but no longer than `limit_s`, which may be infinite.

        Cancellation: harmless.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await asyncio.wait((future,), timeout=None if math.isinf(limit_s) else limit_s)
        finally:
            if future in self._waiting:
                self._waiting.remove(future)
