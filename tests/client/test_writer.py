"""A writer records each message once, whatever becomes of connections, of the hub, and of the program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hub.errors import ConnectionLostError, InvalidTopicError, RejectedError, UsageError
from peers.client import Client, connect
from peers.client.blocking import connect as connect_blocking
from peers.client.journal import Committed
from peers.client.writer import Writer
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.transport.backoff import Backoff
from peers.wire.records import Commit, Stage

FAST = Backoff(base_s=0.001, cap_s=0.01)


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    journal = {"path": str(tmp_path / "hub.db"), "topics": ["/a"]}
    daemon = Daemon(load({"listen": [f"unix://{tmp_path}/hub.sock"], "journal": journal}, {}), "test hub")
    await daemon.start()
    yield daemon
    await daemon.stop()


def url_of(daemon: Daemon) -> str:
    return daemon.endpoints[0].location


async def recorded(client: Client) -> list[Any]:
    return [record.value async for record in client.read()]


async def test_offsets(daemon: Daemon) -> None:
    async with connect(url_of(daemon)) as client:
        writer = client.writer("w")
        assert await writer.publish("/a", 0) == 0
        offsets = await asyncio.gather(*(writer.publish(f"/a/{number}", number) for number in range(1, 100)))
        assert offsets == list(range(1, 100))
        assert await recorded(client) == list(range(100))


async def test_connections_that_are_lost(daemon: Daemon) -> None:
    async with connect(url_of(daemon), backoff=FAST) as client:
        writer = client.writer("")
        offsets: list[int | None] = []
        for number in range(0, 60, 3):
            publishing = [asyncio.ensure_future(writer.publish("/a", number + each)) for each in range(3)]
            for _ in range(number):  # so that it is cut at other places each time
                await asyncio.sleep(0)
            for connection in list(daemon.node.connections):
                connection.abort()
            offsets += await asyncio.gather(*publishing)
        assert offsets == list(range(60))
        assert await recorded(client) == list(range(60))


async def test_a_program_that_begins_anew(daemon: Daemon) -> None:
    async with connect(url_of(daemon)) as client:
        writer = client.writer("w")
        await writer.publish("/a", 1, sequence=1)
        await asyncio.gather(*(writer.publish("/a", number, sequence=number) for number in (2, 3, 4)))
        again = client.writer("w")
        numbers = range(3, 8)
        offsets = await asyncio.gather(*(again.publish("/a", number, sequence=number) for number in numbers))
        assert offsets == [None, 3, 4, 5, 6]
        assert await recorded(client) == list(range(1, 8))


async def test_refused(daemon: Daemon) -> None:
    async with connect(url_of(daemon)) as client:
        writer = client.writer("w")
        with pytest.raises(InvalidTopicError):
            await writer.publish("$hub/x", 1)
        with pytest.raises(UsageError):
            client.writer("x" * 200)
        with pytest.raises(RejectedError, match="takes"):
            await writer.publish("/a", bytes(17 << 20))
        assert await writer.publish("/a", 1, sequence=5) == 0
        with pytest.raises(UsageError, match="above 5"):
            await writer.publish("/a", 1, sequence=5)
        with pytest.raises(RejectedError, match="not recorded here"):
            await writer.publish("/b", 1, sequence=6)
        assert await writer.publish("/a", 2, sequence=6) == 1


class _Failing:
    def __init__(self) -> None:
        self.batches: list[int] = []
        self._fails = True

    async def stage(self, stage: Stage) -> None:
        """Take it."""

    async def commit(self, commit: Commit) -> Committed:
        self.batches.append(commit.batch)
        if len(self.batches) > 1 and self._fails:
            self._fails = False
            raise RejectedError(4012, "not recorded: the disk is full")
        return Committed(0, 1, again=False)


async def test_after_a_failure_each_message_is_asked_for_alone() -> None:
    """What waited behind a failure fails, too; and what is published again may be there, so it is no batch of many."""
    journal = _Failing()
    access: Any = journal
    writer = Writer(access, "w", lambda: None, lambda: False)
    assert await writer.publish("/a", 1, sequence=1) == 0
    results = await asyncio.gather(
        *(writer.publish("/a", number, sequence=number) for number in (2, 3)), return_exceptions=True
    )
    assert [type(result) for result in results] == [RejectedError, RejectedError]
    await asyncio.gather(*(writer.publish("/a", number, sequence=number) for number in (2, 3, 4)))
    assert journal.batches == [1, 3, 2, 4]


async def test_a_client_that_ends() -> None:
    class _Gone:
        async def stage(self, _: Stage) -> None:
            raise ConnectionLostError(1006, "lost")

    access: Any = _Gone()
    writer = Writer(access, "w", lambda: None, lambda: True)
    with pytest.raises(ConnectionLostError):
        await writer.publish("/a", 1)


async def test_for_threads(daemon: Daemon) -> None:
    def work() -> list[Any]:
        with connect_blocking(url_of(daemon)) as client:
            writer = client.writer("w")
            assert writer.name == "w"
            return [writer.publish("/a", number, sequence=number, timeout_s=10) for number in (1, 2, 3)]

    assert await asyncio.to_thread(work) == [0, 1, 2]
