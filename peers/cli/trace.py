"""`hub trace`: the way that messages of a topic take through the mesh, and how long each part of it takes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import Parameter

from hub.errors import NoResponderError, UsageError
from peers.cli.admin import ask, ask_pages, json_lines
from peers.cli.texts import Cell, columns, counted, escaped
from peers.cli.url import HubFlags
from peers.cli.ways import known_ways, way_lines

__all__ = ["trace"]

_HEADINGS = ("hub", "id", "hops", "round trip, ms", "waited, ms", "link, ms", "subscribers", "remark")

_OUTCOMES = {
    "policy": "not taken: the policy says so",
    "overtaken": "not taken: something newer of the hub that asks has come before it",
    "another way": "not taken: messages of the hub that asks come by another way now",
    "busy": "not taken: too many probes",
    "silent": "no answer in time",
    "earlier": "of an earlier version: a message goes there, and what it does then is not known",
    "full": "no probe: the queue to it is full",
    "too far": "no probe: too many hops",
    "not reached": "wants it, or is on the way, and the probe has not come there",
    "unreachable": "wants it, and no way leads there",
}


def trace(
    topic: Annotated[str, Parameter(help="Of a message, as if it entered at this hub.")],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    wait: Annotated[float, Parameter(help="Seconds for which hubs may answer, 0.01 to 10.")] = 2.0,
    known: Annotated[bool, Parameter(help="What this hub knows of the ways; send nothing.", negative=())] = False,
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
) -> None:
    """Send a probe on the way of a topic's messages; show each hub that it passes, and how long that takes. For admins.

    The probe waits where messages wait, and goes to no subscriber.
    """
    if known:
        _show_known(topic, hub, json=json)
        return
    try:
        rows = ask("trace", hub, {"topic": topic, "wait": wait}, topic="mesh/probe", wait_s=wait)
    except NoResponderError as error:
        raise UsageError("this hub is of a version that sends no probes: --known shows what it knows") from error
    for line in json_lines(rows) if json else columns(_HEADINGS, list(_drawn(rows))):
        print(line)


def _show_known(topic: str, hub: HubFlags, *, json: bool) -> None:
    rows = ask_pages("trace", hub, {"topic": topic}, lambda row: row["hub"], topic="mesh/trace")
    ways = known_ways(rows)
    if not ways and sys.stderr.isatty():  # for people: a program sees that there is no line
        print(escaped(f"hub trace: no hub wants {topic}, as far as this one knows"), file=sys.stderr)
    for line in json_lines(ways) if json else way_lines(ways):
        print(line)


def _drawn(rows: list[dict[str, Any]]) -> Iterator[tuple[Cell, ...]]:
    """Yield the hubs as a tree, the one that was asked first; then those that stand in none."""
    behind: dict[str | None, list[dict[str, Any]]] = {}
    for row in rows:
        behind.setdefault(row["before"], []).append(row)
    drawn: set[str] = set()
    waiting = [(row, "", "") for row in reversed(behind.get(None, []))]
    while waiting:
        row, branch, indent = waiting.pop()
        if row["hub"] in drawn:
            continue
        drawn.add(row["hub"])
        yield _cells(row, branch)
        following = behind.get(row["hub"], [])
        for one in reversed(following):
            is_last = one is following[-1]
            waiting.append((one, indent + ("└─ " if is_last else "├─ "), indent + ("   " if is_last else "│  ")))
    for row in rows:  # where a hub has told of one before it that nobody has told of
        if row["hub"] not in drawn:
            yield _cells(row, "? ")


def _cells(row: dict[str, Any], branch: str) -> tuple[Cell, ...]:
    times = (row["round_trip_ms"], row["waited_ms"], row["link_ms"])
    return branch + (row["name"] or row["hub"]), row["hub"], row["hops"], *times, row["subscribers"], _remark(row)


def _remark(row: dict[str, Any]) -> str:
    remarks = ["this hub"] if row["own"] else []
    if row["outcome"] != "taken":
        is_kept_back = row["outcome"] == "policy" and row["round_trip_ms"] is None
        remarks.append(
            "not sent: the policy says so" if is_kept_back else _OUTCOMES.get(row["outcome"], row["outcome"])
        )
    if row["own"] and not row["links"]:
        remarks.append("no other hub wants it")
    elif row["unwanted"]:
        remarks.append(f"{counted(row['unwanted'], 'further link')} to nobody who wants it")
    return "; ".join(remarks)
