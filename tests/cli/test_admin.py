"""`hub who`, `hub users`, `hub kick` and `hub drain` against real hubs."""

from __future__ import annotations

import json
import socket
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from hub.errors import CloseCode, RejectedError
from peers.cli.texts import columns
from peers.client.blocking import connect
from peers.wire.hello import Hello
from tests.cli.programs import PATIENCE_S, RunningHub, hub, run_hub


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


_MANY = 200
"""More than three pages of a hub that is asked for nothing in particular."""


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


@pytest.mark.parametrize("command", ["who", "users", "reload", "drain"])
def test_no_hub(command: str) -> None:
    result = hub(command, url="tcp://127.0.0.1:1")
    assert result.returncode == 1
    assert result.stderr.decode().startswith("hub: ")
    assert len(result.stderr.splitlines()) == 1


def test_reload(tmp_path: Path) -> None:
    config = tmp_path / "hub.toml"
    config.write_text("")
    with run_hub(tmp_path, "--config", str(config)) as running:
        assert printed(running, "reload") == ["hub reload: read again; in force now: no setting"]
        config.write_text("[queue]\nmessages = 7\n[journal]\ncommit_s = 0.5\n")
        assert printed(running, "reload") == [
            "hub reload: read again; in force now: queue.messages",
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
