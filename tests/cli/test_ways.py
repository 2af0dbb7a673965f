"""Ways, as they are put together from what a hub tells that it knows."""

from __future__ import annotations

from typing import Any

from peers.cli.mesh import _way_cells, known_ways


def row(hub_id: str, before: str | None, cost: int | None, **fields: bool) -> dict[str, Any]:
    """A hub as the hub that is asked tells of it."""
    told = {"hub": hub_id, "name": hub_id.upper(), "own": False, "wants": False, "barred": False}
    return told | {"before": before, "cost": cost} | fields


def test_ways() -> None:
    """The nearest first; who cannot be reached last, as where the mesh has changed from one page to the next."""
    rows = [
        row("a", "b", 3, wants=True),
        row("b", "own", 1, barred=True),
        row("c", "own", 2, wants=True),
        row("d", "gone", 2, wants=True),
        row("e", None, None, wants=True),
        row("f", "g", 2, wants=True),
        row("g", "f", 2),
        row("own", None, 0, own=True),
    ]
    assert [_way_cells(one) for one in known_ways(rows)] == [
        ("c", "C", 1, 2, "OWN > C"),
        ("a", "A", 2, 3, "OWN > B > A (not sent: this link may not take it)"),
        ("d", "D", "-", "-", "none: it cannot be reached"),
        ("e", "E", "-", "-", "none: it cannot be reached"),
        ("f", "F", "-", "-", "none: it cannot be reached"),
    ]
