"""Hubs that listen for WebSockets, and clients in both encodings."""

from __future__ import annotations

import pytest

from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]


@pytest.fixture
def default_url() -> str:
    return "ws://127.0.0.1:0"


@pytest.fixture(params=["hub.v1.json", "hub.v1.msgpack"])
def subprotocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)
