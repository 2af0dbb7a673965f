"""Every test here runs on asyncio's loop and on uvloop, and fails if the loop met an error that nobody caught.

But for those on pretend sockets, and those above what loops do: they run on the hub's loop alone.
"""

from __future__ import annotations

import pytest

from tests.forked.readers import forked_readers
from tests.hubs.fixtures import hub, start_hub, uncaught
from tests.hubs.hub import LOOPBACK
from tests.loops import Loops, on_the_hubs_loop
from tests.loops import pytest_asyncio_loop_factories as both_loops

__all__ = ["forked_readers", "hub", "start_hub", "uncaught"]

ABOVE_LOOPS = {
    "bridge",
    "http",
    "test_documentation.py",
    "test_door.py",
    "test_pacing.py",
    "test_shares.py",
    "test_turns.py",
    "websocket",
}
"""Folders and files."""


def pytest_asyncio_loop_factories(item: pytest.Item) -> Loops:
    return both_loops() if ABOVE_LOOPS.isdisjoint(item.path.parts) else on_the_hubs_loop()


@pytest.fixture
def default_url(request: pytest.FixtureRequest) -> str:
    """Folders of what goes over WebSockets and HTTP have hubs that listen for these."""
    return LOOPBACK if {"bridge", "http", "websocket"}.isdisjoint(request.path.parts) else "ws://127.0.0.1:0"
