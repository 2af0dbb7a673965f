"""The loops that a hub or a client may run on; a `conftest.py` that imports the hook runs its tests on each.

`LOOP=uvloop` leaves the others out: CI does so where the tests run once more, on another Python.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

__all__ = ["pytest_asyncio_loop_factories"]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """asyncio's own loop, and uvloop where it is installed; of these the one that is asked for, if it is there."""  # noqa: D403 -- its name
    loops = _installed()
    asked = os.environ.get("LOOP", "")
    return {asked: loops[asked]} if asked in loops else loops


def _installed() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop
    except ImportError:
        return loops
    return loops | {"uvloop": uvloop.new_event_loop}
