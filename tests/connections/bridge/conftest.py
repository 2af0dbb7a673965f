"""Zeeks that do what a test tells them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.connections.bridge.zeeks import Zeek


@pytest.fixture
async def zeek() -> AsyncIterator[Zeek]:
    zeek = Zeek()
    await zeek.start()
    yield zeek
    await zeek.crash()
