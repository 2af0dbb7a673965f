"""`hub store get`: the value of a key as a line of JSON, or its whole entry."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

from cyclopts import Parameter

from peers.cli.notices import Notices
from peers.cli.store.entry import given, line_of, now, shown
from peers.cli.store.opening import opened_store
from peers.cli.texts import escaped_lines, json_text
from peers.cli.url import HubFlags

__all__ = ["get"]

EXIT_NONE = 1
"""There is no such entry."""


def get(
    name: Annotated[str, Parameter(help="What the store is called.")],
    key: Annotated[str, Parameter(help="JSON if it reads as such, else text.", allow_leading_hyphen=True)],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    text: Annotated[bool, Parameter(help="KEY is text, even if it reads as JSON.", negative=())] = False,
    json: Annotated[
        bool, Parameter(help="Write the entry as an object: key, value, version, expires.", negative=())
    ] = False,
) -> int:
    """Write the value of a key as JSON.

    Exit code 1 if there is no such entry.
    """
    return asyncio.run(_get(name, given(key, "KEY", as_text=text), hub, as_json=json))


async def _get(name: str, key: object, hub: HubFlags, *, as_json: bool) -> int:
    notices = Notices("store get")
    async with opened_store(name, hub, notices) as store:
        entry = await store.entry(key)
    if entry is None:
        notices.say(f"the store {name} has no entry {shown(key)}; `hub store ls {name}` lists them")
        return EXIT_NONE
    line = line_of(entry, now()) if as_json else _value(entry.value)
    if line is None:
        notices.say("the value has no JSON form: --json shows its msgpack")
        return EXIT_NONE
    sys.stdout.buffer.write(escaped_lines(line) if sys.stdout.isatty() else line)
    sys.stdout.flush()
    return 0


def _value(value: object) -> bytes | None:
    text = json_text(value)
    return None if text is None else text + b"\n"
