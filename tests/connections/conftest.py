"""Every test here runs on asyncio's loop and on uvloop, and fails if the loop met an error that nobody caught."""

from __future__ import annotations

from tests.forked.readers import forked_readers
from tests.hubs.fixtures import default_url, hub, pytest_asyncio_loop_factories, start_hub, uncaught

__all__ = ["default_url", "forked_readers", "hub", "pytest_asyncio_loop_factories", "start_hub", "uncaught"]
