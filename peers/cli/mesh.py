"""`hub mesh`: the hubs and links of a mesh, as one hub knows them: tables, JSON, or a graph for Graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import Parameter

from peers.cli.admin import ask_pages, json_lines
from peers.cli.flag_values import FlagError
from peers.cli.texts import Cell, columns, escaped
from peers.cli.url import HubFlags

__all__ = ["mesh"]

_HUBS = ("hub", "name", "prefixes", "links", "reachable", "addresses")
_ZEEKS = ("zeek", "of hub", "name", "gateway")
_LINKS = ("link between", "name", "and", "name", "cost")
_OWN_LINKS = ("own link to", "name", "cost", "lag ms", "in", "out", "queued", "dropped", "paths", "kind")


def mesh(
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    json: Annotated[bool, Parameter(help="A JSON object a line, for each hub with its links.", negative=())] = False,
    dot: Annotated[bool, Parameter(help="A graph for Graphviz: hub mesh --dot | dot -Tsvg.", negative=())] = False,
) -> None:
    """Show the hubs of a mesh and their links, as the hub that is asked knows them."""
    if json and dot:
        raise FlagError("--json and --dot exclude each other")
    rows = ask_pages("mesh", hub, {}, lambda row: row["hub"], topic="mesh/graph")
    lines = json_lines(rows) if json else _graph(rows) if dot else _tables(rows)
    for line in lines:
        print(line)


def _tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Write hubs; behind an empty line each links, Zeeks, and what links of the hub have carried, if there are any."""
    yield from columns(_HUBS, [_cells(row) for row in rows])
    links = [link[:-1] for link in _links(rows)]
    tables = (_LINKS, links), (_ZEEKS, list(_zeeks(rows))), (_OWN_LINKS, list(_own_links(rows)))
    for titles, cells in tables:
        lines = columns(titles, cells)
        if lines:
            yield ""
            yield from lines


def _cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    prefixes = "everything" if row["incomplete"] else row["prefixes"]
    return row["hub"], row["name"], prefixes, len(row["links"]), _reachable(row), " ".join(row["addresses"])


def _reachable(row: dict[str, Any]) -> str:
    if row["own"]:
        return "this hub"
    if row["lost"] is None:
        return "yes"
    return f"no, since {datetime.fromtimestamp(row['lost'], UTC):%Y-%m-%d %H:%M:%S} UTC"


def _links(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, str, int, bool]]:
    """Return each link once, although both of its hubs have it; one of them may be unknown since its page was made.

    What comes last is whether it is a spare of the hub that was asked.
    """
    spares = {frozenset((row["hub"], other)) for row in rows for other in row["spares"]}
    names = {row["hub"]: row["name"] for row in rows}
    for row in rows:
        one = row["hub"]
        for other, cost in row["links"].items():
            if one < other or other not in names:
                yield one, names[one], other, names.get(other, ""), cost, frozenset((one, other)) in spares


def _own_links(rows: list[dict[str, Any]]) -> Iterator[tuple[Cell, ...]]:
    """Return the links of the hub that was asked, with what they have carried since they are up."""
    spares = {other for row in rows for other in row["spares"]}
    for row in rows:
        if (link := row["link"]) is not None:
            cost = "" if link["cost"] is None else link["cost"]
            lag_ms = "" if link["lag_s"] is None else round(link["lag_s"] * 1000)
            counted = ("received_messages", "sent_messages", "queued_messages", "dropped_messages", "path_changes")
            kind = "spare" if row["hub"] in spares else ""
            yield row["hub"], row["name"], cost, lag_ms, *(link[name] for name in counted), kind


def _zeeks(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """Return each Zeek once for each hub that has it; only one of them brings what it publishes."""
    zeeks = [(zeek, row, is_gateway) for row in rows for zeek, is_gateway in row.get("zeeks", {}).items()]
    for zeek, row, is_gateway in sorted(zeeks, key=lambda each: (each[0], not each[2])):
        yield zeek, row["hub"], row["name"], "yes" if is_gateway else "no"


def _graph(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Write the graph in the language of Graphviz: this hub is bold, lost hubs and spare links are dashed."""
    yield "graph mesh {"
    for row in rows:
        style = "bold" if row["own"] else "solid" if row["lost"] is None else "dashed"
        label = f'{_quoted(row["name"] or row["hub"])}, tooltip="{row["prefixes"]} prefixes"'
        yield f'  "{row["hub"]}" [label={label}, style={style}];'
    for one, _, other, _, cost, is_spare in _links(rows):
        yield f'  "{one}" -- "{other}" [label="{cost}"{", style=dashed" if is_spare else ""}];'
    yield "}"


def _quoted(text: str) -> str:
    """Write a text as Graphviz reads it, where a backslash and what follows may stand for something else."""
    return '"' + escaped(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
