"""`hub consume`, `hub journal consumers`: a consumer from a shell goes on where the last one was."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from peers.client import connect
from tests.cli.programs import PATIENCE_S, started


@pytest.fixture
async def url(journal_url: str) -> str:
    async with connect(journal_url) as client:
        for number in range(5):
            await client.publish_confirmed("/a", number)
    return journal_url


async def run(url: str, *arguments: str) -> tuple[int, list[bytes], bytes]:
    """Run a command to its end; return its exit code, its lines, and what it complains of."""
    process = await started(*arguments, "--url", url)
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    return await process.wait(), out.splitlines(), err


async def test_goes_on_where_it_was(url: str) -> None:
    code, lines, err = await run(url, "consume", "c", "/a", "--from-offset", "0", "--limit", "2")
    assert (code, err) == (0, b"")
    assert [json.loads(line)["value"] for line in lines] == [0, 1]
    code, lines, err = await run(url, "consume", "c", "--timeout", "0.5")
    rows = [json.loads(line) for line in lines]
    assert (code, err) == (0, b"")
    assert [(row["offset"], row["topic"], row["value"]) for row in rows] == [(n, "/a", n) for n in (2, 3, 4)]
    assert all(row["time"].endswith("Z") for row in rows)
    code, lines, _ = await run(url, "consume", "c", "--timeout", "0.2", "--limit", "1")
    assert (code, lines) == (2, [])


async def test_a_command_for_each_message(url: str, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    command = f'read -r value; echo "$HUB_TOPIC $value"; [ $value != 1 ] || ! mkdir {marks}/1 2> {tmp_path}/complaint'
    flags = ("--exec", command)
    code, lines, err = await run(url, "consume", "c", "/a", "--from-offset", "0", "--limit", "3", *flags)
    assert (code, lines) == (0, [b"/a 0", b"/a 1", b"/a 2"])
    assert err == b"hub consume: /a, offset 1: the command ended with exit code 1; redelivered in 5 s\n"
    _, lines, _ = await run(url, "consume", "c", "--limit", "1")
    assert json.loads(lines[0])["value"] == 3


async def test_an_ordering_key(url: str) -> None:
    start = ("consume", "c", "/a", "--from-offset", "0", "--limit", "1")
    assert (await run(url, *start, "--ordering-key", "all"))[0] == 0
    code, _, err = await run(url, *start, "--ordering-key", "none")
    assert code != 0
    assert b"key" in err


async def test_list_and_remove(url: str) -> None:
    assert await run(url, "journal", "consumers") == (0, [], b"")
    await run(url, "consume", "c", "/a", "--from-offset", "0", "--limit", "2")
    _, lines, _ = await run(url, "journal", "consumers")
    assert [line.split() for line in lines] == [
        b"consumer prefixes members position lag out acknowledged again dead missed".split(),
        b"c /a 0 2 3 0 2 0 0 0".split(),
    ]
    _, lines, _ = await run(url, "journal", "consumers", "--json")
    (row,) = map(json.loads, lines)
    assert (row["name"], row["lag"]) == ("c", 3)
    assert await run(url, "consume", "c", "--remove") == (0, [], b"")
    code, _, err = await run(url, "consume", "c", "--remove")
    assert (code, err) == (1, b"hub consume: there is no consumer c\n")


async def test_a_query_is_listed_and_removed(url: str) -> None:
    async with connect(url) as client:
        await client.request("$hub/consumers/commit", {"name": "q", "prefixes": ["/a"], "position": 2})
    _, lines, _ = await run(url, "journal", "consumers")
    assert lines[1].startswith(b"q         /a        query, ")
    assert lines[1].split()[4:8] == [b"s", b"ago", b"2", b"3"]
    assert await run(url, "consume", "q", "--remove") == (0, [], b"")
    assert await run(url, "journal", "consumers") == (0, [], b"")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("consume", "c", "--redeliver", "1"), b"give the prefixes"),
        (("consume", "c"), b"there is no consumer 'c'"),
        (("consume", "a/b", "/a"), b"a consumer's name has"),
    ],
)
async def test_refused(url: str, arguments: tuple[str, ...], text: bytes) -> None:
    code, lines, err = await run(url, *arguments)
    assert code != 0
    assert lines == []
    assert text in err
    assert err.count(b"\n") == 1


async def test_begins_at_a_time(url: str) -> None:
    async with connect(url) as client:
        times = [datetime.fromtimestamp(record.time_us / 1e6, UTC) async for record in client.read("/a")]
    code, lines, err = await run(url, "consume", "c", "/a", "--from-time", times[3].isoformat(), "--limit", "2")
    assert (code, err) == (0, b"")
    assert [json.loads(line)["value"] for line in lines] == [3, 4]
