"""`hub pub` against real hubs, and one that refuses every message."""

from __future__ import annotations

import asyncio
import gzip
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from peers.client import Message, connect
from tests.cli.programs import HUB, PATIENCE_S, PROJECT, RunningHub, environment, hub, start

RECORDS = b'{"_path":"dns","ts":100.0,"n":1}\n{"_path":"ssl","ts":100.02,"n":2}\n{"_path":"dns","ts":100.01,"n":3}\n'


async def received(
    running_hub: RunningHub, prefix: str, count: int, *arguments: str, url: str = "", stdin: bytes = b""
) -> tuple[subprocess.CompletedProcess[bytes], list[Message]]:
    """Run `hub pub` while a client waits for so many messages."""
    url = url or running_hub.tcp
    async with connect(running_hub.unix) as client, client.subscribe(prefix) as messages, asyncio.timeout(PATIENCE_S):
        result = await asyncio.to_thread(hub, "pub", *arguments, url=url, stdin=stdin)
        return result, [await anext(messages) for _ in range(count)]


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["5"], 5),
        (["-5"], -5),
        (['{"a": [1, null]}'], {"a": [1, None]}),
        (["hello world"], "hello world"),
        (["5", "--text"], "5"),
        (["", "--text"], ""),
        (['"quoted"'], "quoted"),
        (["--", "--text"], "--text"),
    ],
)
async def test_a_value_is_published(running_hub: RunningHub, arguments: list[str], value: Any) -> None:
    result, messages = await received(running_hub, "/pub/value", 1, "/pub/value", *arguments)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    assert messages == [Message("/pub/value", value)]


async def test_a_file_is_published_as_bytes(running_hub: RunningHub, tmp_path: Path) -> None:
    file = tmp_path / "blob"
    file.write_bytes(bytes(range(256)))
    _, messages = await received(running_hub, "/pub/file", 1, "/pub/file", "--file", str(file))
    assert messages == [Message("/pub/file", bytes(range(256)))]


@pytest.mark.parametrize("arguments", [[], ["-"]])
async def test_lines_of_standard_input_are_messages(running_hub: RunningHub, arguments: list[str]) -> None:
    lines = b'one\n2\n\n{"three":3}\r\nfour'
    result, messages = await received(running_hub, "/pub/lines", 4, "/pub/lines", *arguments, stdin=lines)
    assert [message.value for message in messages] == ["one", 2, {"three": 3}, "four"]
    assert result.stdout.startswith(b"published 4 messages in ")


async def test_lines_are_sent_as_they_come(running_hub: RunningHub) -> None:
    async with connect(running_hub.unix) as client, client.subscribe("/pub/live") as messages:
        process = start("pub", "/pub/live", "--text", url=running_hub.tcp)
        assert process.stdin is not None
        for line in ("first", "second"):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert (await asyncio.wait_for(anext(messages), PATIENCE_S)).value == line
        process.send_signal(signal.SIGINT)
        out, error = await asyncio.to_thread(process.communicate)
    assert (process.returncode, error) == (130, b"")
    assert out.startswith(b"published 2 messages in ")


@pytest.mark.parametrize(
    ("pack", "flags"), [(bytes, []), (gzip.compress, []), (bytes, ["--rate", "1000"]), (bytes, ["--speed", "10"])]
)
async def test_records_of_a_file_get_their_topics(
    running_hub: RunningHub, tmp_path: Path, pack: Callable[[bytes], bytes], flags: list[str]
) -> None:
    file = tmp_path / "records"
    file.write_bytes(pack(RECORDS))
    flags = ["--ndjson", str(file), "--topic", "/pub/records/{_path}", *flags]
    result, messages = await received(running_hub, "/pub/records/", 3, *flags, url=running_hub.ws)
    assert [(message.topic, message.value["n"]) for message in messages] == [
        ("/pub/records/dns", 1),
        ("/pub/records/ssl", 2),
        ("/pub/records/dns", 3),
    ]
    assert result.stdout.startswith(b"published 3 messages in ")


async def test_a_file_can_go_round(running_hub: RunningHub, tmp_path: Path) -> None:
    file = tmp_path / "records"
    file.write_bytes(RECORDS)
    flags = ["--ndjson", str(file), "--topic", "/pub/loop", "--loop", "--limit", "7"]
    result, messages = await received(running_hub, "/pub/loop", 7, *flags)
    assert [message.value["n"] for message in messages] == [1, 2, 3, 1, 2, 3, 1]
    assert result.stdout.startswith(b"published 7 messages in ")


async def test_a_bad_line_stops_it_and_what_was_before_is_delivered(running_hub: RunningHub) -> None:
    flags = ["--ndjson", "-", "--topic", "/pub/bad/{n}"]
    lines = b'{"n":1}\n{"m":2}\nnonsense\n{"n":"\\u0001"}\n{"n":3}\n'
    result, messages = await received(running_hub, "/pub/bad/", 1, *flags, stdin=lines)
    assert result.returncode == 1
    assert result.stdout.startswith(b"published 1 message in ")
    assert result.stderr == b"hub: standard input: line 2: field 'n' is missing; --skip-bad passes such lines over\n"
    assert [message.value for message in messages] == [{"n": 1}]
    result, messages = await received(running_hub, "/pub/bad/", 2, *flags, "--skip-bad", stdin=lines)
    assert result.returncode == 0
    assert b"; 3 bad lines passed over, the first: standard input: line 2: field 'n' is missing\n" in result.stdout
    assert [message.value for message in messages] == [{"n": 1}, {"n": 3}]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--ndjson", "/dev/null", "--topic", "/a", "--loop"], "/dev/null: holds nothing to send"),
        ([], "TOPIC is missing"),
        (["", "1"], "topic is empty"),
        (["/a\x01", "1"], "control character U+0001"),
        (["$hub/a", "1"], "$hub/ is the hub's own"),
        (["/a", "1" * 30], "no msgpack form"),
        (["/a", "1", "--file", "x"], "leave one out"),
        (["/a", "--file", "/nowhere"], "/nowhere: cannot be read: No such file or directory"),
        (["/a", "1", "--rate", "5"], "not for a single value"),
        (["/a", "--speed", "5"], "--speed belongs to --ndjson"),
        (["/a", "--topic", "/t"], "--topic belongs to --ndjson"),
        (["/a", "--loop"], "--loop belongs to --ndjson"),
        (["--ndjson", "f"], "--ndjson needs the topic"),
        (["--ndjson", "f", "--topic", "/t", "--speed", "1", "--rate", "1"], "give one of them"),
        (["--ndjson", "f", "--topic", "/t", "--speed", "0"], "--speed 0: give more than 0"),
        (["--ndjson", "-", "--topic", "/t", "--loop"], "--loop needs a file"),
        (["--ndjson", "/", "--topic", "/a"], "/: cannot be read: Is a directory"),
        (["--ndjson", "/nowhere", "--topic", "/a"], "/nowhere: cannot be read: No such file or directory"),
        (["--ndjson", "/nowhere", "--topic", "/{a"], "has no other half"),
        (["/a", "--ndjson", "/nowhere", "--topic", "/a"], "omit TOPIC, VALUE, --text and --file"),
        (["/a", "1", "--url", "http://x"], "not 'http'; did you mean ws://x?"),
    ],
)
def test_mistakes_are_one_line(running_hub: RunningHub, arguments: list[str], reason: str) -> None:
    result = hub("pub", *arguments, url=running_hub.tcp)
    shows_at_work = any(part in reason for part in ("cannot be read", "no msgpack form", "nothing to send"))
    assert (result.returncode, result.stdout) == (1 if shows_at_work else 2, b"")
    assert reason in result.stderr.decode()
    assert result.stderr.startswith(b"hub: ")
    assert result.stderr.count(b"\n") == 1


async def test_what_begins_as_json_and_is_none_is_told(running_hub: RunningHub) -> None:
    result, messages = await received(running_hub, "/pub/broken", 1, "/pub/broken", '{"a":')
    assert result.returncode == 0
    assert result.stderr.startswith(b"hub pub: VALUE is published as text, because it is not valid JSON: ")
    assert [message.value for message in messages] == ['{"a":']
    strict = hub("pub", "/pub/broken", '{"a":', "--json", url=running_hub.tcp)
    assert strict.returncode == 2
    assert strict.stderr.startswith(b"hub: VALUE is not valid JSON: ")
    lines = hub("pub", "/pub/strict", "--json", url=running_hub.tcp, stdin=b"1\nhello\n")
    assert lines.returncode == 1
    assert lines.stderr.startswith(b"hub: standard input: line 2: not valid JSON: ")


def test_closed_standard_input_is_named(running_hub: RunningHub) -> None:
    result = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *HUB, "pub", "/a"],
        cwd=PROJECT,
        env=environment(HUB_URL=running_hub.tcp),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (result.returncode, result.stderr) == (1, b"hub: standard input is closed\n")


@pytest.mark.parametrize(("lines", "said"), [(b"one\n", "1 message"), (b"x\n" * 5000, "5,000 messages")])
def test_what_the_hub_refuses_is_told(running_hub: RunningHub, lines: bytes, said: str) -> None:
    result = hub("pub", "/a", "--to", "org.example.Nobody", url=running_hub.tcp, stdin=lines)
    assert result.returncode == 1
    assert result.stdout.startswith(f"published {said} in ".encode())
    refused = f"hub pub: the hub refused {said}: no client owns the name 'org.example.Nobody' ("
    assert result.stderr.decode().startswith(refused)


async def test_labels_and_a_destination(running_hub: RunningHub) -> None:
    async with (
        connect(running_hub.unix) as client,
        await client.claim("org.example.Door"),
        client.subscribe_rule(["door"]) as by_rule,
        client.subscribe_name("org.example.Door") as letters,
        asyncio.timeout(PATIENCE_S),
    ):
        labels = ("--label", "door", "--label", "a")
        for arguments, lines in ((["/labels/x", "1"], b""), (["/labels/x"], b"2\n3\n")):
            result = await asyncio.to_thread(hub, "pub", *arguments, *labels, url=running_hub.unix, stdin=lines)
            assert result.returncode == 0, result.stderr
        messages = [await anext(by_rule) for _ in range(3)]
        assert [message.value for message in messages] == [1, 2, 3]
        assert {message.labels for message in messages} == {("a", "door")}
        result = await asyncio.to_thread(hub, "pub", "/labels/x", "4", "--to", "org.example.Door", url=running_hub.unix)
        assert result.returncode == 0
        assert (await anext(letters)).value == 4
