"""`opened_store`: a store for as long as a command works with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from peers.cli.notices import Notices
from peers.cli.url import HubFlags
from peers.client import Store, connect

__all__ = ["opened_store"]


@asynccontextmanager
async def opened_store(name: str, hub: HubFlags, notices: Notices, *, reconnect: bool = False) -> AsyncIterator[Store]:
    """Connect with a hub, and have one of the stores that it reaches.

    Args:
        name: Of the store.
        hub: Which hub.
        notices: Of the command.
        reconnect: Whether the command goes on after the connection is lost. One that asks a single question does not.
    """
    options = notices.options(hub)
    if not reconnect:
        options["on_disconnect"] = lambda _: None  # the question fails, if it is still open: that says it all
        options["reconnect"] = False
    async with connect(hub.url, **options) as client:
        yield client.store(name)
