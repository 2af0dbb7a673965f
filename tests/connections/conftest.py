"""Every test here runs on asyncio's loop and on uvloop, and fails if the loop met an error that nobody caught.

But for those on pretend sockets, and those above what loops do: they run on the hub's loop alone.
"""

from __future__ import annotations

import pytest

from tests.forked.readers import forked_readers
from tests.hubs.fixtures import default_url, hub, start_hub, uncaught
from tests.loops import Loops, on_the_hubs_loop
from tests.loops import pytest_asyncio_loop_factories as both_loops

__all__ = ["default_url", "forked_readers", "hub", "start_hub", "uncaught"]

ABOVE_LOOPS = {"test_door", "test_pacing", "test_shares", "test_turns"}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Loops:
    return on_the_hubs_loop() if item.path.stem in ABOVE_LOOPS else both_loops()
