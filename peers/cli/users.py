"""`hub users`: the users that a hub knows: their roles, and what all connections of each hold together.

With `--shares` it says what each holds of what is charged to users, and how much he may hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import Parameter

from peers.cli.admin import ask_pages, json_lines
from peers.cli.columns import Cell, columns
from peers.cli.url import HubFlags

__all__ = ["users"]

_HEADINGS = ("user", "roles", "connections", "queued bytes", "in", "dropped")

_OF_SHARES = ("user", "resource", "holds", "may hold", "unit", "by", "refused")


def users(
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    shares: Annotated[
        bool, Parameter(help="What each holds of each resource, and how much he may hold.", negative=())
    ] = False,
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """List the users of a hub, for admins: those of its policy, and who else is connected.

    `-` stands for all who have no rights of their own: nothing is charged to them.
    """
    rows = ask_pages("users", hub, {}, lambda row: row["user"])
    if json:
        lines = json_lines(rows)
    elif shares:
        lines = columns(_OF_SHARES, [cells for row in rows for cells in _shares(row)])
    else:
        lines = columns(_HEADINGS, [_sums(row) for row in rows])
    for line in lines:
        print(line)


def _sums(row: dict[str, Any]) -> tuple[Cell, ...]:
    return (
        row["user"],
        ", ".join(row["roles"]),
        row["connections"],
        row["queued_bytes"],
        row["published_messages"],
        row["dropped_messages"],
    )


def _shares(row: dict[str, Any]) -> Iterator[tuple[Cell, ...]]:
    """Return a line for each resource of a user of which he holds something, or of which there is something to say."""
    for resource, share in row["shares"].items():
        if share["held"] or share["set"] or share["refused"]:
            limit = "limit" if share["set"] else "fair part"
            yield row["user"], resource, share["held"], share["most"], share["unit"], limit, share["refused"]
