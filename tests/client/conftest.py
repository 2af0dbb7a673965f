"""Tests with a client run on asyncio's loop and on uvloop, and fail if the loop met an error that nobody caught."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hub.settings import Settings
from peers.transport.endpoints import Endpoint
from tests.client.hubs import Hub
from tests.loops import pytest_asyncio_loop_factories  # noqa: F401 -- a hook that pytest finds by its name

StartHub = Callable[..., Awaitable[Hub]]


@pytest.fixture
async def start_hub() -> AsyncIterator[StartHub]:
    """Start hubs; all are stopped when the test is over."""
    uncaught: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: uncaught.append(context))
    hubs: list[Hub] = []

    async def start(url: str | Endpoint = "tcp://127.0.0.1:0", settings: Settings | None = None) -> Hub:
        hub = Hub(settings or Settings())
        await hub.listen(url if isinstance(url, Endpoint) else Endpoint.parse(url))
        hubs.append(hub)
        return hub

    yield start
    for hub in hubs:
        await hub.stop()
    assert not uncaught


@pytest.fixture(params=["tcp", "unix", "ws"])
def listen_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where to listen, over each transport."""
    return {
        "tcp": "tcp://127.0.0.1:0",
        "unix": f"unix://{tmp_path}/hub.sock",
        "ws": "ws://127.0.0.1:0",
    }[request.param]


@pytest.fixture
async def hub(start_hub: StartHub, listen_url: str) -> Hub:
    """One hub with default settings, over each transport."""
    return await start_hub(listen_url)
