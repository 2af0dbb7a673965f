"""Listening: ports that are picked, sockets that are taken over, and errors that name the place and the cause."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from peers.connections.listener import ListenError, bind
from peers.transport.endpoints import Endpoint

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


async def test_port_0_picks_one() -> None:
    async with listening("tcp://127.0.0.1:0?messages=7") as endpoint:
        assert endpoint.port > 0
        assert endpoint.queue.messages == 7
        with socket.create_connection((endpoint.host, endpoint.port)):
            pass


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


async def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "hub.sock"
    async with listening(f"unix://{path}") as endpoint:
        assert endpoint.path == str(path)
        assert stat.S_ISSOCK(path.stat().st_mode)


async def test_who_may_connect_to_a_unix_socket(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    before = os.umask(0o027)
    try:
        for given, found in (({}, 0o600), ({"unix_mode": 0o666}, 0o666)):
            server, endpoint = await bind(
                Endpoint.parse(f"unix://{tmp_path}/hub.sock"), asyncio.Protocol, loop, **given
            )
            assert stat.S_IMODE(os.lstat(endpoint.path).st_mode) == found
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


async def test_a_live_socket_whose_queue_is_full(tmp_path: Path) -> None:
    path = tmp_path / "hub.sock"
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(socket.socket(socket.AF_UNIX))
        other.bind(str(path))
        other.listen(0)
        waiting = True
        while waiting:
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            waiting = client.connect_ex(str(path)) == 0
        inode = path.stat().st_ino
        assert (await failure(f"unix://{path}")).startswith(f"cannot listen on unix://{path}: ")
        assert path.stat().st_ino == inode


async def test_a_plain_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "hub.sock"
    path.write_text("precious")
    text = await failure(f"unix://{path}")
    assert text == f"cannot listen on unix://{path}: there is a file that is no socket"
    assert path.read_text() == "precious"


async def test_a_directory_is_left_alone(tmp_path: Path) -> None:
    assert "no socket" in await failure(f"unix://{tmp_path}")


async def test_a_path_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    text = await failure(f"unix://{tmp_path}/file/hub.sock")
    assert text == f"cannot listen on unix://{tmp_path}/file/hub.sock: Not a directory"


async def test_a_path_below_nothing(tmp_path: Path) -> None:
    text = await failure(f"unix://{tmp_path}/no/hub.sock")
    place, folder = f"unix://{tmp_path}/no/hub.sock", tmp_path / "no"
    assert text == f"cannot listen on {place}: there is no folder {folder}; make it first, writable for the hub"
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
