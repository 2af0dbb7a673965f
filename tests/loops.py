"""The loops that a hub or a client may run on; a `conftest.py` that imports the hook runs its tests on each.

Where reading, writing, listening and ending are tested, loops differ. What is tested above that would only be repeated
on a second loop: a `conftest.py` imports `on_the_hubs_loop` under the name of the hook, and `make test-pure`, a part of
`.ci/run`, runs those tests on asyncio's loop. It leaves out those of stores and tiers, which see a loop only through
what is tested on both: connections, and processes beside the hub.

`LOOP=uvloop` leaves the others out: CI does so where the tests run once more, on another Python.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

__all__ = ["Loops", "on_the_hubs_loop", "pytest_asyncio_loop_factories"]

Loops = dict[str, Callable[[], asyncio.AbstractEventLoop]]
"""What makes them, by name."""


def pytest_asyncio_loop_factories() -> Loops:
    """asyncio's own loop, and uvloop where it is installed; of these the one that is asked for, if it is there."""  # noqa: D403 -- its name
    return _chosen(os.environ.get("LOOP", ""))


def on_the_hubs_loop() -> Loops:
    """The loop that `hub run` takes: uvloop, where it is installed."""
    return _chosen(os.environ.get("LOOP") or "uvloop")


def _chosen(name: str) -> Loops:
    loops = _installed()
    return {name: loops[name]} if name in loops else loops


def _installed() -> Loops:
    loops: Loops = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop
    except ImportError:
        return loops
    return loops | {"uvloop": uvloop.new_event_loop}
