"""Hubs for tests of stores."""

from __future__ import annotations

from tests.hubs.fixtures import (  # noqa: F401 -- fixtures
    default_url,
    hub,
    start_hub,
    uncaught,
)
from tests.loops import on_the_hubs_loop as pytest_asyncio_loop_factories  # noqa: F401 -- a hook
