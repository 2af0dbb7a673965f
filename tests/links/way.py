"""`Way`: what lies between two hubs, and can be cut, closed to bytes, and slowed by a test."""

from __future__ import annotations

import asyncio
import contextlib

from peers.transport.endpoints import Endpoint
from tests.hubs.eventually import eventually
from tests.hubs.hub import LOOPBACK

_PIECE_BYTES = 4096


class Way:
    """A proxy in front of one hub. Bytes pass in both directions while it is open."""

    def __init__(self, target: Endpoint) -> None:
        self._target = target
        self._open = (_set_event(), _set_event())  # Whether bytes pass: of those who came, and of the hub
        self._pipes: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._answering = 0  # how many have come for whom the hub has not answered yet
        self.accepted = 0
        self.passed_bytes = 0
        self.endpoint: Endpoint
        self._server: asyncio.Server

    async def start(self) -> Way:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_PIECE_BYTES)
        self.endpoint = Endpoint.parse(LOOPBACK).with_port(self._server.sockets[0].getsockname()[1])
        return self

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._answering += 1
        try:
            host, port = self._target.host, self._target.port
            far_reader, far_writer = await asyncio.open_connection(host, port, limit=_PIECE_BYTES)
        except OSError:  # the hub has gone
            writer.transport.abort()
            return
        finally:
            self._answering -= 1
        self._writers += (writer, far_writer)
        for (source, sink), is_open in zip(((reader, far_writer), (far_reader, writer)), self._open, strict=True):
            self._pipes.append(asyncio.ensure_future(self._pass(source, sink, is_open)))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, is_open: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_PIECE_BYTES):
                await is_open.wait()
                self.passed_bytes += len(data)
                sink.write(data)
                await sink.drain()
            await is_open.wait()
            sink.close()

    def hold(self, *, near: bool = True, far: bool = True) -> None:
        """Let no byte and no end of a stream pass any more, of the connections there are: a black hole."""
        for is_open, is_held in zip(self._open, (near, far), strict=True):
            if is_held:
                is_open.clear()

    def release(self) -> None:
        for is_open in self._open:
            is_open.set()

    def replace(self) -> None:
        self._open = (_set_event(), _set_event())

    def cut(self, *, near: bool = True, far: bool = True) -> None:
        for pipe in self._pipes:
            pipe.cancel()
        for number, writer in enumerate(self._writers):
            if (near, far)[number % 2]:
                writer.transport.abort()
        self._pipes.clear()
        if near and far:
            self._writers.clear()

    async def stop(self) -> None:
        self._server.close()
        await eventually(lambda: not self._answering)
        self.cut()
        await eventually(lambda: all(task.done() for task in self._pipes))


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
