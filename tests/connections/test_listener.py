"""Listening: ports that are picked, sockets that are taken over, and errors that name the place and the cause."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from peers.connections import listener as module
from peers.connections.listener import ACCEPTS_PER_TURN, Acceptor, ListenError, bind
from peers.transport.endpoints import Endpoint
from tests.hubs.eventually import eventually

NOBODY = 65534


@contextlib.asynccontextmanager
async def listening(url: str) -> AsyncIterator[Endpoint]:
    server, endpoint = await bind(Endpoint.parse(url), asyncio.Protocol, asyncio.get_running_loop())
    try:
        yield endpoint
    finally:
        server.close()
        await asyncio.sleep(0)  # uvloop closes its handles a turn later


async def failure(url: str) -> str:
    with pytest.raises(ListenError) as error:
        await bind(Endpoint.parse(url), asyncio.Protocol, asyncio.get_running_loop())
    return str(error.value)


async def test_a_port_in_use() -> None:
    async with listening("tcp://127.0.0.1:0") as endpoint:
        text = await failure(endpoint.location)
    assert text == (
        f"cannot listen on tcp://127.0.0.1:{endpoint.port}: port {endpoint.port} is in use by another process; "
        "choose another one, or 0 to pick a free one"
    )


@pytest.mark.parametrize(
    ("host", "cause"),
    [("192.0.2.1", "Cannot assign requested address"), ("a..b", "label empty"), ("x" * 70, "label too long")],
)
async def test_no_such_address(host: str, cause: str) -> None:
    text = await failure(f"tcp://{host}:0")
    assert text.startswith(f"cannot listen on tcp://{host}:0: ")
    assert cause in text


async def test_who_may_connect_to_a_unix_socket(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    before = os.umask(0o027)
    try:
        for given, found in (({}, 0o600), ({"unix_mode": 0o666}, 0o666)):
            server, endpoint = await bind(
                Endpoint.parse(f"unix://{tmp_path}/hub.sock"), asyncio.Protocol, loop, **given
            )
            mode = os.lstat(endpoint.path).st_mode
            assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, found)
            server.close()
    finally:
        os.umask(before)


async def test_a_stale_socket_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "hub.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.exists()
    async with listening(f"unix://{path}"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


async def test_a_live_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "hub.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        assert await failure(f"unix://{path}") == f"cannot listen on unix://{path}: another process listens there"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("file", "there is a file that is not a socket"),
        ("", "there is a file that is not a socket"),
        ("file/hub.sock", "Not a directory"),
        ("no/hub.sock", "there is no folder {folder}/no; make it first, writable for the hub"),
    ],
)
async def test_what_is_no_socket_is_left_alone(tmp_path: Path, path: str, cause: str) -> None:
    (tmp_path / "file").write_text("precious")
    url = f"unix://{tmp_path}/{path}".rstrip("/")
    assert await failure(url) == f"cannot listen on {url}: {cause.format(folder=tmp_path)}"
    assert (tmp_path / "file").read_text() == "precious"
    assert not (tmp_path / "no").exists()


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "locked"
    path.mkdir(mode=0o500)
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    yield path
    os.seteuid(before)


@pytest.mark.usefixtures("locked")
async def test_a_port_for_root_alone() -> None:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", 80))
        except PermissionError:
            pass
        else:
            pytest.skip("every account may use every port here")
    text = await failure("tcp://127.0.0.1:80")
    assert text == (
        "cannot listen on tcp://127.0.0.1:80: this account may not use port 80; choose one above 1023, or give the hub "
        "the capability CAP_NET_BIND_SERVICE"
    )


async def test_an_unwritable_directory(locked: Path) -> None:
    assert await failure(f"unix://{locked}/hub.sock") == (
        f"cannot listen on unix://{locked}/hub.sock: "
        f"this account may not write in {locked}; choose a folder that it may write in"
    )


class Shortage:
    def __init__(self, listening: socket.socket, times: int, error: int = errno.EMFILE) -> None:
        self._listening = listening
        self._error = error
        self.times = times
        self.spare_is_free = lambda: False

    def accept(self) -> Any:
        if self.times and not self.spare_is_free():
            self.times -= 1
            raise OSError(self._error, "no descriptor")
        return self._listening.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listening, name)


@contextlib.asynccontextmanager
async def accepting(made: list[asyncio.Protocol], shed: list[None], wrap: Any = None) -> AsyncIterator[tuple[str, int]]:
    sock = socket.create_server(("127.0.0.1", 0), backlog=128)
    where = sock.getsockname()

    def make() -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    found = wrap(sock) if wrap is not None else sock
    one = Acceptor(found, make, asyncio.get_running_loop(), on_shed=lambda: shed.append(None))
    if isinstance(found, Shortage):
        found.spare_is_free = lambda: one._spare < 0
    try:
        yield where
    finally:
        one.close()
        one.close()
        await asyncio.sleep(0)


async def test_many_are_taken_in_steps() -> None:
    made: list[asyncio.Protocol] = []
    async with accepting(made, []) as where:
        clients = [socket.create_connection(where) for _ in range(3 * ACCEPTS_PER_TURN)]
        counts = []
        while len(made) < len(clients):
            counts.append(len(made))
            await asyncio.sleep(0)
    steps = [after - before for before, after in zip(counts, [*counts[1:], len(made)], strict=True)]
    assert max(steps) <= ACCEPTS_PER_TURN
    for client in clients:
        client.close()


class Told(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.WriteTransport | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        self.is_lost = True


@pytest.mark.parametrize("turns", range(6))
async def test_those_who_were_just_accepted_are_told_of_their_end(turns: int) -> None:
    made: list[Told] = []

    def make() -> Told:
        made.append(Told())
        return made[-1]

    sock = socket.create_server(("127.0.0.1", 0))
    one = Acceptor(sock, make, asyncio.get_running_loop())
    clients = [socket.create_connection(sock.getsockname()) for _ in range(5)]
    for _ in range(turns):
        await asyncio.sleep(0)
    one.close()
    await eventually(lambda: not one._opening)
    for protocol in made:
        assert protocol.transport is not None
        protocol.transport.write(b"bye")
        protocol.transport.close()
    await eventually(lambda: all(protocol.is_lost for protocol in made))
    for client in clients:
        client.close()


async def test_delays_are_not_wanted() -> None:
    found: list[int] = []

    class Look(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            sock = transport.get_extra_info("socket")
            found.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            assert isinstance(transport.get_extra_info("peername"), tuple)
            transport.close()

    sock = socket.create_server(("127.0.0.1", 0))
    one = Acceptor(sock, Look, asyncio.get_running_loop())
    with socket.create_connection(sock.getsockname()):
        await eventually(lambda: found)
    one.close()
    assert found[0]


async def test_without_descriptors() -> None:
    made: list[asyncio.Protocol] = []
    shed: list[None] = []
    async with accepting(made, shed, lambda sock: Shortage(sock, 2)) as where:
        loop = asyncio.get_running_loop()
        clients = [socket.create_connection(where) for _ in range(3)]
        for client in clients:
            client.setblocking(False)
        assert await loop.sock_recv(clients[0], 1) == b""
        assert await loop.sock_recv(clients[1], 1) == b""
        await eventually(lambda: made)
        assert (len(made), len(shed)) == (1, 2)
        for client in clients:
            client.close()


async def test_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.001)
    made: list[asyncio.Protocol] = []
    async with accepting(made, [], lambda sock: Shortage(sock, 3, errno.ENOMEM)) as where:
        with socket.create_connection(where):
            await eventually(lambda: made)
