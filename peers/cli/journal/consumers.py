"""`hub journal consumers`: the named consumers of a hub: how far each has come, and how far it is behind."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from peers.cli.admin import ask, json_lines
from peers.cli.texts import Cell, columns
from peers.cli.url import HubFlags

__all__ = ["consumers"]

_HEADINGS = ("consumer", "prefixes", "members", "position", "lag", "out", "acknowledged", "again", "dead", "missed")


def consumers(
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """List the named consumers of a hub that runs, for admins. What is counted is in messages, since its start."""
    rows = ask("journal consumers", hub, None, topic="consumers")
    for line in json_lines(rows) if json else columns(_HEADINGS, [_cells(row) for row in rows]):
        print(line)


def _sharing(row: dict[str, Any]) -> Cell:
    """Return how many share it; of a query, which nobody shares, when it was heard of."""
    heard_s: float | None = row.get("committed_s")  # a hub of before has none
    members: int = row["members"]
    return members if heard_s is None else f"query, {heard_s:,.0f} s ago"


def _cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    counters = row["counters"]
    return (
        row["name"],
        ", ".join(prefix or "everything" for prefix in row["prefixes"]),
        _sharing(row),
        row["position"],
        row["lag"],
        row["out"],
        counters["acknowledged_total"],
        counters["redelivered_total"],
        counters["dead_total"],
        counters["missed_total"],
    )
