"""A hub that stops, or is drained, while hundreds of clients do not read: it ends, and whoever reads loses nothing."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from hub.batch import decode_values
from peers.client import connect
from peers.wire.kinds import Kind
from tests.daemon.hub_process import HubProcess
from tests.faults.hubs import DEADLINE_S
from tests.hubs.raw_client import RawClient

_STALLED = 500
_MESSAGES = 40
_DRAIN_S = "2"
_LIMITS = ("--limits-drain-s", _DRAIN_S, "--drain-time-s", "3", "--drain-clients-per-s", "1000")
_PATIENT = ("--limits-ping-after-s", "3600")
"""Whoever does not read answers no ping either: it is not to be given up before the end comes."""


async def _stalled(hub: HubProcess) -> list[RawClient]:
    """Clients that have subscribed, and read no more."""
    clients = []
    for _ in range(_STALLED):
        client = await RawClient.connect(hub.endpoints[0], receive_bytes=4096)
        await client.greet()
        await client.subscribe("/much")
        clients.append(client)
    return clients


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGTERM", "drain"])
async def test_hundreds_that_do_not_read(tmp_path: Path, how: str) -> None:
    """The end comes though none of them reads, without a word in the log; a quiet pair gets all that was published."""
    flags = [*_LIMITS, *_PATIENT, "--log-format", "json", "--log-level", "warning"]
    process = await HubProcess.start(["--listen", "tcp://127.0.0.1:0", "--listen", f"unix://{tmp_path}/s", *flags], {})
    try:
        hub = await process.wait_up(2)
        crowd = await _stalled(hub)
        reader = await RawClient.connect(hub.endpoints[0])
        await reader.greet()
        await reader.subscribe("/quiet")
        writer = await RawClient.connect(hub.endpoints[0])
        await writer.greet()
        for number in range(_MESSAGES):
            await writer.publish("/much", bytes(60_000))
            await writer.publish("/quiet", number)
        assert await writer.ping() == []
        if how == "SIGTERM":
            hub.signal(signal.SIGTERM)
        else:
            async with connect(hub.endpoints[1].location) as admin:
                assert (await admin.request("$hub/drain", None))["clients"] == _STALLED + 3
        got: list[int] = []
        async with asyncio.timeout(DEADLINE_S):
            async for frame in reader.frames():
                if frame.kind == Kind.MESSAGES:
                    got += decode_values(frame)
            reader.close()
            writer.close()
            code, log = await hub.wait_ended()
        assert got == list(range(_MESSAGES))
        assert (code, log) == (0, "")
        for client in crowd:
            client.close()
    finally:
        await process.kill()
