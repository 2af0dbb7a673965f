"""`Line`: a TCP proxy on loopback, which can stand still and be reset, and whose data can be looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Watcher(Protocol):
    def take(self, data: bytes) -> None: ...

    def end(self) -> None: ...


class Line:
    """A proxy in front of a port of loopback.

    Args:
        port: Where it leads.
        watch: Called for each side of a connection with whether that is the one that has dialled; makes its watcher.
    """

    def __init__(self, port: int, watch: Callable[[bool], Watcher] | None = None) -> None:
        self._port = port
        self._watch = watch
        self.flows = asyncio.Event()
        self.flows.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> int:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.flows.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, far_writer}
        near, far = (None, None) if self._watch is None else (self._watch(True), self._watch(False))
        await asyncio.gather(self._copy(reader, far_writer, near), self._copy(far_reader, writer, far))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, watcher: Watcher | None) -> None:
        try:
            while data := await source.read(1 << 16):
                await self.flows.wait()
                if watcher is not None:
                    watcher.take(data)
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            if watcher is not None:
                watcher.end()
            sink.close()

    def reset(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
