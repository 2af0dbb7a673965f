"""A hub that is taken out of service: clients are moved off, and then it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hub.errors import CloseCode, ConnectionLostError
from hub.messages.frame import FLAG_CONFIRM, encode_frame
from peers.client import ServiceRequest
from peers.client import connect as connect_client
from peers.daemon.daemon import Daemon
from peers.daemon.run import Draining
from peers.wire.control import retry_after_s
from peers.wire.hello import QueueWish
from peers.wire.kinds import Kind
from tests.daemon.conftest import Connect, StartDaemon
from tests.hubs.eventually import eventually
from tests.hubs.raw_client import RawClient, numbered
from tests.hubs.raw_websocket import RawWebSocket, request

FAST: dict[str, Any] = {"clients_per_s": 10_000, "retry_after_s": 0.1}


class Drained:
    def __init__(self, daemon: Daemon) -> None:
        self.stopped = asyncio.Event()
        self.draining = Draining(daemon.server, self.stopped.set, daemon.settle)

    def begin(self) -> None:
        self.draining.begin(None)


async def test_everybody_is_moved_off(start_daemon: StartDaemon, connect: Connect) -> None:
    daemon = await start_daemon(drain={"clients_per_s": 10_000, "retry_after_s": 60})
    clients = [await connect(daemon.endpoints[0], "/a") for _ in range(20)]
    drained = Drained(daemon)
    drained.begin()
    drained.begin()  # which changes nothing
    told = [await client.end() for client in clients]
    assert {code for code, _ in told} == {CloseCode.GOING_AWAY}
    waits = [retry_after_s(text) for _, text in told]
    assert all(wait is not None and 0 <= wait <= 60 for wait in waits)
    assert len(set(waits)) > 10
    for client in clients:
        client.close()
    await drained.stopped.wait()
    assert daemon.server.drained_clients == 20


async def test_nobody_new_is_taken(start_daemon: StartDaemon, connect: Connect) -> None:
    daemon = await start_daemon("tcp://127.0.0.1:0", "ws://127.0.0.1:0", drain={"clients_per_s": 1})
    tcp, web = daemon.endpoints
    await connect(tcp, "/a")
    drained = Drained(daemon)
    drained.begin()
    stranger = await RawClient.connect(tcp)
    assert await stranger.end() == (CloseCode.TRY_AGAIN_LATER, "the hub is stopping")
    stranger.close()
    asking = await RawWebSocket.connect(web)
    await asking.send(request("/readyz"))
    assert (await asking.head()).startswith(b"HTTP/1.1 503 ")
    asking.close()
    await drained.draining.cancel()


async def test_queues_run_out(start_daemon: StartDaemon, connect: Connect) -> None:
    daemon = await start_daemon(queue_max={"messages": 100_000}, drain=FAST)
    (endpoint,) = daemon.endpoints
    slow = await connect(endpoint, "/flood", queue=QueueWish(messages=100_000), receive_bytes=4096)
    publisher = await connect(endpoint)
    total = 0
    while next(one for one in daemon.server.core.handlers.values() if one.prefixes).statistics().queued_messages < 500:
        await publisher.send(numbered("/flood", range(total, total + 500), padding=1000))
        await publisher.ping()
        total += 500
    drained = Drained(daemon)
    drained.begin()
    assert (await publisher.end())[0] == CloseCode.GOING_AWAY
    publisher.close()
    await eventually(lambda: daemon.server.drained_clients == 2)
    assert not drained.stopped.is_set()
    assert await slow.numbers_and_gaps(total) == list(range(total))
    assert (await slow.end())[0] == CloseCode.GOING_AWAY
    slow.close()
    await drained.stopped.wait()


async def test_requests_are_answered_first(start_daemon: StartDaemon) -> None:
    """Neither who has asked nor who is to answer is moved off before, for as long as two seconds."""
    daemon = await start_daemon(drain=FAST)
    url = daemon.endpoints[0].location
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def answer(given: ServiceRequest) -> str:
        asked.set()
        await may_answer.wait()
        return f"answer to {given.value}"

    async with (
        connect_client(url, reconnect=False) as service,
        connect_client(url, reconnect=False) as client,
        connect_client(url, reconnect=False) as idle,
        service.serve("/ask", answer),
    ):
        answering = asyncio.ensure_future(client.request("/ask", 7))
        await asked.wait()
        drained = Drained(daemon)
        drained.begin()
        with pytest.raises(ConnectionLostError):
            await idle.wait_closed()
        assert not drained.stopped.is_set()
        may_answer.set()
        assert await answering == "answer to 7"
        await drained.stopped.wait()
    assert daemon.server.drained_clients == 3


@pytest.mark.parametrize("way", ["drain", "stop"])
async def test_what_was_taken_is_confirmed(
    start_daemon: StartDaemon, connect: Connect, tmp_path: Path, way: str
) -> None:
    journal = {"path": str(tmp_path / "journal"), "commit_s": 0.2}
    daemon = await start_daemon(journal=journal, drain=FAST)
    publisher = await connect(daemon.endpoints[0])
    for number in range(3):
        await publisher.send(encode_frame(Kind.MESSAGES, bytes([number]), key=b"/a", flags=FLAG_CONFIRM))
    await eventually(lambda: sum(one.published_messages for one in daemon.server.core.handlers.values()) == 3)
    drained = Drained(daemon)
    stopping = None
    if way == "drain":
        drained.begin()
    else:
        stopping = daemon.server.loop.create_task(daemon.stop())
    told = [await publisher.notice() for _ in range(3)]
    assert [(notice.kind, notice.offset) for notice in told] == [("recorded", 0), ("recorded", 1), ("recorded", 2)]
    assert (await publisher.end())[0] == CloseCode.GOING_AWAY
    publisher.close()
    if stopping is not None:
        await stopping
    await drained.draining.cancel()
