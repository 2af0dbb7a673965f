"""Every test here runs on asyncio's loop and on uvloop, and fails if the loop met an error that nobody caught."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from hub.settings import Settings
from tests.loops import pytest_asyncio_loop_factories  # noqa: F401 -- a hook that pytest finds by its name
from tests.tcp.hubs import LOOPBACK, Hub

StartHub = Callable[..., Awaitable[Hub]]


@pytest.fixture
async def start_hub() -> AsyncIterator[StartHub]:
    """Start hubs; all are stopped when the test is over."""
    uncaught: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: uncaught.append(context))
    hubs: list[Hub] = []

    async def start(
        url: str = LOOPBACK, *, settings: Settings | None = None, name: str = "hub", hub_id: bytes = b""
    ) -> Hub:
        hub = Hub(settings or Settings(), name, hub_id)
        await hub.listen(url)
        hubs.append(hub)
        return hub

    yield start
    for hub in hubs:
        await hub.stop_dialling()
    for hub in hubs:
        await hub.stop()
    assert not uncaught


@pytest.fixture
async def hub(start_hub: StartHub) -> Hub:
    """One hub with default settings."""
    return await start_hub()
