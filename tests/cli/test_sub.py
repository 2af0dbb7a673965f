"""`hub sub` against a real hub."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from peers.client import connect
from tests.cli.programs import (
    PATIENCE_S,
    RunningHub,
    hub,
    on_terminal,
    plain,
    run_hub,
    screen,
    start,
    wait_subscribed,
)


def publish(url: str, *messages: tuple[str, Any]) -> None:
    async def act() -> None:
        async with connect(url) as client:
            for topic, value in messages:
                await client.publish(topic, value)

    asyncio.run(act())


def subscribed(running_hub: RunningHub, name: str, *arguments: str, url: str = "") -> subprocess.Popen[bytes]:
    process = start("sub", *arguments, "--name", name, url=url or running_hub.unix)
    wait_subscribed(running_hub.tcp, name)
    return process


@pytest.mark.parametrize("scheme", ["tcp", "unix", "ws"])
def test_messages_are_json_lines_on_a_pipe(running_hub: RunningHub, scheme: str) -> None:
    process = subscribed(
        running_hub, f"json {scheme}", "/sub/a/", "/sub/b", "/sub/b/", "--limit", "3", url=getattr(running_hub, scheme)
    )
    publish(
        running_hub.tcp, ("/sub/a/1", {"n": 1}), ("/sub/c", 0), ("/sub/b/2", b"\x00"), ("/sub/a/3", "x"), ("/sub/b", 4)
    )
    out, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, error) == (0, b"")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"topic": "/sub/a/1", "value": {"n": 1}},
        {"topic": "/sub/b/2", "value": "AA=="},
        {"topic": "/sub/a/3", "value": "x"},
    ]


def test_without_prefixes_everything_comes_but_the_hub_itself(running_hub: RunningHub) -> None:
    process = subscribed(running_hub, "everything", "--limit", "1")
    told = hub("sub", "$hub/statistics", "--limit", "2", url=running_hub.tcp)  # so those came in between
    assert [json.loads(line)["topic"] for line in told.stdout.splitlines()] == ["$hub/statistics"] * 2
    publish(running_hub.tcp, ("/sub/everything", 1))
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert json.loads(out)["topic"] == "/sub/everything"


def test_whoever_expects_wildcards_is_told(running_hub: RunningHub) -> None:
    result = hub("sub", "/sub/*/x", "--timeout", "0.1", url=running_hub.tcp)
    assert result.returncode == 0
    assert result.stderr == b"hub sub: /sub/*/x: prefixes have no wildcards, each character stands for itself\n"


def test_pretty_lines_on_a_terminal(running_hub: RunningHub) -> None:
    process, terminal = on_terminal(
        "sub", "/sub/pretty", "--name", "pretty", "--limit", "2", url=running_hub.unix, columns=60
    )
    wait_subscribed(running_hub.tcp, "pretty")
    publish(running_hub.tcp, ("/sub/pretty/1", {"text": "\x9b31m"}), ("/sub/pretty/2", "x" * 100))
    shown = screen(terminal)
    assert process.wait() == 0
    told, first, second = plain(shown).splitlines()
    assert told == "hub sub: subscribed to /sub/pretty at hub " + told.rpartition(" ")[2]
    assert re.fullmatch(r'\d\d:\d\d:\d\d\.\d{3} /sub/pretty/1 {"text":"\\u009b31m"}', first)
    assert len(second) == 60
    assert second.endswith("xxx…")
    assert "\x1b[" in shown.splitlines()[1]


def test_time_is_up(running_hub: RunningHub) -> None:
    flags = ["sub", "/sub/silence", "--timeout", "0.05"]
    assert hub(*flags, url=running_hub.unix).returncode == 0
    assert hub(*flags, "--limit", "1", url=running_hub.unix).returncode == 2


def test_losses_are_told_and_add_up(running_hub: RunningHub) -> None:
    process = subscribed(running_hub, "stalled", "/sub/stalled", "--queue-messages", "10", "--overflow", "drop-oldest")
    assert process.stdout is not None
    total, filling = 6000, "x" * 8000  # 48 MB: more than all buffers on the way hold
    publish(running_hub.tcp, *(("/sub/stalled", [number, filling]) for number in range(total)))
    numbers: list[int] = []
    while not numbers or numbers[-1] < total - 1:  # the newest is never lost
        numbers.append(json.loads(process.stdout.readline())["value"][0])
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=PATIENCE_S)
    assert numbers == sorted(numbers)
    assert len(numbers) < total
    lost = re.findall(r"hub sub: ([\d,]+) messages lost by drop-oldest", error.decode())
    assert sum(int(number.replace(",", "")) for number in lost) == total - len(numbers)


def test_a_restart_of_the_hub_heals(tmp_path: Path) -> None:
    with run_hub(tmp_path) as first:
        process = start("sub", "/again", "--limit", "2", "--name", "stays", url=first.unix)
        wait_subscribed(first.tcp, "stays")
        publish(first.tcp, ("/again", 1))
    with run_hub(tmp_path) as second:
        assert second.unix == first.unix
        wait_subscribed(second.tcp, "stays")
        publish(second.tcp, ("/again", 2))
        out, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert [json.loads(line)["value"] for line in out.splitlines()] == [1, 2]
    lost, again = error.decode().splitlines()
    assert lost.startswith("hub sub: connection lost, trying again: ")
    assert again.startswith("hub sub: connected again to hub ")


def test_a_reader_that_has_gone_is_noticed_with_the_first_write(running_hub: RunningHub) -> None:
    process = subscribed(running_hub, "piped to true", "/sub/once")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    publish(running_hub.tcp, ("/sub/once", 1))
    with process:
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE_S) == 1


def test_zeek_events(running_hub: RunningHub) -> None:
    process = subscribed(running_hub, "zeek", "/sub/zeek", "--zeek", "--format", "pretty", "--limit", "1")
    assert process.stdout is not None
    arguments = '["text", 3, {"@data-type": "port", "data": "53/udp"}]'
    result = hub("pub", "/sub/zeek", arguments, "--zeek-event", "Demo::hello", url=running_hub.tcp)
    assert result.returncode == 0, result.stderr
    with process:
        line = process.stdout.read().decode()
    assert line.endswith(" /sub/zeek Demo::hello(text, 3, 53/udp)\n")
    assert process.returncode == 0


def test_a_rule(running_hub: RunningHub) -> None:
    process = start("sub", "/sub/rule", "--rule", "a,b", "--limit", "2", "--name", "by rule", url=running_hub.unix)

    async def act() -> None:
        async with connect(running_hub.tcp) as client:
            while process.poll() is None:  # rules are not among the prefixes that can be waited for
                for topic, labels in (("/sub/rule", "abc"), ("/sub/rule", "a"), ("/sub/other", "ab")):
                    await client.publish(topic, 1, labels=labels)
                await client.names()  # a round trip

    asyncio.run(act())
    out, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, error) == (0, b"")
    line = {"topic": "/sub/rule", "value": 1, "labels": ["a", "b", "c"]}
    assert [json.loads(text) for text in out.splitlines()] == [line] * 2


def test_a_rule_has_one_prefix_and_no_history(running_hub: RunningHub) -> None:
    for arguments in (("/a", "/b"), ("--from-offset", "0")):
        result = hub("sub", *arguments, "--rule", "a", url=running_hub.unix)
        assert result.returncode != 0
        assert b"--rule and --sender take one prefix at most" in result.stderr
