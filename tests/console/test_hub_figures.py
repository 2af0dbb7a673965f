"""What the page tells of the hub as a whole, made of what the hub says of its handlers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.console.node import start_node

MODULE = Path(__file__).parents[2] / "peers" / "console" / "static" / "parts" / "hub_figures.js"


def look(at_s: float, first: int, handlers: int, *some: tuple[int, str, int], hub: str = "a") -> dict[str, Any]:
    """One message of `$hub/statistics`: id, role and published messages of some handlers."""
    described = [{"id": number, "role": role, "published_messages": count} for number, role, count in some]
    return {"hub": hub, "at_s": at_s, "handlers": handlers, "first": first, "some": described}


async def told(node_start: list[str], *looks: dict[str, Any]) -> list[list[float | None]]:
    """Clients and rate after each message."""
    async with start_node(node_start) as node:
        found: list[list[float | None]] = await node.evaluate(
            """
            const {HubFigures} = await import(module);
            const figures = new HubFigures();
            return looks.map((look) => { figures.feed(look); return [figures.clients, figures.publishedPerS]; });
            """,
            module=MODULE.as_uri(),
            looks=looks,
        )
    return found


async def test_two_looks_make_a_rate(node_start: list[str]) -> None:
    """Links publish, too, but are no clients; one that is new began at nothing, one that has gone counts no more."""
    found = await told(
        node_start,
        look(10.0, 0, 2, (1, "client", 100), (2, "link", 50)),
        look(12.0, 0, 3, (1, "client", 300), (2, "link", 60), (3, "client", 10)),
        look(13.0, 0, 2, (2, "link", 60), (3, "client", 15)),
    )
    assert found == [[1, None], [2, 110], [1, 5]]


async def test_a_look_in_parts_counts_when_it_is_complete(node_start: list[str]) -> None:
    """One that lacks a part, because the page was too slow, is left out."""
    found = await told(
        node_start,
        look(1.0, 0, 3, (1, "client", 0), (2, "client", 0)),
        look(1.0, 2, 3, (3, "client", 0)),
        look(2.0, 2, 3, (3, "client", 9)),
        look(3.0, 0, 3, (1, "client", 2), (2, "client", 2)),
        look(3.0, 2, 3, (3, "client", 2)),
    )
    assert found == [[None, None], [3, None], [3, None], [3, None], [3, 3]]


async def test_another_hub_begins_anew(node_start: list[str]) -> None:
    """Its ids and its clock are others."""
    found = await told(
        node_start,
        look(1.0, 0, 1, (1, "client", 5)),
        look(9.0, 0, 1, (1, "client", 7), hub="b"),
    )
    assert found == [[1, None], [1, None]]
