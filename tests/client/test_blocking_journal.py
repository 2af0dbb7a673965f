"""The blocking client and the journal: read it, confirm, stage and commit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hub.batch import encode_value, encode_values
from hub.errors import ClosedError
from peers.client import BadMessage
from peers.client.blocking import BlockingClient, connect
from peers.client.journal import Record
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.transport.backoff import Backoff
from tests.hubs.eventually import eventually

T = TypeVar("T")


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    loaded = load({"listen": ["tcp://127.0.0.1:0"], "journal": {"path": str(tmp_path / "journal")}}, {})
    daemon = Daemon(loaded, "test hub")
    await daemon.start()
    yield daemon.endpoints[0].location
    await daemon.stop()


def fill(client: BlockingClient, count: int) -> int:
    for number in range(count - 1):
        client.publish(f"/n/{number % 2}", number)
    return client.publish_confirmed(f"/n/{(count - 1) % 2}", count - 1)


async def in_thread(url: str, work: Callable[[BlockingClient], T], **options: Any) -> T:
    def run() -> T:
        with connect(url, **options) as client:
            return work(client)

    return await asyncio.to_thread(run)


async def test_the_journal_of_another_hub(url: str) -> None:
    loaded = load({"listen": ["tcp://127.0.0.1:0"], "peers": [url]}, {})
    near = Daemon(loaded, "near")
    await near.start()

    def work(client: BlockingClient) -> tuple[list[int], int, list[int]]:
        read = [record.value for record in client.read("/n/", hub="test hub", timeout_s=30)]
        head = client.journal(hub="test hub", timeout_s=30).head
        with client.subscribe("/n/", from_offset=7, hub="test hub") as messages:
            return read, head, [messages.receive(timeout_s=30).value for _ in range(3)]

    try:
        await in_thread(url, lambda client: fill(client, 10))
        await eventually(lambda: len(near.node.core.mesh.graph.reached) == 2)
        found = await in_thread(near.endpoints[0].location, work)
    finally:
        await near.stop()
    assert found == (list(range(10)), 10, [7, 8, 9])


async def test_some_columns_of_the_journal_of_another_hub(url: str) -> None:
    """What is not asked for does not come over the link; nor where the hub between names that journal as its own."""
    loaded = load({"listen": ["tcp://127.0.0.1:0"], "peers": [url], "journal": {"of": "test hub"}}, {})
    near = Daemon(loaded, "near")
    await near.start()

    def work(client: BlockingClient) -> tuple[list[Record], int, int]:
        read = list(client.read("/n/1", hub="test hub", columns=("offset", "topic"), timeout_s=30))
        few, all_of_it = (
            sum(len(block) for piece in client.read(columns=columns, timeout_s=30).pieces() for block in piece.blocks)
            for columns in (("offset", "topic"), None)
        )
        return read, few, all_of_it

    try:
        await in_thread(url, lambda client: fill(client, 2000))
        await eventually(lambda: len(near.node.core.mesh.graph.reached) == 2)
        records, few, all_of_it = await in_thread(near.endpoints[0].location, work)
    finally:
        await near.stop()
    assert records == [Record(number, 0, "/n/1", None) for number in range(1, 2000, 2)]
    assert few < all_of_it / 3


async def test_blocks_are_columns(url: str) -> None:
    def work(client: BlockingClient) -> tuple[int, int]:
        fill(client, 5000)
        history = client.read(piece_bytes=10_000)
        return sum(block.count for block in history.blocks(verify=True)), history.next

    assert await in_thread(url, work) == (5000, 5000)


async def test_a_reader_may_stop_early(url: str) -> None:
    def work(client: BlockingClient) -> tuple[int, int]:
        fill(client, 5000)
        first = next(iter(client.read(piece_bytes=1000)))
        assert client.read(epoch=7).epoch == 7
        return first.offset, client.journal().head

    assert await in_thread(url, work) == (0, 5000)


async def test_bad_values_are_told_and_left_out(url: str) -> None:
    bad: list[BadMessage] = []

    def work(client: BlockingClient) -> list[Any]:
        client.stage("t", 0, encode_values(b"/bad", [b"\xc1"]) + encode_values(b"/good", [encode_value("good")]))
        client.commit("t", [0])
        return [record.value for record in client.read()]

    assert await in_thread(url, work, on_bad_message=bad.append) == ["good"]
    assert [message.topic for message in bad] == ["/bad"]


async def test_committed_parts_become_records_once(url: str) -> None:
    def work(client: BlockingClient) -> None:
        for transaction in ("one", "two"):
            client.stage(transaction, 0, encode_values(b"/a", [encode_value("kept")]))
            client.stage_nowait(transaction, 1, encode_values(b"/a", [encode_value("dropped")])).result()
            committed = client.commit(transaction, [0], query="q", batch=7)
            assert committed.again is (transaction == "two")
        assert [record.value for record in client.read()] == ["kept"]

    await in_thread(url, work)


async def test_an_answer_that_does_not_come_is_a_timeout(url: str) -> None:
    lost = threading.Event()

    def work() -> None:
        backoff = Backoff(base_s=3600.0, cap_s=3600.0)
        client = connect(url, backoff=backoff, on_disconnect=lambda _: lost.set())
        assert client._client._exchange.connection is not None
        client._thread.loop.call_soon_threadsafe(client._client._exchange.connection.abort)
        lost.wait()
        with pytest.raises(TimeoutError):
            client.journal(timeout_s=0.01)
        with pytest.raises(TimeoutError):
            list(client.read(timeout_s=0.01))
        client.close()
        with pytest.raises(ClosedError):
            client.journal(timeout_s=1.0)

    await asyncio.to_thread(work)
