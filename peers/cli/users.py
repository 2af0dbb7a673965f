"""`hub users`: the users that a hub knows: their roles, and what all connections of each hold together."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from peers.cli.admin import ask_pages, json_lines
from peers.cli.columns import columns
from peers.cli.url import HubFlags

__all__ = ["users"]

_HEADINGS = ("user", "roles", "connections", "queued bytes", "in", "dropped")


def users(
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """List the users of a hub, for admins: those of its policy, and who else is connected.

    `-` stands for all who have no rights of their own.
    """
    rows = ask_pages("users", hub, {}, lambda row: row["user"])
    cells = [
        (
            row["user"],
            ", ".join(row["roles"]),
            row["connections"],
            row["queued_bytes"],
            row["published_messages"],
            row["dropped_messages"],
        )
        for row in rows
    ]
    for line in json_lines(rows) if json else columns(_HEADINGS, cells):
        print(line)
