"""`Asks`: what of a client is needed to ask."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

__all__ = ["Asks"]


class Asks(Protocol):
    """A `peers.client.Client`, or what stands in for one."""

    def request_nowait(self, topic: str, value: Any, timeout_s: float) -> asyncio.Future[Any]:
        """Ask; the answer comes later."""

    async def request(self, topic: str, value: Any, timeout_s: float) -> Any:
        """Ask, and wait for the answer."""
