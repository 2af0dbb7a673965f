"""Hubs that listen for WebSockets."""

from __future__ import annotations

import pytest

from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]


@pytest.fixture
def default_url() -> str:
    return "ws://127.0.0.1:0"
