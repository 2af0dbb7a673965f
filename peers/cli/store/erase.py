"""`hub store erase`: take an entry away."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from cyclopts import Parameter

from peers.cli.notices import Notices
from peers.cli.store.entry import given, shown
from peers.cli.store.opening import opened_store
from peers.cli.url import HubFlags

__all__ = ["erase"]

EXIT_NONE = 1
"""There was no such entry."""


def erase(
    name: Annotated[str, Parameter(help="What the store is called.")],
    key: Annotated[str, Parameter(help="JSON if it reads as such, else text.", allow_leading_hyphen=True)],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    text: Annotated[bool, Parameter(help="KEY is text, even if it reads as JSON.", negative=())] = False,
) -> int:
    """Take an entry away.

    Exit code 1 if there was none.
    """
    return asyncio.run(_erase(name, given(key, "KEY", as_text=text), hub))


async def _erase(name: str, key: Any, hub: HubFlags) -> int:
    notices = Notices("store erase")
    async with opened_store(name, hub, notices) as store:
        was_there = await store.erase(key)
    if not was_there:
        notices.say(f"the store {name} has no entry {shown(key)}; `hub store ls {name}` lists them")
    return 0 if was_there else EXIT_NONE
