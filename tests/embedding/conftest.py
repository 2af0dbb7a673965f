"""Tests with a hub in their own process run on asyncio's loop and on uvloop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from tests.loops import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]


@pytest.fixture(autouse=True)
def logs_of_this_test_alone() -> Iterator[None]:
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
