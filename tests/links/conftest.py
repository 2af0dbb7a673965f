"""Every test here fails if the loop met an error that nobody caught."""

from __future__ import annotations

from tests.forked.readers import forked_readers
from tests.hubs.fixtures import default_url, hub, start_hub, uncaught
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories

__all__ = ["default_url", "forked_readers", "hub", "pytest_asyncio_loop_factories", "start_hub", "uncaught"]
