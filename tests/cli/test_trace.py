"""`hub trace`: against a real hub, and ways as they are put together from what a hub tells."""

from __future__ import annotations

import json
from typing import Any

from peers.cli.trace import _cells, _ways
from peers.client.blocking import connect
from tests.cli.programs import RunningHub, hub, on_terminal, plain, screen


def row(hub_id: str, before: str | None, cost: int | None, **fields: bool) -> dict[str, Any]:
    """A hub as the hub that is asked tells of it."""
    told = {"hub": hub_id, "name": hub_id.upper(), "own": False, "wants": False, "barred": False}
    return told | {"before": before, "cost": cost} | fields


def test_a_hub_that_wants_it_itself(running_hub: RunningHub) -> None:
    """A line of headings, and one for each hub; an object for each; nothing where nobody wants it."""
    with connect(running_hub.unix) as client, client.subscribe("/traced"):
        shown = hub("trace", "/traced/a", url=running_hub.tcp)
        assert (shown.returncode, shown.stderr) == (0, b"")
        headings, line = shown.stdout.decode().splitlines()
        assert headings.split() == ["hub", "name", "hops", "cost", "way"]
        assert line.split()[-4:] == ["0", "0", "this", "hub"]
        one = json.loads(hub("trace", "/traced/a", "--json", url=running_hub.tcp).stdout)
        assert (one["cost"], one["barred"]) == (0, False)
        assert one["way"] == [{"hub": one["hub"], "name": one["name"]}]
        nobody = hub("trace", "/untraced", url=running_hub.tcp)
        assert (nobody.returncode, nobody.stdout, nobody.stderr) == (0, b"", b"")


def test_people_are_told_that_nobody_wants_it(running_hub: RunningHub) -> None:
    """An empty screen says nothing."""
    process, terminal = on_terminal("trace", "/untraced", url=running_hub.tcp)
    assert plain(screen(terminal)) == "hub trace: no hub wants /untraced, as far as this one knows\n"
    assert process.wait() == 0


def test_a_topic_that_no_message_may_bear(running_hub: RunningHub) -> None:
    """One line says why."""
    result = hub("trace", "$hub/mesh", url=running_hub.tcp)
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr == b"hub: topics under $hub/ are each hub's own: they do not cross links\n"


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
    assert [_cells(one) for one in _ways(rows)] == [
        ("c", "C", 1, 2, "OWN > C"),
        ("a", "A", 2, 3, "OWN > B > A (not sent: this link may not take it)"),
        ("d", "D", "-", "-", "none: it cannot be reached"),
        ("e", "E", "-", "-", "none: it cannot be reached"),
        ("f", "F", "-", "-", "none: it cannot be reached"),
    ]
