"""A hub that says what the test wants, over TCP; what a client has told a test; and a publisher that floods a hub."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from hub.errors import PeerError
from hub.messages.frame import HEADER, HEADER_BYTES, Frame
from peers.client import BadMessage, Client, connect
from peers.client.client import Connecting
from peers.transport.timing import Backoff
from peers.wire.hello import ID_BYTES, Hello
from peers.wire.kinds import Kind


class ScriptedHub:
    def __init__(self) -> None:
        self.frames: asyncio.Queue[Frame] = asyncio.Queue()
        self.hello = Hello(protocol=1, role="hub", id=bytes(ID_BYTES), name="scripted")
        self.answers = True
        self.connections = 0
        self.ends: asyncio.Queue[None] = asyncio.Queue()
        self._server: asyncio.Server
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._tasks)

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        self._writers.append(writer)
        self.connections += 1
        try:
            while True:
                frame = await self._read(reader)
                self.frames.put_nowait(frame)
                if frame.kind == Kind.HELLO and self.answers:
                    self.send(self.hello.encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            self.ends.put_nowait(None)
        finally:
            writer.close()

    @staticmethod
    async def _read(reader: asyncio.StreamReader) -> Frame:
        body_length, kind, flags, key_length = HEADER.unpack(await reader.readexactly(HEADER_BYTES))
        return Frame(kind, flags, await reader.readexactly(key_length), await reader.readexactly(body_length))

    def send(self, data: bytes) -> None:
        self._writers[-1].write(data)

    def hang_up(self) -> None:
        self._writers[-1].transport.abort()

    async def next(self, kind: Kind) -> Frame:
        while True:
            frame = await self.frames.get()
            if frame.kind == kind:
                return frame


PAYLOAD = b"x" * 1000


def quick_backoff() -> Backoff:
    return Backoff(base_s=0.001, cap_s=0.01)


class Told:
    def __init__(self) -> None:
        self.connected: asyncio.Queue[Hello] = asyncio.Queue()
        self.disconnected: asyncio.Queue[str] = asyncio.Queue()
        self.dropped: asyncio.Queue[int] = asyncio.Queue()
        self.rejected: asyncio.Queue[PeerError] = asyncio.Queue()
        self.bad: asyncio.Queue[BadMessage] = asyncio.Queue()

    def connect(self, url: str, **options: Any) -> Connecting:
        defaults = {
            "backoff": quick_backoff(),
            "on_connect": self.connected.put_nowait,
            "on_disconnect": self.disconnected.put_nowait,
            "on_dropped": self.dropped.put_nowait,
            "on_rejected": self.rejected.put_nowait,
            "on_bad_message": self.bad.put_nowait,
        }
        return connect(url, **(defaults | options))  # type: ignore[arg-type]


async def flood(client: Client, topic: str, numbers: range) -> None:
    for number in numbers:
        await client.publish(topic, [number, PAYLOAD])
    await client.drain()
