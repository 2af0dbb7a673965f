"""Commands that ask a hub, against real hubs: `who`, `users`, `kick`, `drain`, `reload`, `mesh`, `names`, `trace`."""

from __future__ import annotations

import json
import re
import socket
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hub.errors import CloseCode, RejectedError
from peers.cli.admin import WAYS, known_ways, mesh_lines, table
from peers.cli.texts import columns
from peers.client.blocking import connect
from peers.wire.hello import Hello
from tests.cli.programs import PATIENCE_S, RunningHub, hub, on_terminal, plain, run_hub, screen


def printed(running_hub: RunningHub, *arguments: str) -> list[str]:
    result = hub(*arguments, url=running_hub.tcp)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout.decode().splitlines()


def failed(running_hub: RunningHub, *arguments: str, code: int = 1) -> str:
    result = hub(*arguments, url=running_hub.tcp)
    assert (result.returncode, result.stdout) == (code, b"")
    (line,) = result.stderr.decode().splitlines()
    return line


def test_columns() -> None:
    assert columns(["name", "messages"], [["a\nb", 1], ["", 1_234_567]]) == [
        "name       messages",
        "a\\u000ab          1",
        "-         1,234,567",
    ]
    assert columns(["name"], []) == []


def test_who(running_hub: RunningHub) -> None:
    with connect(running_hub.unix, name="watched") as client, client.subscribe("/who"):
        lines = printed(running_hub, "who")
        assert lines[0].split()[:6] == ["id", "user", "by", "role", "name", "over"]
        (line,) = [line for line in lines if " watched " in line]
        assert " unix " in line
        found = [json.loads(line) for line in printed(running_hub, "who", "--json")]
        assert {"watched", "hub who"} <= {one["name"] for one in found}
        assert [one["id"] for one in found] == sorted(one["id"] for one in found)
        (watched,) = [one for one in found if one["name"] == "watched"]
        assert (watched["protocol"], watched["prefixes"], watched["user"]) == ("unix", 1, "")
        assert printed(running_hub, "who", "nobody") == []


def asked(running_hub: RunningHub) -> float:
    with urllib.request.urlopen(running_hub.ws.replace("ws://", "http://") + "/metrics") as answer:  # noqa: S310 -- a hub's
        (line,) = [line for line in answer if line.startswith(b"hub_requests_total ")]
    return float(line.split()[1])


_MANY = 200  # more than three pages of a hub that is asked for nothing in particular


def test_who_of_many(running_hub: RunningHub) -> None:
    host, _, port = running_hub.tcp.removeprefix("tcp://").rpartition(":")
    with ExitStack() as stack:
        for number in range(_MANY):
            sock = stack.enter_context(socket.create_connection((host, int(port))))
            sock.sendall(Hello(protocol=1, role="client", name=f"one of many {number}").encode())
            sock.recv(1)
        before = asked(running_hub)
        found = [json.loads(line) for line in printed(running_hub, "who", "--json")]
        assert asked(running_hub) - before == 2
    assert {f"one of many {number}" for number in range(_MANY)} <= {one["name"] for one in found}
    assert len(found) == len({one["id"] for one in found})


def test_users(running_hub: RunningHub) -> None:
    heading, nobody = printed(running_hub, "users")
    assert heading.split()[:3] == ["user", "roles", "connections"]
    assert nobody.split()[:2] == ["-", "-"]
    (one,) = [json.loads(line) for line in printed(running_hub, "users", "--json")]
    assert one["user"] == ""


def test_kick(running_hub: RunningHub) -> None:
    with connect(running_hub.tcp, name="to be kicked") as client:
        (row,) = [
            one for one in map(json.loads, printed(running_hub, "who", "--json")) if one["name"] == "to be kicked"
        ]
        assert printed(running_hub, "kick", str(row["id"]), "--text", "go") == ["hub kick: 1 connection closed"]
        with pytest.raises(RejectedError) as ended:
            client.wait_closed(timeout_s=PATIENCE_S)
        assert (ended.value.code, ended.value.text) == (CloseCode.FORBIDDEN, "go")
    assert failed(running_hub, "kick", "4711000") == "hub: there is no connection with id 4711000"
    assert failed(running_hub, "kick", "--user", "nobody") == "hub: there is no connection of user 'nobody'"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "give either"),
        (("1", "--user", "eve"), "give either"),
        (("1", "--text", "x" * 124), "--text: at most 123 bytes"),
        (("x",), "x"),
    ],
)
def test_a_command_line_that_makes_no_sense(running_hub: RunningHub, arguments: tuple[str, ...], text: str) -> None:
    assert text in failed(running_hub, "kick", *arguments, code=2)


def test_reload(tmp_path: Path) -> None:
    config = tmp_path / "hub.toml"
    config.write_text("")
    with run_hub(tmp_path, "--config", str(config)) as running:
        assert printed(running, "reload") == [
            "hub reload: users, certificates and settings are read again; changed settings: none"
        ]
        config.write_text("[queue]\nmessages = 7\n[journal]\ncommit_s = 0.5\n")
        assert printed(running, "reload") == [
            "hub reload: users, certificates and settings are read again; changed settings: queue.messages",
            "hub reload: needs a restart: journal.commit_s",
        ]
        config.write_text("[queue\n")
        line = failed(running, "reload")
        assert line.startswith(f"hub: {config}: not TOML: ")
        assert "line 1" in line


def test_drain(tmp_path: Path) -> None:
    with run_hub(tmp_path) as running:
        (line,) = printed(running, "drain")
        assert line.startswith("hub drain: moving 1 client off, which takes about 0 s; then the hub stops")
        assert running.process.wait(PATIENCE_S) == 0


def test_two_hubs(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        run_hub(tmp_path / "a", "--name", "first") as first,
        run_hub(tmp_path / "b", "--name", "second", "--peer", f"{first.tcp}?cost=4") as second,
    ):
        until_s = time.monotonic() + PATIENCE_S
        while sum(len(json.loads(line)["links"]) for line in printed(second, "mesh", "--json")) < 2:
            assert time.monotonic() < until_s, "the hubs are not linked"
        rows = {row["name"]: row for row in map(json.loads, printed(second, "mesh", "--json"))}
        one, other = rows["first"]["hub"], rows["second"]["hub"]
        assert rows["first"]["links"] == {other: 4}
        assert (rows["first"]["own"], rows["second"]["own"]) == (False, True)
        lines = [" ".join(line.split()) for line in printed(second, "mesh")]
        assert (lines[0], lines[3], lines[6], len(lines)) == ("hub name prefixes links reachable", "", "", 9)
        assert sorted(line.split()[:2] for line in lines[1:3]) == sorted([[one, "first"], [other, "second"]])
        assert sorted(line.split(" ", 4)[4] for line in lines[1:3]) == ["this hub", "yes"]
        (lower, higher) = sorted([f"{one} first", f"{other} second"])
        assert lines[5] == f"{lower} {higher} 4"
        assert lines[7] == "own link to name cost lag ms in out queued dropped paths"
        assert re.fullmatch(rf"{one} first 4 \S+ 0 0 0 0 0", lines[8])


def row(
    hub_id: str, name: str, *, lost: float | None = None, own: bool = False, incomplete: bool = False, **links: int
) -> dict[str, Any]:
    known = {"prefixes": 1200, "left_out": 0, "incomplete": incomplete, "link": None, "zeeks": {}}
    return {"hub": hub_id, "name": name, "own": own, "lost": lost, "links": links} | known


def test_zeeks() -> None:
    rows = [row("aa", "a") | {"zeeks": {"z1": False, "z2": True}}, row("bb", "b", aa=1) | {"zeeks": {"z1": True}}]
    assert list(mesh_lines(rows))[-5:] == [
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
    assert list(mesh_lines(rows)) == [
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
    assert list(mesh_lines([row("aa", "a", own=True), near, far]))[5:] == [
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
    assert table(known_ways(rows), WAYS) == [
        "hub  name  hops  cost  way",
        "c    C        1     2  OWN > C",
        "a    A        2     3  OWN > B > A (not sent: this link may not take it)",
        "d    D        -     -  none: it cannot be reached",
        "e    E        -     -  none: it cannot be reached",
        "f    F        -     -  none: it cannot be reached",
    ]


def test_names(running_hub: RunningHub) -> None:
    with connect(running_hub.unix) as client, client.claim("b.long.name"), client.claim("a.b", ["x", "y z"]):
        lines = printed(running_hub, "names")
        assert [line.split()[0] for line in lines] == ["a.b", "b.long.name"]
        assert lines[0].startswith("a.b          client ")
        assert lines[0].endswith("  x, y z")
        assert printed(running_hub, "names", "b.") == [lines[1]]
        (found,) = [json.loads(line) for line in printed(running_hub, "names", "a", "--json")]
        assert (found["name"], found["labels"]) == ("a.b", ["x", "y z"])
        assert len(found["hub"]) == 32
    assert printed(running_hub, "names", "--json") == []
    assert printed(running_hub, "names", "b.") == []


@pytest.mark.parametrize(
    ("command", "argument", "said"),
    [
        ("names", "b.", "the hub knows no name that begins with b."),
        ("trace", "/untraced", "no hub subscribes to /untraced, as far as this hub knows"),
    ],
)
def test_people_are_told_that_there_is_nothing(running_hub: RunningHub, command: str, argument: str, said: str) -> None:
    process, terminal = on_terminal(command, argument, url=running_hub.tcp)
    assert plain(screen(terminal)) == f"hub {command}: {said}\n"
    assert process.wait() == 0


def test_what_is_known(running_hub: RunningHub) -> None:
    with connect(running_hub.unix) as client, client.subscribe("/traced"):
        shown = hub("trace", "/traced/a", url=running_hub.tcp)
        assert (shown.returncode, shown.stderr) == (0, b"")
        headings, line = shown.stdout.decode().splitlines()
        assert headings.split() == ["hub", "name", "hops", "cost", "way"]
        assert line.split()[-4:] == ["0", "0", "this", "hub"]
        one = json.loads(hub("trace", "/traced/a", "--json", url=running_hub.tcp).stdout)
        assert (one["cost"], one["barred"]) == (0, False)
        assert one["way"] == [{"hub": one["hub"], "name": one["name"]}]
        untraced = hub("trace", "/untraced", url=running_hub.tcp)
        assert (untraced.returncode, untraced.stdout, untraced.stderr) == (0, b"", b"")
    complaint = "hub: topics under $hub/ are each hub's own: they do not cross links"
    assert failed(running_hub, "trace", "$hub/mesh") == complaint
