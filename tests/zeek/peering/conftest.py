"""Hubs that peer with Zeeks; a test fails if the loop met an error that nobody caught."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from hub.settings import Settings
from tests.zeek.peering.hubs import ZeekHub
from tests.zeek.peering.scripted import HIGH

PLAIN = "zeek+tcp://127.0.0.1:0"

StartHub = Callable[..., Awaitable[ZeekHub]]


@pytest.fixture
async def start_hub() -> AsyncIterator[StartHub]:
    """Start hubs; all are stopped when the test is over."""
    uncaught: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: uncaught.append(context))
    hubs: list[ZeekHub] = []

    async def start(url: str = PLAIN, *, settings: Settings | None = None, hub_id: bytes = HIGH) -> ZeekHub:
        hub = ZeekHub(settings or Settings(), "hub", hub_id)
        await hub.listen()
        await hub.listen_for_zeeks(url)
        hubs.append(hub)
        return hub

    yield start
    for hub in hubs:
        await hub.stop()
    assert not uncaught


@pytest.fixture
async def hub(start_hub: StartHub) -> ZeekHub:
    """One hub with default settings, whose id is higher than that of most endpoints."""
    return await start_hub()
