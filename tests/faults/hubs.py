"""Hubs with a journal, each in a process of its own, and what a test asks them from outside."""

from __future__ import annotations

import asyncio
import signal
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from peers.client import QueueWish, connect
from peers.client.client import Connecting
from tests.daemon.hub_process import HubProcess

__all__ = ["DEADLINE_S", "RunningHub", "running_hub"]

DEADLINE_S = 90.0
"""When a test stops waiting for what it expects."""

_LISTEN = ("--listen", "tcp://127.0.0.1:0", "--listen", "ws://127.0.0.1:0", "--log-format", "json")


class RunningHub:
    """A hub that listens.

    Args:
        process: It.
        up_s: How long it took from the start of the process.
    """

    def __init__(self, process: HubProcess, up_s: float) -> None:
        self.process = process
        self.up_s = up_s
        self._is_struck = False
        self.url = process.endpoints[0].location

    def connect(self, queue: QueueWish | None = None) -> Connecting:
        """Make a client that does not come back when the hub is gone."""
        return connect(self.url, reconnect=False, queue=queue)

    def strike(self) -> None:
        """End it as the kernel does for want of memory; the second time nothing happens."""
        if not self._is_struck:
            self._is_struck = True
            self.process.signal(signal.SIGKILL)

    async def stop(self) -> None:
        """End it in order."""
        self.process.signal(signal.SIGTERM)
        code, log = await self.process.wait_ended()
        assert code == 0, log

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a resource."""
        return await asyncio.to_thread(_get, f"{self.process.page.rstrip('/')}{path}")

    async def counter(self, name: str) -> int:
        """Return one of the hub's metrics."""
        _, text = await self.get("/metrics")
        return int(float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} "))))


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as response:  # noqa: S310 -- our own hub
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@asynccontextmanager
async def running_hub(path: Path | str, *flags: str, wrap: Sequence[str] = ()) -> AsyncIterator[RunningHub]:
    """Start a hub on a journal; it is killed at the end, if it still runs.

    Args:
        path: Of the journal.
        flags: More flags of `hub run`.
        wrap: A command that runs the command that follows it; the hub is a new interpreter then.
    """
    began_s = time.perf_counter()
    process = await HubProcess.start([*_LISTEN, "--journal", str(path), *flags], {}, before=wrap)
    try:
        await asyncio.wait_for(process.wait_up(2), DEADLINE_S)
        yield RunningHub(process, time.perf_counter() - began_s)
    finally:
        await process.kill()
