"""Hubs in the test's own loop, as fixtures for a `conftest.py`; tests fail if the loop met an uncaught error."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hub.settings.settings import Settings
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.transport.endpoints import Endpoint
from tests.hubs.hub import LOOPBACK, Hub
from tests.loops import pytest_asyncio_loop_factories

__all__ = [
    "StartHub",
    "default_url",
    "hub",
    "journal_url",
    "kept_hubs",
    "pytest_asyncio_loop_factories",
    "start_hub",
    "uncaught",
]
StartHub = Callable[..., Awaitable[Hub]]


@pytest.fixture
async def uncaught() -> AsyncIterator[None]:
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context))
    yield
    assert not found


@pytest.fixture
def default_url() -> str:
    return LOOPBACK


@contextlib.asynccontextmanager
async def kept_hubs() -> AsyncIterator[list[Hub]]:
    hubs: list[Hub] = []
    yield hubs
    for hub in hubs:
        await hub.stop_dialling()
    for hub in hubs:
        await hub.stop()


@pytest.fixture
async def start_hub(uncaught: None, default_url: str) -> AsyncIterator[StartHub]:  # noqa: ARG001 -- looks afterwards
    async with kept_hubs() as hubs:

        async def start(
            url: str | Endpoint = default_url,
            *,
            settings: Settings | None = None,
            name: str = "hub",
            hub_id: bytes = b"",
            loopback: bool = True,
        ) -> Hub:
            hub = Hub(settings or Settings(), name, hub_id, loopback=loopback)
            await hub.listen(url)
            hubs.append(hub)
            return hub

        yield start


@pytest.fixture
async def hub(start_hub: StartHub) -> Hub:
    return await start_hub()


@pytest.fixture
async def journal_url(tmp_path: Path) -> AsyncIterator[str]:
    """The address of a hub with a journal."""
    loaded = load({"listen": ["tcp://127.0.0.1:0"], "journal": {"path": str(tmp_path / "journal")}}, {})
    daemon = Daemon(loaded, "test hub")
    await daemon.start()
    yield daemon.endpoints[0].location
    await daemon.stop()
