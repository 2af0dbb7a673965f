"""`hub store ls`: the stores of a hub, or the entries of one, as a table or as JSON."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

from cyclopts import Parameter

from peers.cli.admin import ask, json_lines
from peers.cli.columns import Cell, columns
from peers.cli.notices import Notices
from peers.cli.output import Output
from peers.cli.store.entry import line_of, now, shown
from peers.cli.store.opening import opened_store
from peers.cli.texts import cut, escaped_lines
from peers.cli.url import HubFlags

__all__ = ["ls"]

_STORES = ("store", "entries", "KiB", "expiring", "changes", "commands", "reads", "refused")
_ENTRIES = ("key", "value", "version", "expires in s")

_KIB = 1024

_VALUE_COLUMNS = 80
"""How much of a value stands in a table; `--json` shows all of it."""


def ls(
    name: Annotated[str | None, Parameter(help="A store of the mesh; without it, the stores of this hub.")] = None,
    prefix: Annotated[str, Parameter(help="Only keys that are text and begin like that.")] = "",
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """List the stores of a hub, or the entries of one. What is counted is since the hub was started."""
    if name is None:
        rows = sorted(ask("store ls", hub, None, topic="stores"), key=lambda row: str(row["name"]))
        for line in json_lines(rows) if json else columns(_STORES, [_cells(row) for row in rows]):
            print(line)
        if not rows and sys.stderr.isatty():  # for people: a program sees that there is no line
            print("hub store ls: the hub has no store; `hub run --store NAME=:memory:` has one", file=sys.stderr)
    else:
        asyncio.run(_list(name, prefix, hub, as_json=json))


def _cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    return (
        row["name"],
        row["entries"],
        round(row["bytes"] / _KIB, 1),
        row["expiring"],
        row["changes_total"],
        row["commands_total"],
        row["reads_total"],
        row["refused_total"],
    )


async def _list(name: str, prefix: str, hub: HubFlags, *, as_json: bool) -> None:
    rows: list[tuple[Cell, ...]] = []
    output = Output(sys.stdout.fileno())
    escape = escaped_lines if sys.stdout.isatty() else bytes
    async with opened_store(name, hub, Notices("store ls")) as store:
        async for entry in store.entries(prefix):
            if as_json:
                await output.write(escape(line_of(entry, now())))
            else:
                key, value = shown(entry.key), cut(shown(entry.value), _VALUE_COLUMNS)
                rows.append((key, value, entry.version, entry.expires_s))
    await output.write("".join(f"{line}\n" for line in columns(_ENTRIES, sorted(rows))).encode())
    await output.flush()
