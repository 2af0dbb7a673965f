"""`known_ways`: which hubs of the mesh want a topic, and the way there from one hub, as that one knows it.

Nothing is sent to find out. For `hub trace --known`; no state.
"""

from __future__ import annotations

from typing import Any

from peers.cli.texts import Cell, columns

__all__ = ["known_ways", "way_lines"]

_HEADINGS = ("hub", "name", "hops", "cost", "way")


def known_ways(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
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


def way_lines(ways: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table of ways."""
    return columns(_HEADINGS, [_cells(one) for one in ways])


def _cells(one: dict[str, Any]) -> tuple[Cell, ...]:
    way = one["way"]
    if not way:
        return one["hub"], one["name"], "-", "-", "none: it cannot be reached"
    text = " > ".join(step["name"] or step["hub"] for step in way) if len(way) > 1 else "this hub"
    if one["barred"]:
        text += " (not sent: this link may not take it)"
    return one["hub"], one["name"], len(way) - 1, one["cost"], text
