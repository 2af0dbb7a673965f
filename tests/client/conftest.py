"""Tests with a client fail if the loop met an error that nobody caught."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from peers.client import Client, connect
from tests.client.scripted import ScriptedHub
from tests.console.conftest import node_start, nodes
from tests.forked.readers import forked_readers
from tests.hubs.fixtures import StartHub, default_url, journal_url, start_hub, uncaught
from tests.hubs.hub import Hub
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = [
    "default_url",
    "forked_readers",
    "journal_url",
    "node_start",
    "nodes",
    "pytest_asyncio_loop_factories",
    "start_hub",
    "uncaught",
]


@pytest.fixture(params=["tcp", "ws"])
def listen_url(request: pytest.FixtureRequest) -> str:
    return f"{request.param}://127.0.0.1:0"


@pytest.fixture
async def hub(start_hub: StartHub, listen_url: str) -> Hub:
    return await start_hub(listen_url)


@pytest.fixture
async def client(hub: Hub) -> AsyncIterator[Client]:
    async with connect(hub.url) as client:
        yield client


@pytest.fixture
async def server(hub: Hub) -> AsyncIterator[Client]:
    """Another client, which serves."""
    async with connect(hub.url) as server:
        yield server


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedHub]:
    async with ScriptedHub() as hub:
        yield hub
