"""`hub trace`, against a real hub."""

from __future__ import annotations

import json

from peers.client.blocking import connect
from tests.cli.programs import RunningHub, hub, on_terminal, plain, screen


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
        nobody = hub("trace", "/untraced", url=running_hub.tcp)
        assert (nobody.returncode, nobody.stdout, nobody.stderr) == (0, b"", b"")


def test_people_are_told_that_nobody_wants_it(running_hub: RunningHub) -> None:
    process, terminal = on_terminal("trace", "/untraced", url=running_hub.tcp)
    assert plain(screen(terminal)) == "hub trace: no hub wants /untraced, as far as this one knows\n"
    assert process.wait() == 0


def test_a_topic_that_no_message_may_bear(running_hub: RunningHub) -> None:
    result = hub("trace", "$hub/mesh", url=running_hub.tcp)
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr == b"hub: topics under $hub/ are each hub's own: they do not cross links\n"
