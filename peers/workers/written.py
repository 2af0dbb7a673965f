"""`wait_written`: a link whose queue has run out. What is asked over it overtakes what waits in its queue."""

from __future__ import annotations

import asyncio
from typing import Final

from peers.connections.connection import Connection

__all__ = ["wait_written"]

_LOOK_S: Final = 0.005
"""How often the queue is looked at: nobody is told when it runs out, and a hub stops once."""


async def wait_written(link: Connection) -> None:
    """Wait until all that waited for a link was handed to its transport, or the link is gone."""
    while link.handler is not None and link.handler.queued_messages:  # noqa: ASYNC110 -- see above
        await asyncio.sleep(_LOOK_S)
