"""A hub that stops while others come, and while others publish."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
from websockets.frames import Opcode

from hub.errors import CloseCode
from hub.frame import encode_frame
from peers.daemon.daemon import Daemon
from peers.wire.control import encode_close, encode_subscription
from peers.wire.kinds import Kind
from tests.daemon.conftest import Connect, StartDaemon
from tests.hubs.eventually import eventually
from tests.hubs.raw_client import RawClient, numbered
from tests.hubs.raw_websocket import RawWebSocket, frame

STOPS = (CloseCode.GOING_AWAY, "the hub stops")

OWN = pytest.mark.parametrize("own", [(), ("/other",)], ids=["only publishes", "subscribes, too"])


class Stopping:
    """A daemon that is stopped while others publish, and a client that only subscribes.

    Args:
        daemon: It listens for TCP, and perhaps elsewhere.
        connect: Connects clients.
    """

    def __init__(self, daemon: Daemon, connect: Connect) -> None:
        self.daemon = daemon
        self._connect = connect
        self._reader: RawClient
        self._stopping: asyncio.Task[None]

    async def publisher(self, *prefixes: str) -> RawClient:
        """A client that has published the first of the numbers, which the reader has subscribed to."""
        self._reader = await self._connect(self.daemon.endpoints[0], "/a")
        publisher = await self._connect(self.daemon.endpoints[0], *prefixes)
        await publisher.send(numbered("/a", range(1)))
        await publisher.ping()
        return publisher

    async def browser(self, *prefixes: str) -> RawWebSocket:
        """The same, over the second listener, which is for WebSockets."""
        self._reader = await self._connect(self.daemon.endpoints[0], "/a")
        browser = await RawWebSocket.connect(self.daemon.endpoints[1])
        await browser.shake_hands()
        await browser.say("subscribe", prefixes=list(prefixes)) if prefixes else None
        await browser.publish("/a", [0, ""])
        await browser.barrier()
        return browser

    def stop(self) -> None:
        """Begin to stop."""
        self._stopping = self.daemon.node.loop.create_task(self.daemon.stop())

    async def ends_behind(self, count: int) -> None:
        """Wait for the end: the reader gets so many numbers before it, and nothing has failed."""
        assert await self._reader.numbers_and_gaps(count) == list(range(count))
        assert await self._reader.end() == STOPS
        self._reader.close()
        await self._stopping
        assert not self.daemon.node.failed_connections
        assert not self.daemon.node.connections


@pytest.mark.parametrize("turns", range(6))
async def test_while_somebody_is_being_accepted(start_daemon: StartDaemon, turns: int) -> None:
    """In whatever turn of the loop it comes: stopping does not fail, and nobody is left."""
    daemon = await start_daemon(limits={"drain_s": 0})
    (endpoint,) = daemon.endpoints
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(socket.create_connection((endpoint.host, endpoint.port)))
        for _ in range(turns):
            await asyncio.sleep(0)
        await daemon.stop()
    await eventually(lambda: not daemon.node.connections)
    await eventually(lambda: not daemon.node.admission.newcomers)
    assert not daemon.node.failed_connections


@OWN
async def test_what_a_publisher_sends_before_it_reads_the_end(
    start_daemon: StartDaemon, connect: Connect, own: tuple[str, ...]
) -> None:
    """It arrives at those who only subscribe: the publisher cannot know that the hub reads no more."""
    stopping = Stopping(await start_daemon(), connect)
    publisher = await stopping.publisher(*own)
    assert publisher.send_nowait(numbered("/a", range(1, 10)))  # the hub does not read it before it begins to stop
    stopping.stop()
    closing = await publisher.frame()
    assert closing.kind == Kind.CLOSE
    await publisher.send(numbered("/a", range(10, 20)))
    publisher.finish()
    await stopping.ends_behind(20)


async def test_what_has_arrived_of_clients_that_hear_each_other(start_daemon: StartDaemon, connect: Connect) -> None:
    """It is read before anybody is told, though it may take several reads."""
    daemon = await start_daemon()
    (endpoint,) = daemon.endpoints
    both = [await connect(endpoint, "/a") for _ in range(2)]
    for client in both:
        await client.publish("/b", 1)
        await client.ping()
    assert both[0].send_nowait(numbered("/a", range(1000), padding=100)) > 100_000
    stopping = daemon.node.loop.create_task(daemon.stop())
    assert await both[1].numbers_and_gaps(1000) == list(range(1000))
    for client in both:
        client.finish()
    assert await both[1].end() == STOPS
    await stopping


@OWN
async def test_what_a_browser_sends_before_it_reads_the_end(
    start_daemon: StartDaemon, connect: Connect, own: tuple[str, ...]
) -> None:
    """It arrives as what other publishers send does."""
    stopping = Stopping(await start_daemon("tcp://127.0.0.1:0", "ws://127.0.0.1:0"), connect)
    browser = await stopping.browser(*own)
    stopping.stop()
    opcode, body = await browser.frame()
    while opcode != Opcode.CLOSE:
        opcode, body = await browser.frame()
    assert int.from_bytes(body[:2], "big") == CloseCode.GOING_AWAY
    await browser.publish("/a", [1, ""], [2, ""])
    await browser.say("ping", request=7)
    await browser.say("publish", topic="/a", value=[9, "to be confirmed"], request=8)
    await browser.publish("/a", [3, ""])
    await browser.send(frame(Opcode.CLOSE, body))
    await browser.publish("/a", [4, ""])
    assert not await browser.rest()
    browser.close()
    await stopping.ends_behind(4)


async def test_what_would_have_to_be_answered_is_not_taken(start_daemon: StartDaemon, connect: Connect) -> None:
    """Behind the end nothing is said, and a publisher that says its own end is not waited for."""
    stopping = Stopping(await start_daemon(), connect)
    publisher = await stopping.publisher()
    stopping.stop()
    await publisher.read()
    await publisher.send(
        numbered("/a", range(1, 2)),
        encode_frame(Kind.PING, b"?"),
        encode_subscription(Kind.SUBSCRIBE, ["/a"], 1),
        numbered("/a", range(2, 3)),
        encode_close(CloseCode.DONE, "done"),
        numbered("/a", range(3, 4)),
    )
    assert await publisher.end() == STOPS
    await stopping.ends_behind(3)


async def test_a_publisher_that_does_not_read_its_end(start_daemon: StartDaemon, connect: Connect) -> None:
    """It is heard for a part of the time, and then others are told."""
    stopping = Stopping(await start_daemon(limits={"drain_s": 1}), connect)
    await stopping.publisher()
    stopping.stop()
    await stopping.ends_behind(1)
