"""A client that is killed, or that lets nothing go, leaves nothing behind: no descriptor, nothing in /dev/shm."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from pathlib import Path

import pytest

from tests.hubs.eventually import eventually
from tests.shm.conftest import memfds
from tests.shm.hubs import SharingHub

pytestmark = pytest.mark.slow

CLIENT = """
import asyncio, sys
from peers.client import connect

async def main():
    async with connect(sys.argv[1], views=True) as client, client.subscribe("/") as messages:
        await client.allocate(1)
        held = []
        while True:
            client.publish_nowait("/memfd", bytes(200_000))
            block = await client.allocate(200_000)
            client.publish_nowait("/block", block)
            held.append(await anext(messages))
            if len(held) > 40:
                held.pop(0)
                print("held", flush=True)

asyncio.run(main())
"""


def shared_names() -> set[str]:
    folder = Path("/dev/shm")  # noqa: S108 -- it is what is looked at
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_a_client_that_is_killed(hub: SharingHub, end: signal.Signals) -> None:
    before = shared_names()
    reader = await hub.sharing("/")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, hub.endpoint.location, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    for _ in range(20):
        await process.stdout.readline()
    assert hub.node.shared.segments == 1
    process.send_signal(end)
    await process.wait()
    await eventually(lambda: len(hub.node.core.handlers) == 1)
    reader.close()
    await eventually(lambda: not hub.node.core.handlers)
    gc.collect()
    reader.descriptors.clear()
    assert memfds() == 0
    assert hub.node.shared.descriptors.open == 0
    assert hub.node.shared.segments == 0
    assert shared_names() <= before


async def test_a_reader_that_takes_nothing(hub: SharingHub) -> None:
    publisher, reader = await hub.sharing(), await hub.sharing("/a")
    for _ in range(100):
        await publisher.publish_shared("/a", b"\xc6\x00\x03\x0d\x40" + bytes(200_000))
        await publisher.ping()
    assert 0 < hub.node.shared.descriptors.open <= hub.node.settings.shm.client_descriptors
    reader.close()
    await eventually(lambda: len(hub.node.core.handlers) == 1)
    assert hub.node.shared.descriptors.open == 0
    assert memfds() == 0
