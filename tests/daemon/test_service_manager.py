"""A service manager is told how the hub does: systemd's protocol, spoken to a datagram socket of the test."""

from __future__ import annotations

import asyncio
import configparser
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from peers.cli.commands import app
from peers.daemon.service_manager import ServiceManager
from tests.daemon.conftest import Connect, StartProcess
from tests.daemon.hub_process import ROOT
from tests.hubs.eventually import eventually

EXAMPLE = ROOT / "examples" / "systemd"
TCP = ("--listen", "tcp://127.0.0.1:0")


@pytest.fixture
def is_new() -> bool:
    return True


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
    return told.splitlines()[0]


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_hub(start_process: StartProcess, connect: Connect, tmp_path: Path, workers: int) -> None:
    manager = Manager(str(tmp_path / "notify"))
    variables = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "20000"}
    journal = ("--journal", str(tmp_path / "journal"))
    process = await start_process(*TCP, *journal, "--workers", str(workers), **variables)
    assert await state_of(manager) == "READY=1"
    hub = await process.wait_up()
    await connect(hub.endpoints[0])
    while await manager.told() != "WATCHDOG=1":
        pass
    hub.signal(signal.SIGHUP)
    assert await state_of(manager) == "RELOADING=1"
    assert await state_of(manager) == "READY=1"
    hub.signal(signal.SIGTERM)
    assert await state_of(manager) == "STOPPING=1"
    code, _ = await hub.wait_ended()
    assert code == 0
    assert set(manager.told_so_far()) <= {"WATCHDOG=1"}
    manager.socket.close()


async def test_a_hub_that_cannot_start_is_never_ready(start_process: StartProcess, tmp_path: Path) -> None:
    manager = Manager(str(tmp_path / "notify"))
    process = await start_process("--listen", "unix:///nonexistent/hub.sock", NOTIFY_SOCKET=manager.address)
    code, _ = await process.wait_ended()
    assert code == 1
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


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "topichub.service"
    text = (EXAMPLE / "topichub.service").read_text()
    file.write_text(text.replace("/opt/topichub/bin/hub", shutil.which("true") or "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False)
    about = [line for line in done.stderr.splitlines() if "topichub.service" in line]
    assert about == []
