"""The hub as a process: what it announces, how it ends, reloads or fails to start, what a service manager is told."""

from __future__ import annotations

import asyncio
import configparser
import contextlib
import fcntl
import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hub import twins
from hub.errors import CloseCode
from peers.cli.commands import app
from peers.daemon.service_manager import ServiceManager
from peers.transport.endpoints import Endpoint
from tests.daemon.conftest import NEW, Connect, StartProcess
from tests.daemon.hub_process import ROOT
from tests.hubs.eventually import eventually
from tests.hubs.raw_client import RawClient
from tests.hubs.raw_http import RawHttp

TCP = ("--listen", "tcp://127.0.0.1:0")


async def test_it_says_where_it_is(start_process: StartProcess, connect: Connect, tmp_path: Path) -> None:
    unix = f"unix://{tmp_path}/hub.sock"
    process = await start_process(*TCP, "--listen", unix, "--listen", "ws://127.0.0.1:0", "--name", "north")
    hub = await process.wait_up(3)
    assert hub.name == "north"
    assert [endpoint.location for endpoint in hub.endpoints][1] == unix
    tcp, _, web = hub.endpoints
    assert tcp.port > 0
    assert hub.page == f"http://127.0.0.1:{web.port}/"
    for endpoint in hub.endpoints[:2]:
        client = await connect(endpoint, "/a")
        await client.publish("/a", 1)
        assert await client.values(1) == [("/a", 1)]


@NEW
async def test_missing_twins_are_told_in_the_log(start_process: StartProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twins, "find_spec", lambda _: None)
    without = {"PYTHONPATH": f"{ROOT}:{ROOT}/tests/without", "WITHOUT": ",".join(twins.TWINS)}
    hub = await start_process("--listen", "tcp://127.0.0.1:0", "--log-format", "json", **without)
    assert (await (await hub.wait_up()).wait_logged(twins.remark()))["level"] == "warning"


@NEW
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it(start_process: StartProcess, connect: Connect, number: signal.Signals) -> None:
    hub = await (await start_process(*TCP)).wait_up()
    client = await connect(hub.endpoints[0])
    hub.signal(number)
    assert await client.end() == (CloseCode.GOING_AWAY, "the hub stops")
    client.close()
    code, log = await hub.wait_ended()
    assert code == 0
    assert '"level":"error"' not in log.replace(" ", "")
    assert "Traceback" not in log


async def test_few_descriptors(start_process: StartProcess, connect: Connect) -> None:
    hub = await (await start_process(*TCP, "--log-format", "json", descriptors=67)).wait_up()
    line = await hub.wait_logged("fewer connections than set")
    assert (line["limit"], line["set"], line["nofile"]) == (2, 10_000, 67)
    clients = [await connect(hub.endpoints[0]) for _ in range(2)]
    third = await RawClient.connect(hub.endpoints[0])
    assert await third.end() == (CloseCode.TRY_AGAIN_LATER, "2 connections are open, which is the limit")
    third.close()
    assert [await client.ping() for client in clients] == [[], []]


PIPE_BYTES = 4096  # The smallest pipe that there is: it is full after some lines
MISSING = "log lines dropped: the log was not read"
REFUSED = 70  # So many refused connections are more lines than fit into such a pipe, and such a queue


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


async def dropped_lines(endpoint: Endpoint) -> float:
    client = await RawHttp.connect(endpoint)
    body = (await client.ask("GET", "/metrics")).body.decode()
    client.close()
    return float(body.partition("\nhub_log_dropped_lines_total ")[2].partition("\n")[0])


async def test_it_serves_on(start_process: StartProcess, connect: Connect, pipe: Pipe) -> None:
    flags = (*TCP, "--listen", "ws://127.0.0.1:0", "--log-queue-bytes", "4KiB")
    hub = await (await start_process(*flags, stderr=pipe.writer)).wait_up(2)
    subscriber, publisher = await connect(hub.endpoints[0], "/quiet"), await connect(hub.endpoints[0])
    await subscriber.ping()
    for number in range(REFUSED):
        await be_refused(hub.endpoints[0])
        await publisher.publish("/quiet", number)
        assert await subscriber.values(1) == [("/quiet", number)]
    while not (dropped := await dropped_lines(hub.endpoints[1])):
        await be_refused(hub.endpoints[0])
    await eventually(lambda: MISSING in pipe.events())
    place = pipe.events().index(MISSING)
    assert "connection closed" in pipe.events()[:place]
    told = pipe.lines()[place]
    assert told["level"] == "warning"
    assert told["lines"] >= dropped
    while "connection closed" not in pipe.events()[place:]:  # a storm is cut off: not each of them is logged
        await be_refused(hub.endpoints[0])


EXAMPLE = ROOT / "examples" / "systemd"


class Manager:
    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.setblocking(False)

    async def told(self) -> str:
        return (await asyncio.get_running_loop().run_in_executor(None, self._receive)).decode()

    def _receive(self) -> bytes:
        waiting = self.socket.dup()
        with waiting:
            waiting.settimeout(60)
            return waiting.recv(4096)

    def told_so_far(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return found


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    made = Manager(str(tmp_path / "notify") if request.param == "path" else f"@topichub-{os.getpid()}-{id(request)}")
    yield made
    made.socket.close()


Tell = Callable[..., ServiceManager]


@pytest.fixture
async def tell() -> AsyncIterator[Tell]:
    made: list[ServiceManager] = []

    def tell(**variables: str) -> ServiceManager:
        made.append(ServiceManager.taken_from(variables))
        assert not variables.keys() & {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}
        made[-1].begin()
        return made[-1]

    yield tell
    for one in made:
        one.end()


async def test_what_is_said(manager: Manager, tell: Tell) -> None:
    told = tell(NOTIFY_SOCKET=manager.address, OTHER="1")
    told.ready()
    before_us = time.monotonic_ns() // 1000
    told.reloading()
    after_us = time.monotonic_ns() // 1000
    told.ready()
    told.stopping()
    up, reload, again, stop = manager.told_so_far()
    assert (up, again, stop) == ("READY=1", "READY=1", "STOPPING=1")
    state, at = reload.splitlines()
    assert state == "RELOADING=1"
    assert before_us <= int(at.removeprefix("MONOTONIC_USEC=")) <= after_us


async def test_signs_of_life(manager: Manager, tell: Tell) -> None:
    told = tell(NOTIFY_SOCKET=manager.address, WATCHDOG_USEC="2000", WATCHDOG_PID=str(os.getpid()))
    for _ in range(3):
        assert await manager.told() == "WATCHDOG=1"
    told.end()
    manager.told_so_far()
    told.ready()
    assert manager.told_so_far() == []


async def test_a_hub_that_is_not_well_gives_no_sign(manager: Manager) -> None:
    told = ServiceManager.taken_from({"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "2000"})
    seen: list[bool] = []

    def is_well() -> bool:
        seen.append(len(seen) >= 3)
        if seen[-1]:
            told.reloading()  # so that a sign before would be seen before
        return seen[-1]

    told.begin(is_well)
    assert (await manager.told()).startswith("RELOADING=1")
    assert await manager.told() == "WATCHDOG=1"
    told.end()


async def test_a_socket_that_is_full(manager: Manager, tell: Tell) -> None:
    told = tell(NOTIFY_SOCKET=manager.address)
    for _ in range(10_000):
        told.ready()
    told.stopping()
    found: list[str] = []

    def has_stopped() -> bool:
        found.extend(manager.told_so_far())
        return "STOPPING=1" in found

    await eventually(has_stopped)
    assert found[-1] == "STOPPING=1"
    assert set(found[:-1]) == {"READY=1"}
    assert len(found) < 10_000


async def state_of(manager: Manager) -> str:
    while (told := await manager.told()) == "WATCHDOG=1":
        pass
    return "RELOADING=1" if told.startswith("RELOADING=1\n") else told


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_managed_hub(start_process: StartProcess, connect: Connect, tmp_path: Path, workers: int) -> None:
    manager = Manager(str(tmp_path / "notify"))
    variables = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "20000"}
    journal = ("--journal", str(tmp_path / "journal"))
    settings = tmp_path / "hub.toml"
    settings.touch()
    process = await start_process(*TCP, *journal, "--workers", str(workers), "--config", str(settings), **variables)
    assert await state_of(manager) == "READY=1"
    hub = await process.wait_up()
    await connect(hub.endpoints[0])
    while await manager.told() != "WATCHDOG=1":
        pass
    hub.signal(signal.SIGHUP)
    assert await state_of(manager) == "RELOADING=1"
    assert await state_of(manager) == "READY=1\nSTATUS="
    settings.write_text("name = 7")
    hub.signal(signal.SIGHUP)
    assert await state_of(manager) == "RELOADING=1"
    assert (await state_of(manager)).startswith(f"READY=1\nSTATUS=reload rejected: {settings}: name: 7 given")
    hub.signal(signal.SIGTERM)
    assert await state_of(manager) == "STOPPING=1"
    code, _ = await hub.wait_ended()
    assert code == 0
    assert set(manager.told_so_far()) <= {"WATCHDOG=1"}
    manager.socket.close()


async def test_a_hub_that_cannot_start_is_never_ready(start_process: StartProcess, tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    process = await start_process("--listen", "unix:///nonexistent/hub.sock", NOTIFY_SOCKET=manager.address)
    code, text = await process.wait_ended()
    assert (code, text[:47]) == (1, "hub: cannot listen on unix:///nonexistent/hub.s")
    assert manager.told_so_far() == []
    manager.socket.close()


def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(EXAMPLE / "topichub.service")
    return parser["Service"]


def test_the_unit() -> None:
    service = unit()
    program, *words = service["ExecStart"].split()
    assert program.endswith("/bin/hub")
    app.parse_args(words, print_error=False, exit_on_error=False)
    assert service["Type"] == "notify"
    assert service["KillMode"] == "mixed"
    assert int(service["WatchdogSec"]) > 0
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
