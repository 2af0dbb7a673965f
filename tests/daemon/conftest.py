"""Daemons in the test's own loop, and hubs as processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.transport.endpoints import Endpoint
from tests.daemon.hub_process import HubProcess
from tests.hubs.raw_client import RawClient

StartDaemon = Callable[..., Awaitable[Daemon]]
Connect = Callable[..., Awaitable[RawClient]]
StartProcess = Callable[..., Awaitable[HubProcess]]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory, no HUB_ variables, no token of an admin: nothing but the test decides."""
    for name in list(os.environ):
        if name.startswith("HUB_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
async def start_daemon() -> AsyncIterator[StartDaemon]:
    """Start daemons from flags; all are stopped when the test is over."""
    daemons: list[Daemon] = []

    async def start(*listen: str, **flags: Any) -> Daemon:
        daemon = Daemon(load({"listen": list(listen or ["tcp://127.0.0.1:0"])} | flags, {}), "hub")
        await daemon.start()
        daemons.append(daemon)
        return daemon

    yield start
    for daemon in daemons:
        for connection in list(daemon.node.connections):
            connection.abort()
        await daemon.stop()


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Connect clients and say HELLO; all are closed when the test is over."""
    with contextlib.ExitStack() as stack:

        async def connect(
            endpoint: Endpoint, *prefixes: str, receive_bytes: int | None = None, **hello: Any
        ) -> RawClient:
            client = await RawClient.connect(endpoint, receive_bytes=receive_bytes)
            stack.callback(client.close)
            await client.greet(**hello)
            if prefixes:
                await client.subscribe(*prefixes)
            return client

        yield connect


@pytest.fixture
def is_new() -> bool:
    """Whether hubs that are processes are new interpreters, as for users: tests of processes say so."""
    return False


NEW = pytest.mark.parametrize("is_new", [True], ids=["new"])
"""Hubs of this test are new interpreters."""


@pytest.fixture
async def start_process(*, is_new: bool) -> AsyncIterator[StartProcess]:
    """Start hubs as processes; those that still run when the test is over are killed."""
    processes: list[HubProcess] = []

    async def start(
        *arguments: str,
        descriptors: int | None = None,
        stderr: int = asyncio.subprocess.PIPE,
        stdout: int = asyncio.subprocess.PIPE,
        **variables: str,
    ) -> HubProcess:
        process = await HubProcess.start(arguments, variables, descriptors, stderr, stdout, is_new=is_new)
        processes.append(process)
        return process

    yield start
    for process in processes:
        await process.kill()
