"""`hub mesh`: the hubs and links of a mesh, as one hub knows them; `hub trace`: the way of a topic through them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import Parameter

from peers.cli.admin import ask_pages, json_lines
from peers.cli.texts import Cell, columns, escaped
from peers.cli.url import HubFlags

_WAYS = ("hub", "name", "hops", "cost", "way")


def known_ways(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the hubs that want the topic, the nearest first, each with the hubs on its way, both ends with them.

    The way is empty where there is none, or where the mesh has changed between pages.
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
    return columns(_WAYS, [_way_cells(one) for one in ways])


def _way_cells(one: dict[str, Any]) -> tuple[Cell, ...]:
    way = one["way"]
    if not way:
        return one["hub"], one["name"], "-", "-", "none: it cannot be reached"
    text = " > ".join(step["name"] or step["hub"] for step in way) if len(way) > 1 else "this hub"
    if one["barred"]:
        text += " (not sent: this link may not take it)"
    return one["hub"], one["name"], len(way) - 1, one["cost"], text


def trace(
    topic: Annotated[str, Parameter(help="Topic to trace, for a message published at this hub.")],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """Show which hubs want a topic, and the path to each, as the hub at --url knows them. For admins."""
    rows = ask_pages("trace", hub, {"topic": topic}, lambda row: row["hub"], topic="mesh/trace")
    ways = known_ways(rows)
    if not ways and sys.stderr.isatty():  # for people: a program sees that there is no line
        print(escaped(f"hub trace: no hub wants {topic}, as far as this one knows"), file=sys.stderr)
    for line in json_lines(ways) if json else way_lines(ways):
        print(line)


_HUBS = ("hub", "name", "prefixes", "links", "reachable")
_ZEEKS = ("zeek", "of hub", "name", "gateway")
_LINKS = ("link between", "name", "and", "name", "cost")
_OWN_LINKS = ("own link to", "name", "cost", "lag ms", "in", "out", "queued", "dropped", "paths")


def mesh(
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line, for each hub with its links.", negative=())] = False,
) -> None:
    """Show the hubs of a mesh and their links, as the hub at --url knows them."""
    rows = ask_pages("mesh", hub, {}, lambda row: row["hub"], topic="mesh/graph")
    for line in json_lines(rows) if json else _tables(rows):
        print(line)


def _tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield tables of hubs, links, Zeeks, and traffic of the hub's own links."""
    yield from columns(_HUBS, [_cells(row) for row in rows])
    tables = (_LINKS, list(_links(rows))), (_ZEEKS, list(_zeeks(rows))), (_OWN_LINKS, list(_own_links(rows)))
    for titles, cells in tables:
        lines = columns(titles, cells)
        if lines:
            yield ""
            yield from lines


def _cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    prefixes = "everything" if row["incomplete"] else row["prefixes"]
    return row["hub"], row["name"], prefixes, len(row["links"]), _reachable(row)


def _reachable(row: dict[str, Any]) -> str:
    if row["own"]:
        return "this hub"
    if row["lost"] is None:
        return "yes"
    return f"no, since {datetime.fromtimestamp(row['lost'], UTC):%Y-%m-%d %H:%M:%S} UTC"


def _links(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, str, int]]:
    """Yield each link once, although both of its hubs have it, unless one is unknown since its page was made."""
    names = {row["hub"]: row["name"] for row in rows}
    for row in rows:
        one = row["hub"]
        for other, cost in row["links"].items():
            if one < other or other not in names:
                yield one, names[one], other, names.get(other, ""), cost


def _own_links(rows: list[dict[str, Any]]) -> Iterator[tuple[Cell, ...]]:
    """Yield the links of the hub that was asked, with their traffic."""
    for row in rows:
        if (link := row["link"]) is not None:
            cost = "" if link["cost"] is None else link["cost"]
            lag_ms = "" if link["lag_s"] is None else round(link["lag_s"] * 1000)
            counted = ("received_messages", "sent_messages", "queued_messages", "dropped_messages", "path_changes")
            yield row["hub"], row["name"], cost, lag_ms, *(link[name] for name in counted)


def _zeeks(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """Yield each Zeek once for each hub that has it; only one of them (the gateway) brings its messages."""
    zeeks = [(zeek, row, is_gateway) for row in rows for zeek, is_gateway in row.get("zeeks", {}).items()]
    for zeek, row, is_gateway in sorted(zeeks, key=lambda each: (each[0], not each[2])):
        yield zeek, row["hub"], row["name"], "yes" if is_gateway else "no"
