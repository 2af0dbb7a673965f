"""`hub sub --last`: the last message of each topic, from a store that is fed with them, then live."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from hub.errors import UsageError
from hub.settings.sections import StoresSettings
from hub.settings.settings import Settings
from peers.cli.sub import Source, last_first, sources_of
from peers.client import Client, connect
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from tests.cli.programs import HUB, PATIENCE_S, environment
from tests.cli.programs import hub as run
from tests.hubs.fixtures import StartHub, start_hub, uncaught  # noqa: F401 -- fixtures
from tests.hubs.hub import LOOPBACK, Hub
from tests.hubs.known_tokens import KnownTokens

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
async def client(url: str) -> AsyncIterator[Client]:
    async with connect(url) as connected:
        yield connected


async def _fed(client: Client, store: str, *keys: str) -> None:
    """Wait until a store has some keys: what feeds it is no request, and has no answer."""
    async with client.store(store).watch() as changes:
        left = set(keys)
        while left:
            left.discard((await anext(changes)).key)


async def test_the_last_messages_come_first_and_then_the_stream(url: str, client: Client) -> None:
    for topic in ("/status/b", "/status/a", "/status/b"):
        client.publish_nowait(topic, "old")
        client.publish_nowait(topic, "new")
        await client.drain()
    client.publish_nowait("/other/a/x", 1)
    client.publish_nowait("/other/b", "of no store")
    await client.store("last").put(7, "put by somebody")
    await _fed(client, "last", "/status/a", "/status/b")
    await _fed(client, "other", "/other/a/x")
    process = await asyncio.create_subprocess_exec(
        *HUB,
        *("sub", "/status/", "/other/a/", "--last", "--limit", "6", "--url", url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        shown = [json.loads(await process.stdout.readline()) for _ in range(3)]
        for value in range(3):
            client.publish_nowait("/status/a", value)
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


async def test_what_has_come_meanwhile_is_shown_once(client: Client) -> None:
    client.publish_nowait("/status/a", "before")
    client.publish_nowait("/status/b", "before")
    await _fed(client, "last", "/status/a", "/status/b")
    async with client.subscribe("/status/") as stream:
        for value in range(3):
            client.publish_nowait("/status/a", value)
        client.publish_nowait("/status/c", "first")
        await _fed(client, "last", "/status/c")
        messages = await last_first(client, [Source("last", "/status/")], stream)
        client.publish_nowait("/status/b", "after")
        shown: list[tuple[str, object]] = []
        while ("/status/b", "after") not in shown:
            shown += [tuple(message) for message in await messages.batch()]  # type: ignore[misc]
    assert shown == [
        ("/status/b", "before"),
        *(("/status/a", value) for value in range(3)),
        ("/status/c", "first"),
        ("/status/b", "after"),
    ]


async def test_many_topics_come_in_the_order_of_their_last_messages(client: Client) -> None:
    for number in range(2_500):
        client.publish_nowait(f"/status/{number}", number)
    client.publish_nowait("/status/0", "again")
    client.publish_nowait("/status/end", None)
    await _fed(client, "last", "/status/end")
    async with client.subscribe("/status/") as stream:
        messages = await last_first(client, await sources_of(client, ["/status/"]), stream)
        shown = [message for _ in range(3) for message in await messages.batch()]
    assert [message.topic for message in shown] == [
        *(f"/status/{number}" for number in range(1, 2_500)),
        "/status/0",
        "/status/end",
    ]
    assert shown[-2].value == "again"


@pytest.mark.parametrize("prefix", ["/stat", "/other/", "/status"])
async def test_no_store_is_fed_by_the_prefix(url: str, prefix: str) -> None:
    result = await asyncio.to_thread(run, "sub", "/status/x", prefix, "--last", url=url)
    assert result.returncode == 1
    assert result.stderr.decode() == (
        f"hub: --last: no store of hub east is fed by all that begins with {prefix} (fed are: last by /status/, other "
        f"by /other/a); `hub run --store last=:memory: --store-from last={prefix}` has one\n"
    )


async def test_what_does_not_go_together(url: str) -> None:
    for flags in (["--rule", "a"], ["--sender", "org.example.A"], ["--from-offset", "0"], ["--recorded"]):
        result = await asyncio.to_thread(run, "sub", "/status/", "--last", *flags, url=url)
        assert (result.returncode, b"--last: not with" in result.stderr) == (2, True)


async def test_who_may_not_ask_for_the_stores_is_told(start_hub: StartHub) -> None:  # noqa: F811 -- the fixture
    stores = StoresSettings(open=tuple(STORES["open"]), feeds=tuple(STORES["feeds"]))
    storing: Hub = await start_hub(settings=Settings(stores=stores))
    users = KnownTokens(storing)
    async with connect(storing.url, token=users.token("alice")) as client:
        with pytest.raises(UsageError, match="takes `request` of \\$hub/stores"):
            await sources_of(client, ["/status/"])
