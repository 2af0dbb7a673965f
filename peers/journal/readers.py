"""`Readers`: the hub's side of its reader processes.

```
fetch(FETCH) ─▶ the reader with the least to do ─▶ one frame, in order ─▶ answer
```

A process is started when one is needed and none is idle, up to a limit. One that dies is forgotten: what it was
asked is answered by an error that says to try again, and the next FETCH starts another. So is one that cannot be
started.

Owner: the event loop. Invariants: each `fetch` is answered once; no process is left behind. Memory: orders that wait,
and one answer a process that is on its way.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import cast

import structlog

from hub.errors import CloseCode, RejectedError
from hub.frame import HEADER, HEADER_BYTES

__all__ = ["PENDING_LIMIT", "Deliver", "Readers"]

PENDING_LIMIT = 1_000
"""Most orders that wait for the readers; one more is refused."""

_END_S = 2.0
"""How long a reader may take to end when the hub stops."""

Deliver = Callable[[bytes | bytearray | RejectedError], None]
"""Gets a whole frame, or why there is none."""


class Readers:
    """The reader processes of one hub.

    Args:
        path: Of the journal.
        limit: Most processes.
    """

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._readers: list[_Reader] = []
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        """How many processes there are."""
        return len(self._readers)

    @property
    def pending(self) -> int:
        """Orders that were not answered yet."""
        return sum(len(reader.pending) for reader in self._readers)

    def fetch(self, order: bytes, deliver: Deliver) -> None:
        """Have a FETCH frame answered."""
        if self._closed:
            deliver(RejectedError(CloseCode.GOING_AWAY, "the hub stops"))
            return
        if self.pending >= PENDING_LIMIT:
            text = f"{PENDING_LIMIT} readers wait already, which is the limit"
            deliver(RejectedError(CloseCode.TRY_AGAIN_LATER, text))
            return
        try:
            reader = self._choose()
        except OSError as error:
            text = f"no process to read the journal could be started ({error.strerror}); try again"
            deliver(RejectedError(CloseCode.TRY_AGAIN_LATER, text))
            return
        reader.order(order, deliver)

    def _choose(self) -> _Reader:
        """Return the reader with the least to do, a new one if all have something to do.

        Raises:
            OSError: There is none, and none can be started.
        """
        reader = min(self._readers, key=_load, default=None)
        if reader is None or (reader.pending and len(self._readers) < self._limit):
            try:
                reader = _Reader(self._path, self._forget)
            except OSError:
                if reader is None:
                    raise
            else:
                self._readers.append(reader)
        return reader

    def _forget(self, reader: _Reader) -> None:
        self._readers.remove(reader)
        ending = asyncio.get_running_loop().create_task(reader.reap())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """End all processes."""
        self._closed = True
        for reader in list(self._readers):
            await reader.hang_up()
        while self._ending:
            await asyncio.wait(self._ending)


def _load(reader: _Reader) -> int:
    return len(reader.pending)


class _Reader(asyncio.BufferedProtocol):
    """One process. Frames are read into a buffer of their own size, so that they are copied once.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, path: str, on_end: Callable[[_Reader], None]) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = _start(path, theirs)
        except BaseException:
            ours.close()
            raise
        self._on_end = on_end
        self._header = bytearray(HEADER_BYTES)
        self._frame: bytearray | None = None  # once its header is there
        self._filled = 0
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self.pending: deque[Deliver] = deque()
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()
        ours.setblocking(False)
        self._connecting = loop.create_task(loop.create_unix_connection(lambda: self, sock=ours))

    def order(self, order: bytes, deliver: Deliver) -> None:
        """Send a FETCH frame."""
        self.pending.append(deliver)
        if self._transport is None:
            self._early.append(order)
        else:
            self._transport.write(order)

    async def hang_up(self) -> None:
        """End the process: it ends by itself when its socket does."""
        await asyncio.wait([self._connecting])
        if self._transport is not None:
            self._transport.abort()
            await self._ended

    async def reap(self) -> None:
        """Wait for the end of the process, and see to it."""
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._process.wait, _END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what was ordered in the meantime."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.writelines(self._early)
        self._early = []

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 -- asyncio's signature
        """Lend the part of the frame, or of its header, that is missing."""
        return memoryview(self._header if self._frame is None else self._frame)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on a frame that is whole."""
        self._filled += nbytes
        if self._frame is None:
            if self._filled < HEADER_BYTES:
                return
            self._frame = bytearray(HEADER_BYTES + HEADER.unpack(self._header)[0])
            self._frame[:HEADER_BYTES] = self._header
        if self._filled == len(self._frame):
            frame, self._frame, self._filled = self._frame, None, 0
            self.pending.popleft()(frame)

    def eof_received(self) -> bool:
        """The process has ended."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        """The process has ended: tell those who wait."""
        self._ended.set_result(None)
        self._on_end(self)
        error = RejectedError(CloseCode.TRY_AGAIN_LATER, "the reader of the journal has ended; ask again")
        if self.pending:
            structlog.get_logger("peers").warning("a reader of the journal has ended", pid=self._process.pid)
        while self.pending:
            self.pending.popleft()(error)


def _start(path: str, connection: socket.socket) -> subprocess.Popen[bytes]:
    """Start a process that finds the same modules as this one, whatever stands in the working directory.

    Raises:
        OSError: There are too many processes, or too little memory.
    """
    command = [sys.executable, "-P", "-m", "peers.journal.reader", path, str(connection.fileno())]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    return subprocess.Popen(  # noqa: S603 -- our own program
        command, pass_fds=(connection.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True, env=variables
    )
