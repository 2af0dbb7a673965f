"""Hubs that listen for WebSockets, and Zeeks that do what a test tells them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.connections.bridge.zeeks import Zeek
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]


@pytest.fixture
def default_url() -> str:
    return "ws://127.0.0.1:0"


@pytest.fixture
async def zeek() -> AsyncIterator[Zeek]:
    zeek = Zeek()
    await zeek.start()
    yield zeek
    await zeek.crash()
