"""Crowds that do not read, and far sides that are gone: a hub ends, and goes on, as ever."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

import pytest

from hub.messages.batch import decode_values
from hub.settings.settings import Settings
from peers.client import connect
from peers.wire.hello import ID_BYTES, Hello
from peers.wire.kinds import Kind
from tests.daemon.hub_process import HubProcess
from tests.faults.kills import DEADLINE_S
from tests.hubs.hub import LOOPBACK, Hub
from tests.hubs.raw_client import RawClient

_STALLED = 50
_MESSAGES = 40
_DRAIN_S = "2"
_LIMITS = ("--limits-drain-s", _DRAIN_S, "--drain-time-s", "3", "--drain-clients-per-s", "1000")
_PATIENT = ("--limits-ping-after-s", "3600")
"""Whoever does not read answers no ping either: it is not to be given up before the end comes."""


async def _stalled(hub: HubProcess) -> list[RawClient]:
    clients = []
    for _ in range(_STALLED):
        client = await RawClient.connect(hub.endpoints[0], receive_bytes=4096)
        await client.greet()
        await client.subscribe("/much")
        clients.append(client)
    return clients


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGTERM", "drain"])
async def test_many_that_do_not_read(tmp_path: Path, how: str) -> None:
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


# Far sides that are gone, while this side has not read that yet.


async def test_the_hub_of_a_client_is_gone() -> None:
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        connecting = asyncio.ensure_future(connect(f"tcp://127.0.0.1:{server.getsockname()[1]}").__aenter__())
        far, _ = await loop.sock_accept(server)
    await loop.sock_recv(far, 1024)
    await loop.sock_sendall(far, Hello(protocol=1, role="hub", id=bytes(ID_BYTES)).encode())
    client = await connecting
    far.close()
    await client.close()
    assert client.ended


async def test_a_client_of_a_hub_is_gone() -> None:
    hub = Hub(Settings())
    await hub.listen(LOOPBACK)
    client = await RawClient.connect(hub.endpoint)
    await client.greet()
    (connection,) = hub.server.connections
    client.close()
    connection.drain()
    await hub.server.wait_released()
    await hub.stop()
