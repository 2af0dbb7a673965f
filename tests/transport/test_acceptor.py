"""Accepting: a few in a turn, and somebody is told even where nothing is left to accept with."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from peers.connections import listener as module
from peers.connections.listener import ACCEPTS_PER_TURN, Acceptor
from tests.hubs.eventually import eventually


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
async def listening(made: list[asyncio.Protocol], shed: list[None], wrap: Any = None) -> AsyncIterator[tuple[str, int]]:
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
    async with listening(made, []) as where:
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
    """Whenever this side stops to accept: a protocol that has a connection may write, and hears of its end."""
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
    async with listening(made, shed, lambda sock: Shortage(sock, 2)) as where:
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
    """Nobody is accepted for a moment, instead of the loop being woken for ever; then those who wait are."""
    monkeypatch.setattr(module, "_PAUSE_S", 0.001)
    made: list[asyncio.Protocol] = []
    async with listening(made, [], lambda sock: Shortage(sock, 3, errno.ENOMEM)) as where:
        with socket.create_connection(where):
            await eventually(lambda: made)
