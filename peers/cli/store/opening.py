"""`opened_store`: a store for as long as a command works with it, and what is wrong if there is none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hub.errors import NoResponderError
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

    Raises:
        NoResponderError: There is no such store; the text says how there will be.
    """
    options = notices.options(hub)
    if not reconnect:
        options["on_disconnect"] = lambda _: None  # the question fails, if it is still open: that says it all
        options["reconnect"] = False
    try:
        async with connect(hub.url, **options) as client:
            yield client.store(name)
    except NoResponderError as error:
        text = (
            f"no hub that is reached has a store {name!r}: `hub store ls` lists those of a hub, "
            f"`hub run --store {name}=:memory:` has one"
        )
        raise NoResponderError(error.status, text) from error
