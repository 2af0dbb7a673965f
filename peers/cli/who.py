"""`hub who`: the connections of a hub: whose each is, how that is known, and what it has done."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import Parameter

from peers.cli.admin import ask_pages, json_lines
from peers.cli.columns import Cell, columns
from peers.cli.url import HubFlags

__all__ = ["who"]

_PAGE = 1_000
"""How many connections are asked for at once: about 400 KiB. 10,000 take ten answers, each of which the hub makes over
several turns, instead of the 160 of pages as they are without it."""

_HEADINGS = ("id", "user", "by", "role", "name", "over", "address", "since (UTC)", "prefixes", "in", "out")
_WAITING = ("queued", "queued bytes", "dropped")


def who(
    user: Annotated[str | None, Parameter(help="Those of this user; all without it.", show_default=False)] = None,
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """List the connections of a hub, for admins. What is counted is in messages, since each has connected."""
    whom = {} if user is None else {"user": user}
    rows = ask_pages("who", hub, {"limit": _PAGE} | whom, lambda row: row["id"])
    for line in json_lines(rows) if json else columns((*_HEADINGS, *_WAITING), [_cells(row) for row in rows]):
        print(line)


def _cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    return (
        row["id"],
        row["user"],
        row["how"],
        row["role"],
        row["name"],
        row["protocol"],
        row["address"],
        datetime.fromtimestamp(row["since"], UTC).strftime("%Y-%m-%d %H:%M:%S"),
        row["prefixes"],
        row["published_messages"],
        row["delivered_messages"],
        row["queued_messages"],
        row["queued_bytes"],
        row["dropped_messages"],
    )
