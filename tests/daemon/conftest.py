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
    for name in list(os.environ):
        if name.startswith("HUB_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
async def start_daemon() -> AsyncIterator[StartDaemon]:
    daemons: list[Daemon] = []

    async def start(*listen: str, **flags: Any) -> Daemon:
        daemon = Daemon(load({"listen": list(listen or ["tcp://127.0.0.1:0"])} | flags, {}), "hub")
        await daemon.start()
        daemons.append(daemon)
        return daemon

    yield start
    for daemon in daemons:
        for connection in list(daemon.server.connections):
            connection.abort()
        await daemon.stop()


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
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
    return False


NEW = pytest.mark.parametrize("is_new", [True], ids=["new"])  # Hubs of this test are new interpreters


@pytest.fixture
async def start_process(*, is_new: bool) -> AsyncIterator[StartProcess]:
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
