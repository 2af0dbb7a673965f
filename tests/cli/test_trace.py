"""`hub trace`: against real hubs, and the tree as it is drawn of what a hub tells."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from peers.cli.mesh import _drawn
from peers.client.blocking import connect
from tests.cli.programs import RunningHub, hub, on_terminal, plain, run_hub, screen
from tests.hubs.hub import Hub
from tests.hubs.settings import settings_of


def row(hub_id: str, before: str | None, **told: Any) -> dict[str, Any]:
    """A hub as the hub that is asked tells of it."""
    fields = {"hub": hub_id, "name": hub_id.upper(), "own": False, "before": before, "hops": 1, "outcome": "taken"}
    times = {"round_trip_ms": 1.5, "waited_ms": 0.25, "link_ms": 1.25, "at": 1.0}
    return fields | times | {"subscribers": 2, "links": [], "unwanted": 0} | told


UNTOLD: dict[str, Any] = dict.fromkeys(("round_trip_ms", "waited_ms", "link_ms", "at", "subscribers", "unwanted"))


def test_two_hubs(tmp_path: Path, running_hub: RunningHub) -> None:
    """A line of headings, and one for each hub, with the time of each; an object for each."""
    with (
        run_hub(tmp_path, "--name", "far", "--peer", running_hub.tcp) as far,
        connect(far.unix) as client,
        client.subscribe("/traced"),
    ):
        found: list[dict[str, Any]] = []
        while [one["outcome"] for one in found] != ["taken", "taken"]:  # the link comes up meanwhile
            told = hub("trace", "/traced/a", "--json", url=running_hub.tcp)
            assert (told.returncode, told.stderr) == (0, b"")
            found = [json.loads(line) for line in told.stdout.splitlines()]
        own, other = found
        assert (own["own"], other["name"], other["before"], other["outcome"]) == (True, "far", own["hub"], "taken")
        assert (other["hops"], other["subscribers"]) == (1, 1)
        assert other["round_trip_ms"] > 0
        shown = hub("trace", "/traced/a", url=running_hub.tcp)
        assert (shown.returncode, shown.stderr) == (0, b"")
        headings, first, second = shown.stdout.decode().splitlines()
        assert headings.split("  ")[0] == "hub"
        assert "round trip, ms" in headings
        assert first.endswith("this hub")
        assert second.startswith("└─ far ")
        assert second.split()[-2:] == ["1", "-"]


def test_nobody_wants_it(running_hub: RunningHub) -> None:
    """The hub that is asked is all there is."""
    shown = hub("trace", "/untraced", url=running_hub.tcp)
    assert (shown.returncode, shown.stderr) == (0, b"")
    _, line = shown.stdout.decode().splitlines()
    assert line.endswith("this hub; no other hub wants it")


def test_what_is_known(running_hub: RunningHub) -> None:
    """Nothing is sent to find out: a table of ways, an object for each, and nothing where nobody wants it."""
    with connect(running_hub.unix) as client, client.subscribe("/traced"):
        shown = hub("trace", "/traced/a", "--known", url=running_hub.tcp)
        assert (shown.returncode, shown.stderr) == (0, b"")
        headings, line = shown.stdout.decode().splitlines()
        assert headings.split() == ["hub", "name", "hops", "cost", "way"]
        assert line.split()[-4:] == ["0", "0", "this", "hub"]
        one = json.loads(hub("trace", "/traced/a", "--known", "--json", url=running_hub.tcp).stdout)
        assert (one["cost"], one["barred"]) == (0, False)
        assert one["way"] == [{"hub": one["hub"], "name": one["name"]}]
        nobody = hub("trace", "/untraced", "--known", url=running_hub.tcp)
        assert (nobody.returncode, nobody.stdout, nobody.stderr) == (0, b"", b"")


def test_people_are_told_that_nobody_wants_it(running_hub: RunningHub) -> None:
    """An empty screen says nothing."""
    process, terminal = on_terminal("trace", "/untraced", "--known", url=running_hub.tcp)
    assert plain(screen(terminal)) == "hub trace: no hub wants /untraced, as far as this one knows\n"
    assert process.wait() == 0


def test_a_topic_that_no_message_may_bear(running_hub: RunningHub) -> None:
    """One line says why; so it does of a time that cannot be."""
    for flags in ((), ("--known",)):
        result = hub("trace", "$hub/mesh", *flags, url=running_hub.tcp)
        assert (result.returncode, result.stdout) == (1, b"")
        assert result.stderr == b"hub: topics under $hub/ are each hub's own: they do not cross links\n"
    result = hub("trace", "/a", "--wait", "60", url=running_hub.tcp)
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr == b"hub: wait 60: expected 0.01 to 10 seconds\n"


async def test_a_hub_of_an_earlier_version() -> None:
    """It has no such service: one line says what can be asked of it."""
    earlier = Hub(settings_of())
    try:
        await earlier.listen()
        result = await asyncio.to_thread(hub, "trace", "/a", url=earlier.url)
    finally:
        await earlier.stop()
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr == b"hub: this hub is of a version that sends no probes: --known shows what it knows\n"


def test_a_tree() -> None:
    """Each hub behind the one before it; what has not answered says why; what stands nowhere comes last."""
    rows = [
        row("own", None, own=True, hops=0, links=[{}], unwanted=1, round_trip_ms=0.0, waited_ms=None, link_ms=None),
        row("a", "own", unwanted=2),
        row("b", "own", outcome="policy", subscribers=None),
        row("c", "a", hops=2),
        row("d", "own", **UNTOLD | {"outcome": "policy"}),
        row("e", "a", hops=2, **UNTOLD | {"outcome": "silent", "name": ""}),
        row("f", "own", **UNTOLD | {"outcome": "a word of later"}),
        row("g", None, hops=None, **UNTOLD | {"outcome": "unreachable"}),
        row("h", "i", hops=4),
        row("j", "k", hops=4),
        row("k", "j", hops=4),
    ]
    times = (1.5, 0.25, 1.25, 2)
    nothing = (None, None, None, None)
    assert list(_drawn(rows)) == [
        ("OWN", "own", 0, 0.0, None, None, 2, "this hub; 1 further link to nobody who wants it"),
        ("├─ A", "a", 1, *times, "2 further links to nobody who wants it"),
        ("│  ├─ C", "c", 2, *times, ""),
        ("│  └─ e", "e", 2, *nothing, "no answer in time"),
        ("├─ B", "b", 1, 1.5, 0.25, 1.25, None, "not taken: the policy says so"),
        ("├─ D", "d", 1, *nothing, "not sent: the policy says so"),
        ("└─ F", "f", 1, *nothing, "a word of later"),
        ("G", "g", None, *nothing, "wants it, and no way leads there"),
        ("? H", "h", 4, *times, ""),
        ("? J", "j", 4, *times, ""),
        ("? K", "k", 4, *times, ""),
    ]
