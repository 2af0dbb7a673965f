"""Tests with a loop run on asyncio's and on uvloop, and fail if the loop met an error that nobody caught."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.loops import pytest_asyncio_loop_factories  # noqa: F401 -- a hook that pytest finds by its name


@pytest.fixture
async def uncaught() -> AsyncIterator[None]:
    """Fail where the loop has met an error."""
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context))
    yield
    assert not found
