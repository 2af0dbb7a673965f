"""Hubs that peer with Zeeks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from hub.settings.settings import Settings
from tests.connections.broker.scripted import HIGH, ZeekHub
from tests.hubs.fixtures import kept_hubs
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]

PLAIN = "zeek+tcp://127.0.0.1:0"

StartHub = Callable[..., Awaitable[ZeekHub]]


@pytest.fixture
async def start_hub(uncaught: None) -> AsyncIterator[StartHub]:  # noqa: ARG001 -- looks afterwards
    async with kept_hubs() as hubs:

        async def start(url: str = PLAIN, *, settings: Settings | None = None, hub_id: bytes = HIGH) -> ZeekHub:
            hub = ZeekHub(settings or Settings(), "hub", hub_id)
            await hub.listen()
            await hub.listen_for_zeeks(url)
            hubs.append(hub)
            return hub

        yield start


@pytest.fixture
async def hub(start_hub: StartHub) -> ZeekHub:
    return await start_hub()
