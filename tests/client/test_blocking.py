"""The blocking client, from threads, with a hub in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from hub.errors import (
    BusyError,
    ClosedError,
    ConnectionLostError,
    RejectedError,
    RequestFailedError,
    UsageError,
)
from hub.messages.batch import encode_value, encode_values
from hub.settings.settings import Settings
from peers.client import BadMessage, Message
from peers.client.blocking import BlockingClient, connect
from peers.client.exchange import Remote
from peers.client.journal import Record
from peers.client.settings import ClientSettings
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.transport.endpoints import Endpoint
from tests.hubs.eventually import eventually
from tests.hubs.hub import Hub
from tests.hubs.settings import settings_of


class HubThread:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._hubs: list[Hub] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def call(self, function: Callable[[], T]) -> T:
        async def work() -> T:
            return function()

        return self.run(work())

    def start(self, endpoint: Endpoint | str = "tcp://127.0.0.1:0", settings: Settings | None = None) -> Hub:
        async def work() -> Hub:
            hub = Hub(settings or Settings())
            await hub.listen(endpoint)
            self._hubs.append(hub)
            return hub

        return self.run(work())

    def stop(self) -> None:
        for hub in self._hubs:
            self.run(hub.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def hubs() -> Iterator[HubThread]:
    thread = HubThread()
    yield thread
    thread.stop()


@pytest.fixture
def hub(hubs: HubThread) -> Hub:
    return hubs.start()


def test_many_publishers(hub: Hub) -> None:
    with connect(hub.url) as client, client.subscribe("/") as messages, ThreadPoolExecutor() as pool:

        def publish(thread: int) -> None:
            for number in range(2000):
                client.publish(f"/{thread}", number)

        list(pool.map(publish, range(4)))
        got = [messages.receive(timeout_s=60) for _ in range(8000)]
    for thread in range(4):
        assert [message.value for message in got if message.topic == f"/{thread}"] == list(range(2000))


def test_many_readers(hub: Hub) -> None:
    with connect(hub.url) as client, ThreadPoolExecutor() as pool, client.subscribe("/a") as messages:

        def read() -> list[int]:
            numbers = []
            for message in messages:
                if message.value is None:
                    break
                numbers.append(message.value)
            return numbers

        readers = [pool.submit(read) for _ in range(3)]
        for number in range(2000):
            client.publish("/a", number)
        for _ in readers:
            client.publish("/a", None)
        parts = [reader.result() for reader in readers]
    assert sorted(number for part in parts for number in part) == list(range(2000))


def test_callbacks(hub: Hub) -> None:
    """A function is called in the loop thread; there it may publish without waiting, and nothing else."""
    got: list[Any] = []
    done = threading.Event()

    def function(message: Message) -> None:
        got.append((message.topic, threading.current_thread() is threading.main_thread()))
        if message.topic == "/question":
            calls: list[Callable[[], None]] = [lambda: client.publish("/a", 1), client.close, client.drain]
            for call in calls:
                with pytest.raises(UsageError, match="would wait for itself"):
                    call()
            client.publish_nowait("/answer", 42)
        else:
            done.set()

    with connect(hub.url) as client:
        subscription = client.subscribe_callback(["/question", "/answer"], function)
        client.publish("/question", None)
        assert done.wait(60)
        subscription.close()
        client.publish("/answer", "unheard")
        client.drain()
    assert got == [("/question", False), ("/answer", False)]


def test_refused_later(hubs: HubThread) -> None:
    hub = hubs.start(settings=settings_of(frame_bytes=8 * 1024, prefixes_per_client=1))
    rejected: list[Exception] = []
    with connect(hub.url, on_rejected=rejected.append) as client, client.subscribe("/a") as messages:
        with pytest.raises(RejectedError, match="the hub accepts at most 8192"):
            client.publish("/a", bytes(10_000))
        client._thread.put("/a", b"x" * 10_000, None)  # as if the hub had taken more a moment ago
        client.publish("/a", "small")
        assert messages.receive(timeout_s=60).value == "small"
        assert client.statistics().rejected_messages == 1
        with pytest.raises(RejectedError), client.subscribe("/b"):
            pass
    assert "the hub accepts at most 8192" in str(rejected[0])


def test_nothing_listens(hubs: HubThread, hub: Hub) -> None:
    hubs.run(hub.stop())
    before = set(threading.enumerate())
    with pytest.raises(ConnectionLostError, match="is the hub running"):
        connect(hub.url)
    client = BlockingClient(Remote(hub.url, ClientSettings()), ClientSettings())
    with pytest.raises(ConnectionLostError):
        client.open()
    client.close()
    assert set(threading.enumerate()) <= before  # those of an earlier test may end meanwhile


def test_full(hubs: HubThread, hub: Hub) -> None:
    lost = threading.Event()
    with connect(hub.url, buffer_bytes=10_000, on_disconnect=lambda _: lost.set()) as client:
        hubs.run(hub.stop())
        assert lost.wait(60)
        with pytest.raises(BusyError, match=r"within 0\.01 s"):
            _fill(lambda: client.publish("/a", bytes(9000), timeout_s=0.01))
        with pytest.raises(BusyError):
            _fill(lambda: client.publish_nowait("/a", bytes(9000)))
        with pytest.raises(TimeoutError):
            client.drain(timeout_s=0.01)
    assert client.statistics().unsent_messages > 100


def _fill(publish: Callable[[], None]) -> None:
    while True:
        publish()


def test_the_end_reaches_every_thread(hub: Hub) -> None:
    client = connect(hub.url)
    messages = client.subscribe("/a")
    messages.open()
    with pytest.raises(UsageError, match="opened once"):
        messages.open()
    with ThreadPoolExecutor() as pool:
        readers = [pool.submit(list, messages), pool.submit(messages.batch)]
        client.close()
        assert [reader.result() for reader in readers] == [[], []]
    assert messages.ended
    client.close()
    messages.close()
    for call in (
        lambda: client.publish("/a", 1),
        lambda: client.publish_nowait("/a", 1),
        client.drain,
        lambda: client.subscribe("/a"),
        messages.receive,
    ):
        with pytest.raises(ClosedError):
            call()


def test_publishing_by_position_and_names(hub: Hub) -> None:
    with connect(hub.url) as one, connect(hub.url) as two, one.subscribe_rule(["a"]) as heard:
        with one.claim("a.b", ["a"]) as owned, two.claim("a.b", queue=True) as waits:
            two.publish("/t", 1, ["a"], timeout_s=60)
            two.publish_nowait("/t", 2, ["a"])
            two.publish_packed("/t", b"\3", ["a"], timeout_s=60)
            two.publish_packed_nowait("/t", b"\4", ["a"])
            assert [heard.receive(timeout_s=60).value for _ in range(4)] == [1, 2, 3, 4]
            assert [*heard.iterate(0.001)] == []
            with pytest.raises(UsageError, match="open the stream first"):
                two.subscribe("/t").receive()
            owned.relabel(["b"])
            assert [each.labels for each in two.names("a.")] == [("b",)]
            with pytest.raises(TimeoutError):
                waits.wait_owned(timeout_s=0.001)
            owned.release()
            waits.wait_owned(timeout_s=60)
        assert waits.wait_lost(timeout_s=60) == "it was released"
        assert (one.dropped_messages, one.hub and one.hub.role) == (0, "hub")


def test_a_service_cannot_wait_for_its_own_client(hub: Hub) -> None:
    with (
        connect(hub.url) as client,
        client.serve("/loop", lambda request: client.request("/other", request.value)),
        pytest.raises(RequestFailedError, match="cannot call this"),
    ):
        client.request("/loop", 1)


T = TypeVar("T")


def fill(client: BlockingClient, count: int) -> int:
    for number in range(count - 1):
        client.publish(f"/n/{number % 2}", number)
    return client.publish_confirmed(f"/n/{(count - 1) % 2}", count - 1)


async def in_thread(url: str, work: Callable[[BlockingClient], T], **options: Any) -> T:
    def run() -> T:
        with connect(url, **options) as client:
            return work(client)

    return await asyncio.to_thread(run)


async def test_the_journal_of_another_hub(journal_url: str) -> None:
    """Only the columns that are asked for cross the link, also where the hub between has that journal as its own."""
    loaded = load({"listen": ["tcp://127.0.0.1:0"], "peers": [journal_url], "journal": {"of": "test hub"}}, {})
    near = Daemon(loaded, "near")
    await near.start()

    def work(client: BlockingClient) -> None:
        read = list(client.read("/n/1", hub="test hub", columns=("offset", "topic"), timeout_s=30))
        assert read == [Record(number, 0, "/n/1", None) for number in range(1, 2000, 2)]
        few, all_of_it = (
            sum(len(block) for piece in client.read(columns=columns, timeout_s=30).pieces() for block in piece.blocks)
            for columns in (("offset", "topic"), None)
        )
        assert few < all_of_it / 3
        assert client.journal(hub="test hub", timeout_s=30).head == 2000
        with client.subscribe("/n/", from_offset=1997, hub="test hub") as messages:
            assert [messages.receive(timeout_s=30).value for _ in range(3)] == [1997, 1998, 1999]

    try:
        await in_thread(journal_url, lambda client: fill(client, 2000))
        await eventually(lambda: len(near.server.core.mesh.graph.reached) == 2)
        await in_thread(near.endpoints[0].location, work)
    finally:
        await near.stop()


async def test_a_reader_may_stop_early(journal_url: str) -> None:
    def work(client: BlockingClient) -> tuple[int, int]:
        fill(client, 5000)
        first = next(iter(client.read(piece_bytes=1000)))
        assert client.read(epoch=7).epoch == 7
        return first.offset, client.journal().head

    assert await in_thread(journal_url, work) == (0, 5000)


async def test_committed_parts_become_records_once(journal_url: str) -> None:
    def work(client: BlockingClient) -> None:
        for transaction in ("one", "two"):
            client.stage(transaction, 0, encode_values(b"/a", [encode_value("kept")]))
            client.stage_nowait(transaction, 1, encode_values(b"/a", [encode_value("dropped")])).result()
            committed = client.commit(transaction, [0], query="q", batch=7)
            assert committed.again is (transaction == "two")
        assert [record.value for record in client.read()] == ["kept"]

    await in_thread(journal_url, work)


async def test_bad_values_are_told_and_left_out(journal_url: str) -> None:
    bad: list[BadMessage] = []

    def work(client: BlockingClient) -> list[Any]:
        client.stage("t", 0, encode_values(b"/bad", [b"\xc1"]) + encode_values(b"/good", [encode_value("good")]))
        client.commit("t", [0])
        return [record.value for record in client.read()]

    assert await in_thread(journal_url, work, on_bad_message=bad.append) == ["good"]
    assert [message.topic for message in bad] == ["/bad"]
