"""A hub that stops while others come."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from tests.daemon.conftest import StartDaemon
from tests.hubs.eventually import eventually


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
