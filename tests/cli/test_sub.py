"""`hub sub` against a real hub: the stream, and what was before it, from a journal or from stores."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from hub.errors import UsageError
from hub.settings.settings import Settings, StoresSettings
from peers.cli.sub import last_messages, sources_of
from peers.cli.texts import moment
from peers.client import Client, connect
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from tests.cli.programs import (
    PATIENCE_S,
    RunningHub,
    hub,
    on_terminal,
    plain,
    screen,
    start,
    started,
    wait_subscribed,
)
from tests.forked.program import AwaitedProgram
from tests.hubs.fixtures import StartHub, start_hub, uncaught  # noqa: F401 -- fixtures
from tests.hubs.hub import LOOPBACK, Hub
from tests.hubs.known_tokens import KnownTokens


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


def test_messages_are_json_lines_on_a_pipe(running_hub: RunningHub) -> None:
    process = subscribed(running_hub, "json", "/sub/a/", "/sub/b", "/sub/b/", "--limit", "3", url=running_hub.ws)
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
    assert result.stderr == b"hub sub: /sub/*/x: prefixes have no wildcards, each character is literal\n"


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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("/a", "/b", "--rule", "a"), "--rule and --sender take one prefix at most"),
        (("--from-offset", "0", "--rule", "a"), "--rule and --sender take one prefix at most"),
        (("/a", "--epoch", "7"), "--epoch: give 0 or more, and --from-offset, to which it belongs\n"),
        (("/a", "--from-offset", "-1"), "--from-offset: give 0 or more, and not --from-time as well\n"),
        (("--of", "somebody"), "--of: give --from-offset, --from-time or --recorded"),
        (("/a", "--last", "--rule", "a"), "--last: not with"),
        (("/a", "--last", "--sender", "org.example.A"), "--last: not with"),
        (("/a", "--last", "--from-offset", "0"), "--last: not with"),
        (("/a", "--last", "--recorded"), "--last: not with"),
    ],
)
def test_what_does_not_go_together(running_hub: RunningHub, arguments: tuple[str, ...], says: str) -> None:
    result = hub("sub", *arguments, url=running_hub.unix)
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.decode().startswith(f"hub: {says}")


@pytest.fixture
async def client(journal_url: str) -> AsyncIterator[Client]:
    async with connect(journal_url) as connected:
        yield connected


async def sub(journal_url: str, *arguments: str) -> AwaitedProgram:
    return await started("sub", *arguments, "--url", journal_url)


async def shown(process: AwaitedProgram, told: bytes = b"") -> list[dict[str, Any]]:
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    assert err == told
    return [json.loads(line) for line in out.splitlines()]


async def test_history_shows_where_and_when_each_message_was_recorded(journal_url: str, client: Client) -> None:
    """So that whoever has worked on a line knows where to go on; what comes later has both, too."""
    before = datetime.now(UTC)
    for number in range(2):
        await client.publish_confirmed("/a", number)
    process = await sub(journal_url, "/a", "--from-offset", "0")
    assert process.stdout is not None
    lines = [json.loads(await process.stdout.readline()) for _ in range(2)]
    assert [line["offset"] for line in lines] == [0, 1]
    assert all(before <= datetime.fromisoformat(line["time"]) <= datetime.now(UTC) for line in lines)
    await client.publish("/a", "later")
    later = json.loads(await process.stdout.readline())
    assert (later["offset"], later["value"]) == (2, "later")
    process.send_signal(signal.SIGTERM)
    await process.communicate()
    again = await sub(journal_url, "/a", "--from-time", lines[1]["time"].removesuffix("Z"), "--limit", "1")
    assert [line["value"] for line in await shown(again)] == [1]
    behind = await sub(journal_url, "/a", "--from-offset", "7")
    assert await shown(behind, b"hub: offset 7 is behind the end of the journal, which is 3 (4011)\n") == []
    assert behind.returncode == 1


async def test_pretty_history_shows_the_recorded_time(journal_url: str, client: Client) -> None:
    await client.publish_confirmed("/a", "x")
    (record,) = [record async for record in client.read("/a", start=0)]
    process = await sub(journal_url, "/a", "--from-offset", "0", "--limit", "1", "--format", "pretty")
    out, _ = await process.communicate()
    assert out.decode() == f'0 {moment(record.time_us)} /a "x"\n'


STORES = {"open": ["last=:memory:", "other=:memory:"], "feeds": ["last=/status/", "other=/other/a"]}


@pytest.fixture
def default_url() -> str:
    return LOOPBACK


@pytest.fixture
async def url() -> AsyncIterator[str]:
    daemon = Daemon(load({"listen": [LOOPBACK], "stores": STORES}, {}), "east")
    await daemon.start()
    yield daemon.endpoints[0].location
    await daemon.stop()


@pytest.fixture
async def storing(url: str) -> AsyncIterator[Client]:
    async with connect(url) as connected:
        yield connected


async def _fed(client: Client, store: str, *keys: str) -> None:
    """Wait until a store has some keys: what feeds it is no request, and has no answer."""
    async with client.store(store).watch() as changes:
        left = set(keys)
        while left:
            left.discard((await anext(changes)).key)


async def test_the_last_messages_come_first_and_then_the_stream(url: str, storing: Client) -> None:
    for topic in ("/status/b", "/status/a", "/status/b"):
        storing.publish_nowait(topic, "old")
        storing.publish_nowait(topic, "new")
        await storing.drain()
    storing.publish_nowait("/other/a/x", 1)
    storing.publish_nowait("/other/b", "of no store")
    await storing.store("last").put(7, "put by somebody")
    await _fed(storing, "last", "/status/a", "/status/b")
    await _fed(storing, "other", "/other/a/x")
    process = await started("sub", "/status/", "/other/a/", "--last", "--limit", "6", "--url", url)
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        shown = [json.loads(await process.stdout.readline()) for _ in range(3)]
        for value in range(3):
            storing.publish_nowait("/status/a", value)
        out, err = await process.communicate()
    assert {(message["topic"], message["value"]) for message in shown} == {
        ("/status/a", "new"),
        ("/status/b", "new"),
        ("/other/a/x", 1),
    }
    assert [json.loads(line) for line in out.splitlines()] == [
        {"topic": "/status/a", "value": each} for each in range(3)
    ]
    assert (process.returncode, err) == (0, b"")


async def test_what_has_come_meanwhile_is_shown_once(storing: Client) -> None:
    storing.publish_nowait("/status/a", "before")
    storing.publish_nowait("/status/b", "before")
    await _fed(storing, "last", "/status/a", "/status/b")
    async with storing.subscribe("/status/") as stream:
        for value in range(3):
            storing.publish_nowait("/status/a", value)
        storing.publish_nowait("/status/c", "first")
        await _fed(storing, "last", "/status/c")
        ahead = await last_messages(storing, [("last", "/status/")], stream)
        storing.publish_nowait("/status/b", "after")
        shown: list[tuple[str, object]] = [tuple(message) for batch in ahead for message in batch]  # type: ignore[misc]
        while ("/status/b", "after") not in shown:
            shown += [tuple(message) for message in await stream.batch()]  # type: ignore[misc]
    assert shown == [
        ("/status/b", "before"),
        *(("/status/a", value) for value in range(3)),
        ("/status/c", "first"),
        ("/status/b", "after"),
    ]


async def test_many_topics_come_in_the_order_of_their_last_messages(storing: Client) -> None:
    for number in range(2_500):
        storing.publish_nowait(f"/status/{number}", number)
    storing.publish_nowait("/status/0", "again")
    storing.publish_nowait("/status/end", None)
    await _fed(storing, "last", "/status/end")
    async with storing.subscribe("/status/") as stream:
        ahead = await last_messages(storing, await sources_of(storing, ["/status/"]), stream)
        assert [len(batch) for batch in ahead] == [1_000, 1_000, 501]
        shown = [message for batch in ahead for message in batch]
    assert [message.topic for message in shown] == [
        *(f"/status/{number}" for number in range(1, 2_500)),
        "/status/0",
        "/status/end",
    ]
    assert shown[-2].value == "again"


@pytest.mark.parametrize("prefix", ["/stat", "/other/", "/status"])
async def test_no_store_is_fed_by_the_prefix(url: str, prefix: str) -> None:
    result = await asyncio.to_thread(hub, "sub", "/status/x", prefix, "--last", url=url)
    assert result.returncode == 1
    assert result.stderr.decode() == (
        f"hub: --last: no store of hub east is fed by all that begins with {prefix} (fed are: last by /status/, other "
        f"by /other/a); `hub run --store last=:memory: --store-from last={prefix}` has one\n"
    )


async def test_who_may_not_ask_for_the_stores_is_told(start_hub: StartHub) -> None:  # noqa: F811 -- the fixture
    stores = StoresSettings(open=tuple(STORES["open"]), feeds=tuple(STORES["feeds"]))
    running: Hub = await start_hub(settings=Settings(stores=stores))
    users = KnownTokens(running)
    async with connect(running.url, token=users.token("alice")) as client:
        with pytest.raises(UsageError, match="needs `request` of \\$hub/stores"):
            await sources_of(client, ["/status/"])
