"""Hubs, and Zeeks that do what a test tells them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.loops import pytest_asyncio_loop_factories
from tests.websocket.conftest import hub, start_hub
from tests.zeek.bridge.zeeks import Zeek

__all__ = ["hub", "pytest_asyncio_loop_factories", "start_hub", "zeek"]


@pytest.fixture
async def zeek() -> AsyncIterator[Zeek]:
    """A Zeek that listens; it is stopped when the test is over."""
    zeek = Zeek()
    await zeek.start()
    yield zeek
    await zeek.crash()
