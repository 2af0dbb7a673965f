"""The loops that a hub or a client may run on; a `conftest.py` that imports the hook runs its tests on each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["pytest_asyncio_loop_factories"]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """asyncio's own loop, and uvloop where it is installed."""  # noqa: D403 -- its name
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop
    except ImportError:
        return loops
    return loops | {"uvloop": uvloop.new_event_loop}
