"""A hub that stops while others come, and while others publish."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from hub.errors import CloseCode
from tests.daemon.conftest import Connect, StartDaemon
from tests.hubs.eventually import eventually
from tests.hubs.raw_client import numbered

STOPS = (CloseCode.GOING_AWAY, "the hub stops")


@pytest.mark.parametrize("turns", range(6))
async def test_while_somebody_is_being_accepted(start_daemon: StartDaemon, turns: int) -> None:
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


async def test_what_is_queued_is_written_before_the_end(start_daemon: StartDaemon, connect: Connect) -> None:
    daemon = await start_daemon()
    reader = await connect(daemon.endpoints[0], "/a")
    publisher = await connect(daemon.endpoints[0])
    await publisher.send(numbered("/a", range(1000), padding=1000))
    await publisher.ping()
    stopping = daemon.node.loop.create_task(daemon.stop())
    assert await reader.numbers_and_gaps(1000) == list(range(1000))
    assert await reader.end() == STOPS
    assert await publisher.end() == STOPS
    reader.close()
    publisher.close()
    await stopping
    assert not daemon.node.failed_connections
    assert not daemon.node.connections


async def test_a_client_that_does_not_read_its_end(start_daemon: StartDaemon, connect: Connect) -> None:
    daemon = await start_daemon(limits={"drain_s": 0.2})
    idle = await connect(daemon.endpoints[0], "/a")
    await daemon.stop()
    assert not daemon.node.connections
    assert await idle.end() == STOPS
