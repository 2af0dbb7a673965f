"""`hub names`: which service names a hub knows, and whose they are.

Each name is written on a line with its owner and its labels, in columns for people; with `--json` each is an object.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

from cyclopts import Parameter

from peers.cli.notices import Notices
from peers.cli.texts import escaped, json_text
from peers.cli.url import HubFlags
from peers.client import KnownName, connect

__all__ = ["names"]


def names(
    prefix: Annotated[str, Parameter(help="Those that begin with it.")] = "",
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """List the service names that a hub knows, those of its peers among them."""
    found, own_id = asyncio.run(_list(prefix, hub))
    if not found and sys.stderr.isatty():  # for people: a program sees that there is no line
        begins = f" that begins with {prefix}" if prefix else ""
        print(escaped(f"hub names: the hub knows no name{begins}"), file=sys.stderr)
    for line in _objects(found) if json else _lines(found, own_id):
        print(line)


async def _list(prefix: str, hub: HubFlags) -> tuple[list[KnownName], bytes]:
    async with connect(hub.url, **Notices("names").options(hub)) as client:
        found = await client.names(prefix)
        return found, client.hub.id if client.hub is not None else b""


def _objects(found: list[KnownName]) -> list[str]:
    made = [json_text(each._asdict() | {"hub": each.hub.hex()}) or b"" for each in found]
    return [line.decode() for line in made]


def _lines(found: list[KnownName], own_id: bytes) -> list[str]:
    """Write names in columns; a hub is named where it is not the one that was asked."""
    owners = [f"client {each.owner}" + (f" of {each.hub.hex()}" if each.hub != own_id else "") for each in found]
    widths = max((len(each.name) for each in found), default=0), max(map(len, owners), default=0)
    show = escaped if sys.stdout.isatty() else str
    return [
        show(f"{each.name:{widths[0]}}  {owner:{widths[1]}}  {', '.join(each.labels)}".rstrip())
        for each, owner in zip(found, owners, strict=True)
    ]
