"""A hub whose log nobody reads, or whose log cannot be written, serves on, and ends when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from peers.transport.endpoints import Endpoint
from tests.daemon.conftest import Connect, StartProcess
from tests.daemon.hub_process import HubProcess
from tests.hubs.eventually import eventually
from tests.hubs.raw_client import RawClient
from tests.hubs.raw_http import RawHttp

SMALL = ("--log-queue-bytes", "4KiB")
TCP = ("--listen", "tcp://127.0.0.1:0", *SMALL)

PIPE_BYTES = 4096  # The smallest pipe that there is: it is full after some lines

MISSING = "log lines dropped: nobody read them"

REFUSED = 70  # So many refused connections are more lines than fit into such a pipe, and such a queue


@pytest.fixture
def is_new() -> bool:
    return True


class Pipe:
    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(self.reader, False)
        self._read = b""

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines()]

    def lines(self) -> list[dict[str, Any]]:
        with contextlib.suppress(BlockingIOError):
            while read := os.read(self.reader, 1 << 16):
                self._read += read
        return [json.loads(line) for line in self._read.split(b"\n")[:-1]]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    for descriptor in (pipe.reader, pipe.writer):
        os.close(descriptor)


async def be_refused(endpoint: Endpoint) -> None:
    stranger = await RawClient.connect(endpoint)
    await stranger.send(b"nobody speaks so" * 4)
    with contextlib.suppress(EOFError, ConnectionResetError):
        while True:
            await stranger.read()
    stranger.close()


async def counted_lines(endpoint: Endpoint, why: str) -> float:
    client = await RawHttp.connect(endpoint)
    body = (await client.ask("GET", "/metrics")).body.decode()
    client.close()
    (line,) = [line for line in body.splitlines() if line.startswith(f"hub_log_{why}_lines_total ")]
    return float(line.split()[1])


async def until_heard(publisher: RawClient, subscriber: RawClient) -> None:
    heard = asyncio.create_task(subscriber.values(1))
    while not heard.done():
        await publisher.publish("/quiet", "first")
        await asyncio.wait([heard], timeout=0.1)
    await publisher.publish("/quiet", "last")
    value = (await heard)[0][1]
    while value != "last":
        [(_, value)] = await subscriber.values(1)


async def exchange_while_strangers_come(hub: HubProcess, connect: Connect) -> None:
    endpoint = hub.endpoints[0]
    subscriber = await connect(endpoint, "/quiet")
    publisher = await connect(endpoint)
    await until_heard(publisher, subscriber)
    for number in range(REFUSED):
        await be_refused(endpoint)
        await publisher.publish("/quiet", number)
        assert await subscriber.values(1) == [("/quiet", number)]


async def test_it_serves_on(start_process: StartProcess, connect: Connect, pipe: Pipe) -> None:
    hub = await (await start_process(*TCP, "--listen", "ws://127.0.0.1:0", stderr=pipe.writer)).wait_up(2)
    await exchange_while_strangers_come(hub, connect)
    while not (dropped := await counted_lines(hub.endpoints[1], "dropped")):
        await be_refused(hub.endpoints[0])
    await eventually(lambda: MISSING in pipe.events())
    place = pipe.events().index(MISSING)
    assert "connection closed" in pipe.events()[:place]
    told = pipe.lines()[place]
    assert told["level"] == "warning"
    assert told["lines"] >= dropped
    while "connection closed" not in pipe.events()[place:]:  # a storm is cut off: not each of them is logged
        await be_refused(hub.endpoints[0])


async def test_nobody_takes_what_it_announces(
    start_process: StartProcess, connect: Connect, pipe: Pipe, tmp_path: Path
) -> None:
    os.write(pipe.writer, bytes(PIPE_BYTES))
    path = tmp_path / "socket"
    flags = ("--listen", f"unix://{path}", *SMALL)
    hub = await start_process(*flags, stdout=pipe.writer, stderr=pipe.writer)
    endpoint = Endpoint.parse(f"unix://{path}")
    await eventually(path.exists)
    while True:
        with contextlib.suppress(ConnectionRefusedError):  # it is there a moment before somebody listens
            _, writer = await asyncio.open_unix_connection(path)
            break
    writer.close()
    await writer.wait_closed()
    hub.endpoints.append(endpoint)
    await exchange_while_strangers_come(hub, connect)
    hub.signal(signal.SIGTERM)
    assert (await hub.wait_ended())[0] == 0


async def test_a_full_disk(start_process: StartProcess, connect: Connect) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    hub = await (await start_process(*TCP, stderr=full)).wait_up()
    os.close(full)
    await exchange_while_strangers_come(hub, connect)
    hub.signal(signal.SIGTERM)
    assert (await hub.wait_ended())[0] == 0


async def test_workers_serve_on(start_process: StartProcess, connect: Connect, pipe: Pipe) -> None:
    hub = await (await start_process(*TCP, "--workers", "2", stderr=pipe.writer)).wait_up()
    await exchange_while_strangers_come(hub, connect)
    hub.signal(signal.SIGTERM)
    assert (await hub.wait_ended())[0] == 0
