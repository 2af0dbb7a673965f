"""A hub that is besieged at every port: a quiet pair notices nothing, and nothing is left when it is over."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from peers.client import connect
from tests.daemon.hub_process import HubProcess
from tests.faults.hubs import DEADLINE_S
from tests.faults.siege import besiegers
from tests.hubs.eventually import eventually

_INPUTS = 25
_KEPT = 4
"""Descriptors that a hub keeps once it has needed them: a reader of its journal, a file that tells of its memory."""
_LISTEN = ("tcp://127.0.0.1:0", "ws://127.0.0.1:0", "zeek+tcp://127.0.0.1:0")


async def test_a_quiet_pair_beside_mutated_input(tmp_path: Path) -> None:
    """Every message of the pair arrives, in order; no connection is ended by a bug; descriptors and handlers go."""
    listen = [word for url in (*_LISTEN, f"unix://{tmp_path}/hub.sock") for word in ("--listen", url)]
    limits = (
        "--limits-frame-bytes",
        "65536",
        "--limits-handshake-s",
        "1",
        "--log-format",
        "json",
        "--log-level",
        "error",
    )
    process = await HubProcess.start([*listen, *limits, "--journal", str(tmp_path / "journal")], {}, is_new=True)
    try:
        hub = await process.wait_up(4)

        def descriptors() -> int:
            return len(os.listdir(f"/proc/{hub.pid}/fd"))  # noqa: PTH208 -- a Path would be one for each

        url = hub.endpoints[0].location
        async with (
            asyncio.timeout(8 * DEADLINE_S),
            connect(url) as reader,
            connect(url) as writer,
            reader.subscribe("/quiet") as stream,
        ):
            before = descriptors()
            threads = besiegers(hub.endpoints, _INPUTS)
            sent = 0
            while any(thread.is_alive() for thread in threads):
                await writer.publish("/quiet", sent)
                message = await anext(stream)
                assert (message.topic, message.value) == ("/quiet", sent)
                sent += 1
                await asyncio.sleep(0.002)
            await eventually(lambda: descriptors() <= before + _KEPT)
        hub.signal(signal.SIGTERM)
        code, log = await hub.wait_ended()
    finally:
        await process.kill()
    assert (code, log) == (0, "")
