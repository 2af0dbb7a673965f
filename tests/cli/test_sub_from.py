"""`hub sub --from-offset`, `--from-time`: what the hub's journal has, and what comes into it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from peers.cli.flag_values import moment
from peers.client import Client, connect
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from tests.cli.programs import HUB, PATIENCE_S, environment
from tests.hubs.eventually import eventually
from tests.journal.files import crashed, lose_power, segments


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    loaded = load({"listen": ["tcp://127.0.0.1:0"], "journal": {"path": str(tmp_path / "journal")}}, {})
    daemon = Daemon(loaded, "test hub")
    await daemon.start()
    yield daemon.endpoints[0].location
    await daemon.stop()


@pytest.fixture
async def client(url: str) -> AsyncIterator[Client]:
    async with connect(url) as connected:
        yield connected


async def sub(url: str, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *HUB,
        "sub",
        *arguments,
        "--url",
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )


async def shown(process: asyncio.subprocess.Process, told: bytes = b"") -> list[dict[str, Any]]:
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    assert err == told
    return [json.loads(line) for line in out.splitlines()]


async def values(process: asyncio.subprocess.Process) -> list[object]:
    return [line["value"] for line in await shown(process)]


async def test_from_an_offset(url: str, client: Client) -> None:
    for number in range(3):
        await client.publish_confirmed("/a", number)
    process = await sub(url, "/a", "--from-offset", "1", "--limit", "3")
    assert process.stdout is not None
    first = await process.stdout.readline()
    await client.publish_confirmed("/a", 3)
    assert [json.loads(first)["value"], *await values(process)] == [1, 2, 3]


async def test_recorded(url: str, client: Client) -> None:
    await client.publish_confirmed("/a", 0)
    process = await sub(url, "/a", "--recorded", "--from-offset", "0", "--limit", "2")
    assert process.stdout is not None
    first = json.loads(await process.stdout.readline())
    await client.publish_confirmed("/a", 1)
    async with asyncio.timeout(PATIENCE_S):
        second = json.loads(await process.stdout.readline())
        assert await process.wait() == 0
    assert [(line["offset"], line["value"]) for line in (first, second)] == [(0, 0), (1, 1)]
    assert all(line["time"].endswith("Z") for line in (first, second))


async def test_from_a_time(url: str, client: Client) -> None:
    await client.publish_confirmed("/a", "before")
    between = datetime.now(UTC).isoformat()
    await client.publish_confirmed("/a", "after")
    assert await values(await sub(url, "/a", "--from-time", between, "--limit", "1")) == ["after"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--from-offset", "7"), 1, b"hub: offset 7 is behind the end of the journal, which is 0 (4011)\n"),
        (("--epoch", "7"), 2, b"hub: --epoch: give 0 or more, and --from-offset, to which it belongs\n"),
        (("--from-offset", "-1"), 2, b"hub: --from-offset: give 0 or more, and not --from-time as well\n"),
    ],
)
async def test_places_that_are_not_there(url: str, arguments: tuple[str, ...], code: int, says: bytes) -> None:
    process = await sub(url, "/a", *arguments)
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    assert (process.returncode, out, err) == (code, b"", says)


async def test_history_shows_where_and_when_each_message_was_recorded(url: str, client: Client) -> None:
    """So that whoever has worked on a line knows where to go on; what comes later has both, too."""
    before = datetime.now(UTC)
    for number in range(2):
        await client.publish_confirmed("/a", number)
    process = await sub(url, "/a", "--from-offset", "0")
    assert process.stdout is not None
    lines = [json.loads(await process.stdout.readline()) for _ in range(2)]
    assert [line["offset"] for line in lines] == [0, 1]
    assert all(before <= datetime.fromisoformat(line["time"]) <= datetime.now(UTC) for line in lines)
    await client.publish("/a", "later")
    later = json.loads(await process.stdout.readline())
    assert (later["offset"], later["value"]) == (2, "later")
    process.terminate()
    await process.communicate()
    again = await sub(url, "/a", "--from-time", lines[1]["time"].removesuffix("Z"), "--limit", "1")
    assert await values(again) == [1]


async def test_a_power_loss(tmp_path: Path) -> None:
    journal, lost = tmp_path / "journal", tmp_path / "lost"
    loaded = load({"listen": ["tcp://127.0.0.1:0"], "journal": {"path": str(journal)}}, {})
    daemon = Daemon(loaded, "test hub")
    await daemon.start()
    url = daemon.endpoints[0].location
    async with connect(url) as client:
        for number in range(3):
            await client.publish_confirmed("/a", number)
        written_bytes = segments(journal)[-1].stat().st_size
        for number in range(3, 10):
            await client.publish_confirmed("/a", number)
    seen = await shown(await sub(url, "/a", "--from-offset", "0", "--limit", "10"))
    epoch = seen[-1]["epoch"]
    lose_power(crashed(journal, lost), written_bytes)
    await daemon.stop()
    shutil.rmtree(journal)
    lost.rename(journal)
    daemon = Daemon(loaded, "test hub")
    await daemon.start()
    url = daemon.endpoints[0].location
    async with connect(url) as client:
        for number in range(100, 120):
            await client.publish_confirmed("/a", number)
    position = ("--from-offset", str(seen[-1]["offset"] + 1))
    told = b"hub sub: records 3 to 9 are lost; what comes next are others, from 3 on\n"
    found = await shown(await sub(url, "/a", *position, "--epoch", str(epoch), "--limit", "20"), told)
    assert [(line["offset"], line["value"]) for line in found] == [(offset, 97 + offset) for offset in range(3, 23)]
    assert found[-1]["epoch"] > epoch
    plain = await shown(await sub(url, "/a", *position, "--limit", "13"))
    assert [line["offset"] for line in plain] == list(range(10, 23))
    await daemon.stop()


async def test_pretty_history_shows_the_recorded_time(url: str, client: Client) -> None:
    await client.publish_confirmed("/a", "x")
    (record,) = [record async for record in client.read("/a", start=0)]
    process = await sub(url, "/a", "--from-offset", "0", "--limit", "1", "--format", "pretty")
    out, _ = await process.communicate()
    assert out.decode() == f'0 {moment(record.time_us)} /a "x"\n'


async def test_of_another_hub(url: str, client: Client) -> None:
    near = Daemon(load({"listen": ["tcp://127.0.0.1:0"], "peers": [url]}, {}), "near")
    await near.start()
    try:
        await eventually(lambda: len(near.node.core.mesh.graph.reached) == 2)
        there = near.endpoints[0].location
        await client.publish_confirmed("/a", 0)
        process = await sub(there, "/a", "--from-offset", "0", "--of", "test hub", "--limit", "2")
        assert process.stdout is not None
        first = json.loads(await process.stdout.readline())
        await client.publish_confirmed("/a", 1)
        assert [first["value"], first["offset"], *await values(process)] == [0, 0, 1]
        process = await sub(there, "/a", "--from-offset", "0", "--of", "nobody")
        _, told = await process.communicate()
        assert process.returncode == 1
        assert told.decode().count("\n") == 1
        assert "no hub of the mesh has the name or the id 'nobody'" in told.decode()
    finally:
        await near.stop()


async def test_of_nothing(url: str) -> None:
    process = await sub(url, "--of", "somebody")
    _, told = await process.communicate()
    assert process.returncode == 2
    assert b"--of: give --from-offset, --from-time or --recorded" in told
