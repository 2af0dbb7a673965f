"""`hub names` against a real hub."""

from __future__ import annotations

import json

from peers.client.blocking import connect
from tests.cli.programs import RunningHub, hub, on_terminal, plain, screen


def listed(running_hub: RunningHub, *arguments: str) -> str:
    result = hub("names", *arguments, url=running_hub.tcp)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout.decode()


def test_names(running_hub: RunningHub) -> None:
    with connect(running_hub.unix) as client, client.claim("b.long.name"), client.claim("a.b", ["x", "y z"]):
        lines = listed(running_hub).splitlines()
        assert [line.split()[0] for line in lines] == ["a.b", "b.long.name"]
        assert lines[0].startswith("a.b          client ")
        assert lines[0].endswith("  x, y z")
        assert listed(running_hub, "b.") == lines[1] + "\n"
        (found,) = [json.loads(line) for line in listed(running_hub, "a", "--json").splitlines()]
        assert (found["name"], found["labels"]) == ("a.b", ["x", "y z"])
        assert len(found["hub"]) == 32
    assert listed(running_hub, "--json") == ""
    assert listed(running_hub, "b.") == ""


def test_people_are_told_that_there_are_none(running_hub: RunningHub) -> None:
    process, terminal = on_terminal("names", "b.", url=running_hub.tcp)
    assert plain(screen(terminal)) == "hub names: the hub knows no name that begins with b.\n"
    assert process.wait() == 0
