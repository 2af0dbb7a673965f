"""What the workers have in common: the event loop that a user would choose, and orders that are waited for in it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any

from peers.bench.orders import Order
from peers.bench.station import Station
from peers.daemon.memory import keep_freed_memory

__all__ = ["orders_of", "run"]


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a worker as a hub runs: on uvloop where it is installed, keeping freed memory, collecting garbage."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):
        import uvloop  # noqa: PLC0415 -- optional

        factory = uvloop.new_event_loop
    keep_freed_memory()
    gc.enable()
    gc.freeze()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


async def orders_of(station: Station) -> AsyncIterator[Order]:
    """Yield orders as they come, and let the loop run meanwhile; ends with the command."""
    readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(station.fileno(), readable.set)
    try:
        while True:
            await readable.wait()
            for order in station.take():
                yield order
            readable.clear()
    finally:
        loop.remove_reader(station.fileno())
