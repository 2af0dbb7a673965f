"""`hub store put`: set the value of a key."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from cyclopts import Parameter

from peers.cli.errors import FlagError
from peers.cli.notices import Notices
from peers.cli.ranges import check_positive
from peers.cli.store.entry import given, shown
from peers.cli.store.opening import opened_store
from peers.cli.url import HubFlags

__all__ = ["put"]

EXIT_OTHER_VERSION = 1
"""The entry had another version than was given."""


def put(  # noqa: PLR0913 -- one flag each
    name: Annotated[str, Parameter(help="What the store is called.")],
    key: Annotated[str, Parameter(help="JSON if it reads as such, else text.", allow_leading_hyphen=True)],
    value: Annotated[str, Parameter(help="The same.", allow_leading_hyphen=True)],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    expires: Annotated[float | None, Parameter(help="The entry lives for so long, seconds.")] = None,
    if_version: Annotated[
        int | None, Parameter(help="Only if the entry has this version; 0: only if there is none.")
    ] = None,
    text: Annotated[bool, Parameter(help="KEY and VALUE are text, even if they read as JSON.", negative=())] = False,
) -> int:
    """Set the value of a key, and write the version that its entry has now.

    Exit code 1 if the entry has another version than --if-version.
    """
    check_positive("--expires", expires, "seconds")
    if if_version is not None and if_version < 0:
        raise FlagError(f"--if-version {if_version}: give 0 or more")
    packed_key, packed_value = given(key, "KEY", as_text=text), given(value, "VALUE", as_text=text)
    return asyncio.run(_put(name, packed_key, packed_value, hub, expires, if_version))


async def _put(  # noqa: PLR0913, PLR0917 -- of the command's flags
    name: str, key: Any, value: Any, hub: HubFlags, expires_s: float | None, if_version: int | None
) -> int:
    notices = Notices("store put")
    async with opened_store(name, hub, notices) as store:
        version = await store.put(key, value, expires_s=expires_s, if_version=if_version)
        if version is None:
            entry = await store.entry(key)
            there = "there is none" if entry is None else f"it has version {entry.version}"
            notices.say(f"{shown(key)} is unchanged: {there}; read it again, and give that to --if-version")
            return EXIT_OTHER_VERSION
    print(version)
    return 0
