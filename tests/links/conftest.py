"""Hubs in the test's own loop, linked as a test wants them; every test fails if the loop met an error."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.forked.readers import forked_readers
from tests.hubs.fixtures import StartHub, default_url, hub, start_hub, uncaught
from tests.hubs.hub import Hub
from tests.links.way import Way
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["default_url", "forked_readers", "hub", "pytest_asyncio_loop_factories", "start_hub", "uncaught"]


@pytest.fixture
async def north(start_hub: StartHub) -> Hub:
    return await start_hub(name="north", hub_id=b"\x01" * 16)


@pytest.fixture
async def south(start_hub: StartHub) -> Hub:
    return await start_hub(name="south", hub_id=b"\x02" * 16)


@pytest.fixture
async def way(south: Hub) -> AsyncIterator[Way]:
    between = await Way(south.endpoint).start()
    yield between
    await between.stop()
