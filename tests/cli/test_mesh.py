"""`hub mesh` against real hubs, and how it writes a mesh that has seen better days."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from peers.cli.mesh import _tables, _way_cells, known_ways
from tests.cli.programs import PATIENCE_S, hub, run_hub


def printed(url: str, *arguments: str) -> list[str]:
    result = hub("mesh", *arguments, url=url)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout.decode().splitlines()


def test_two_hubs(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        run_hub(tmp_path / "a", "--name", "first") as first,
        run_hub(tmp_path / "b", "--name", "second", "--peer", f"{first.tcp}?cost=4") as second,
    ):
        until_s = time.monotonic() + PATIENCE_S
        while sum(len(json.loads(line)["links"]) for line in printed(second.tcp, "--json")) < 2:
            assert time.monotonic() < until_s, "the hubs are not linked"
        rows = {row["name"]: row for row in map(json.loads, printed(second.tcp, "--json"))}
        one, other = rows["first"]["hub"], rows["second"]["hub"]
        assert rows["first"]["links"] == {other: 4}
        assert (rows["first"]["own"], rows["second"]["own"]) == (False, True)
        lines = printed(second.tcp)
        assert lines[0].split() == ["hub", "name", "prefixes", "links", "reachable"]
        assert sorted(line.split()[:2] for line in lines[1:3]) == sorted([[one, "first"], [other, "second"]])
        ends = sorted(" ".join(line.split()[4:]) for line in lines[1:3])
        assert ends == ["this hub", "yes"]
        assert lines[3] == ""
        assert lines[6] == ""
        assert lines[7].split() == [
            "own",
            "link",
            "to",
            "name",
            "cost",
            "lag",
            "ms",
            "in",
            "out",
            "queued",
            "dropped",
            "paths",
        ]
        own = lines[8].split()
        assert own[:3] == [one, "first", "4"]
        assert own[4:] == ["0"] * 5
        assert len(lines) == 9
        lower, higher = sorted([(one, "first"), (other, "second")])
        assert lines[5].split() == [*lower, *higher, "4"]


def row(
    hub_id: str,
    name: str,
    *,
    lost: float | None = None,
    own: bool = False,
    incomplete: bool = False,
    **links: int,
) -> dict[str, Any]:
    known = {
        "prefixes": 1200,
        "left_out": 0,
        "incomplete": incomplete,
        "link": None,
        "zeeks": {},
    }
    return {"hub": hub_id, "name": name, "own": own, "lost": lost, "links": links} | known


def test_zeeks() -> None:
    rows = [row("aa", "a") | {"zeeks": {"z1": False, "z2": True}}, row("bb", "b", aa=1) | {"zeeks": {"z1": True}}]
    assert list(_tables(rows))[-5:] == [
        "",
        "zeek  of hub  name  gateway",
        "z1    bb      b     yes",
        "z1    aa      a     no",
        "z2    aa      a     yes",
    ]


def test_a_hub_that_cannot_be_reached() -> None:
    rows = [
        row("aa", 'n"\\\n', own=True, bb=3),
        row("bb", "", aa=3, ab=1),
        row("cc", "c", lost=1_795_000_000.0, incomplete=True),
    ]
    assert list(_tables(rows)) == [
        "hub  name         prefixes  links  reachable",
        'aa   n"\\\\u000a       1,200      1  this hub',
        "bb   -               1,200      2  yes",
        "cc   c          everything      0  no, since 2026-11-18 11:06:40 UTC",
        "",
        "link between  name       and  name  cost",
        'aa            n"\\\\u000a  bb   -        3',
        "bb            -          ab   -        1",
    ]


def test_links_of_the_hub_that_is_asked() -> None:
    figures = {"received_messages": 1500, "received_bytes": 1, "sent_messages": 7, "sent_bytes": 1}
    figures |= {"path_changes": 2, "queued_messages": 3, "waiting_s": 0.5, "dropped_messages": 4}
    near, far = row("bb", "b") | {"link": {**figures, "lag_s": 0.0123, "cost": 5}}, row("cc", "c")
    far["link"] = {**figures, "lag_s": None, "cost": None}
    assert list(_tables([row("aa", "a", own=True), near, far]))[5:] == [
        "own link to  name  cost  lag ms     in  out  queued  dropped  paths",
        "bb           b        5      12  1,500    7       3        4      2",
        "cc           c        -       -  1,500    7       3        4      2",
    ]


def way_row(hub_id: str, before: str | None, cost: int | None, **fields: bool) -> dict[str, Any]:
    told = {"hub": hub_id, "name": hub_id.upper(), "own": False, "wants": False, "barred": False}
    return told | {"before": before, "cost": cost} | fields


def test_ways() -> None:
    rows = [
        way_row("a", "b", 3, wants=True),
        way_row("b", "own", 1, barred=True),
        way_row("c", "own", 2, wants=True),
        way_row("d", "gone", 2, wants=True),
        way_row("e", None, None, wants=True),
        way_row("f", "g", 2, wants=True),
        way_row("g", "f", 2),
        way_row("own", None, 0, own=True),
    ]
    assert [_way_cells(one) for one in known_ways(rows)] == [
        ("c", "C", 1, 2, "OWN > C"),
        ("a", "A", 2, 3, "OWN > B > A (not sent: this link may not take it)"),
        ("d", "D", "-", "-", "none: it cannot be reached"),
        ("e", "E", "-", "-", "none: it cannot be reached"),
        ("f", "F", "-", "-", "none: it cannot be reached"),
    ]
