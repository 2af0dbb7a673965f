"""Pretend sockets: what is read, and which callback runs, is decided by the test, step by step."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from hub.handlers.delivery import Role
from hub.limits import QueueLimits
from hub.settings.settings import Settings
from peers.connections.connection import Connection
from peers.connections.tcp import tcp_connection
from peers.server.server import Server
from peers.wire.hello import Hello
from tests.hub.fakes import FakeOutlet, handler_of

HELLO = Hello(protocol=1, role="client").encode()


class PretendTimer:
    def __init__(self, due_s: float, act: Callable[[], object]) -> None:
        self.due_s = due_s
        self.act = act
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class PretendLoop:
    def __init__(self) -> None:
        self.ready: deque[Callable[[], object]] = deque()
        self.now_s = 1000.0
        self.timers: list[PretendTimer] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, act: Callable[..., object], *arguments: Any) -> None:
        self.ready.append(lambda: act(*arguments))

    def play_turn(self) -> None:
        for _ in range(len(self.ready)):
            self.ready.popleft()()

    def call_later(self, seconds: float, act: Callable[..., object], *arguments: Any) -> PretendTimer:
        return self.call_at(self.now_s + seconds, act, *arguments)

    def call_at(self, when_s: float, act: Callable[..., object], *arguments: Any) -> PretendTimer:
        self.timers.append(PretendTimer(when_s, lambda: act(*arguments)))
        return self.timers[-1]

    @property
    def due(self) -> list[PretendTimer]:
        return sorted([one for one in self.timers if not one.is_cancelled], key=lambda one: one.due_s)

    def pass_s(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.due and self.due[0].due_s <= end_s:
            timer = self.due[0]
            self.timers.remove(timer)
            self.now_s = timer.due_s
            timer.act()
        self.now_s = end_s


class PretendTransport(asyncio.Transport):
    def __init__(self, loop: PretendLoop, connection: Connection) -> None:
        super().__init__()
        self.loop = loop
        self.connection = connection
        self.far: PretendTransport
        self.incoming: deque[bytes | None] = deque()  # None is the end of the stream
        self.closing = False
        self.finished = False
        self.reading = True

    def write(self, data: Any) -> None:
        assert not self.finished, "a write behind the end of the stream"
        if not self.closing:
            self.far.incoming.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self.finished and not self.closing:
            self.finished = True
            self.far.incoming.append(None)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.write_eof()
            self.closing = True
            self.loop.call_soon(self.connection.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def receive(self) -> None:
        data = self.incoming.popleft()
        if self.closing:
            return
        if data is None:
            self.connection.eof_received()
            self.close()
        else:
            self.connection.data_received(data)


def over_tcp(server: Server) -> Connection:
    return tcp_connection(server, QueueLimits())


class Stage:
    def __init__(self) -> None:
        self.loop = PretendLoop()
        self.server = Server(Settings())
        self.server.loop = self.loop  # type: ignore[assignment]
        self.core = self.server.core
        self.outlet = FakeOutlet()
        reader = handler_of(self.outlet, role=Role.LOCAL)
        self.core.attach(reader)
        self.core.subscribe(reader, ["/"])

    def connect(self, make: Callable[[Server], Connection] = over_tcp) -> Connection:
        connection = make(self.server)
        transport = PretendTransport(self.loop, connection)
        transport.far = PretendTransport(self.loop, connection)
        connection.connection_made(transport)
        return connection

    def client(self) -> Connection:
        connection = self.connect()
        connection.data_received(HELLO)
        return connection

    def transport_of(self, connection: Connection) -> PretendTransport:
        assert isinstance(connection.transport, PretendTransport)
        return connection.transport

    def told(self, connection: Connection) -> bytes:
        return b"".join(data for data in self.transport_of(connection).far.incoming if data is not None)

    def play(self) -> None:
        while self.loop.ready:
            self.loop.play_turn()
