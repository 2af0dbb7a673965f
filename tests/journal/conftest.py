"""Tests with a loop run on asyncio's and on uvloop, and fail if the loop met an error that nobody caught."""

from __future__ import annotations

from tests.hubs.fixtures import pytest_asyncio_loop_factories, uncaught

__all__ = ["pytest_asyncio_loop_factories", "uncaught"]
