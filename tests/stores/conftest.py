"""Hubs for tests of stores."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hub.settings.settings import Settings, StoresSettings
from peers.client import Client, connect
from tests.hubs.fixtures import (  # noqa: F401 -- fixtures
    StartHub,
    default_url,
    hub,
    start_hub,
    uncaught,
)
from tests.hubs.hub import Hub
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories  # noqa: F401 -- a hook


@pytest.fixture
async def storing(start_hub: StartHub) -> Hub:  # noqa: F811 -- the fixture
    return await start_hub(settings=Settings(stores=StoresSettings(open=("s=:memory:",), changes=20)))


@pytest.fixture
async def client(storing: Hub) -> AsyncIterator[Client]:
    async with connect(storing.url, name="writer") as connected:
        yield connected
