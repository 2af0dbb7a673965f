"""Hubs for tests of stores."""

from __future__ import annotations

from tests.hubs.fixtures import (  # noqa: F401 -- fixtures
    default_url,
    hub,
    pytest_asyncio_loop_factories,
    start_hub,
    uncaught,
)
