"""`hub trace`: which hubs of the mesh want a topic, and the way there from one hub, as that one knows it."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import Parameter

from peers.cli.admin import ask_pages, json_lines
from peers.cli.columns import Cell, columns
from peers.cli.texts import escaped
from peers.cli.url import HubFlags

__all__ = ["trace"]

_HEADINGS = ("hub", "name", "hops", "cost", "way")


def trace(
    topic: Annotated[str, Parameter(help="Of a message, as if it entered at this hub.")],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """Show which hubs of a mesh want a topic, and the way to each, for admins; nothing is sent to find out."""
    rows = ask_pages("trace", hub, {"topic": topic}, lambda row: row["hub"], topic="mesh/trace")
    found = _ways(rows)
    if not found and sys.stderr.isatty():  # for people: a program sees that there is no line
        print(escaped(f"hub trace: no hub wants {topic}, as far as this one knows"), file=sys.stderr)
    for line in json_lines(found) if json else columns(_HEADINGS, [_cells(one) for one in found]):
        print(line)


def _ways(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the hubs that want it, the nearest first, each with the hubs on its way, both ends with them.

    The way is empty where there is none, or where the mesh has changed while it was asked for in several pages.
    """
    of = {row["hub"]: row for row in rows}
    found = []
    for row in rows:
        if row["wants"]:
            way = _way(of, row)
            steps = [{"hub": step["hub"], "name": step["name"]} for step in way]
            barred = any(step["barred"] for step in way)
            cost = row["cost"] if way else None
            found.append({"hub": row["hub"], "name": row["name"], "cost": cost, "barred": barred, "way": steps})
    return sorted(found, key=lambda one: (one["cost"] is None, one["cost"], one["hub"]))


def _way(of: dict[str, dict[str, Any]], row: dict[str, Any]) -> list[dict[str, Any]]:
    way = [row]
    while not way[-1]["own"]:
        before = of.get(way[-1]["before"])
        if before is None or len(way) > len(of):
            return []
        way.append(before)
    return way[::-1]


def _cells(one: dict[str, Any]) -> tuple[Cell, ...]:
    way = one["way"]
    if not way:
        return one["hub"], one["name"], "-", "-", "none: it cannot be reached"
    text = " > ".join(step["name"] or step["hub"] for step in way) if len(way) > 1 else "this hub"
    if one["barred"]:
        text += " (not sent: this link may not take it)"
    return one["hub"], one["name"], len(way) - 1, one["cost"], text
