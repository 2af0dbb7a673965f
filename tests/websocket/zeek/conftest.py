"""Hubs that listen for WebSockets."""

from __future__ import annotations

from tests.loops import pytest_asyncio_loop_factories
from tests.websocket.conftest import hub, start_hub

__all__ = ["hub", "pytest_asyncio_loop_factories", "start_hub"]
