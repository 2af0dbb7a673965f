"""Tests with a loop run on asyncio's and on uvloop, and fail if the loop met an error that nobody caught."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hubs.fixtures import pytest_asyncio_loop_factories, uncaught
from tests.journal.files import close_stores

__all__ = ["pytest_asyncio_loop_factories", "uncaught"]


@pytest.fixture(autouse=True)
def stores() -> Iterator[None]:
    yield
    close_stores()
