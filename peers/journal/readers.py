"""`Readers`: the hub's side of its reader processes.

A process is started when none is idle, up to a limit. If one dies, cannot be started, or sends nothing for `fetch_s`
(then it is killed), the waiting FETCHes get an error that says to try again. No process is left behind.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar, cast

import structlog

from hub.errors import CloseCode, RejectedError
from hub.messages.frame import HEADER, HEADER_BYTES
from hub.quotas import Usage
from hub.scheduling.scheduler import Scheduler

PENDING_LIMIT = 1_000  # most waiting orders; users share them (`Resource.JOURNAL_READS`)
_END_S = 2.0  # how long a reader may take to end when the hub stops, seconds
Deliver = Callable[[bytes | bytearray | RejectedError], None]  # called with a whole frame, or an error


class Readers:
    """The reader processes of one hub; one that sends nothing for `fetch_s` is killed."""

    def __init__(self, path: str, limit: int, fetch_s: float = 30.0, tier: str = "") -> None:
        self._path = path
        self._tier = tier
        self._limit = limit
        self._fetch_s = fetch_s
        # The processes that were started and have not ended; a new one joins when an order finds none idle.
        self._readers: list[_Reader] = []
        # Tasks that wait for processes to end, so that none is left behind.
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._readers)

    @property
    def pending(self) -> int:
        return sum(len(reader.pending) for reader in self._readers)

    def fetch(self, order: bytes, deliver: Deliver, usage: Usage | None = None) -> None:
        """Send a FETCH frame to the least busy reader; `usage` is charged until the answer."""
        if self._closed:
            deliver(RejectedError(CloseCode.GOING_AWAY, "the hub stops"))
            return
        if self.pending >= PENDING_LIMIT:
            text = f"{PENDING_LIMIT} readers wait already, which is the limit"
            deliver(RejectedError(CloseCode.TRY_AGAIN_LATER, text))
            return
        if usage is not None:
            if not usage.take(1):
                deliver(usage.rejection(1))
                return
            deliver = partial(_settle, usage, deliver)
        try:
            reader = self._choose()
        except OSError as error:
            text = f"no process to read the journal could be started ({error.strerror}); try again"
            deliver(RejectedError(CloseCode.TRY_AGAIN_LATER, text))
            return
        reader.order(order, deliver)

    def tick(self, now_s: float) -> None:
        for reader in list(self._readers):
            if reader.pending and now_s - reader.progress_s > self._fetch_s:
                structlog.get_logger("peers").warning(
                    "a reader of the journal does not answer and is ended", fetch_s=self._fetch_s
                )
                reader.kill()

    def _choose(self) -> _Reader:
        reader = min(self._readers, key=lambda reader: len(reader.pending), default=None)
        if reader is None or (reader.pending and len(self._readers) < self._limit):
            try:
                reader = _Reader(self._path, self._tier, self._forget)
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
        self._closed = True
        for reader in list(self._readers):
            await reader.hang_up()
        while self._ending:
            await asyncio.wait(self._ending)


def _settle(usage: Usage, deliver: Deliver, answer: bytes | bytearray | RejectedError) -> None:
    usage.give_back(1)
    deliver(answer)


class _Reader(asyncio.BufferedProtocol):
    """One process. Each frame is read into a buffer of its own size, so that it is copied once."""

    def __init__(self, path: str, tier: str, on_end: Callable[[_Reader], None]) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = start_process("peers.journal.reader", path, tier, connection=theirs)
        except BaseException:
            ours.close()
            raise
        self._on_end = on_end
        self._header = bytearray(HEADER_BYTES)
        self._frame: bytearray | None = None  # the frame that is coming; None until its header is whole
        self._filled = 0  # how much of the frame, or of its header, has come, bytes
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []  # orders that came before the socket was connected; empty from then on
        self._is_stopping = False
        self.pending: deque[Deliver] = deque()  # callbacks, in the order of the answers
        loop = self._loop = asyncio.get_running_loop()
        self.progress_s = loop.time()  # when the last byte of an answer, or the first order, came
        self._ended: asyncio.Future[None] = loop.create_future()
        ours.setblocking(False)
        self._connecting = loop.create_task(loop.create_unix_connection(lambda: self, sock=ours))

    def order(self, order: bytes, deliver: Deliver) -> None:
        if not self.pending:
            self.progress_s = self._loop.time()
        self.pending.append(deliver)
        if self._transport is None:
            self._early.append(order)
        else:
            self._transport.write(order)

    async def hang_up(self) -> None:
        self._is_stopping = True
        await asyncio.wait([self._connecting])
        if self._transport is not None:
            self._transport.abort()
            await self._ended

    def kill(self) -> None:
        """Kill the process, also a stopped one; pending orders fail once the socket closes."""
        self._process.kill()
        if self._transport is not None:
            self._transport.abort()

    async def reap(self) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._process.wait, _END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _refuse(self, error: RejectedError) -> None:
        while self.pending:
            self.pending.popleft()(error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.writelines(self._early)
        self._early = []

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 -- asyncio's signature
        return memoryview(self._header if self._frame is None else self._frame)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        self.progress_s = self._loop.time()
        if self._frame is None:
            if self._filled < HEADER_BYTES:
                return
            self._frame = bytearray(HEADER_BYTES + HEADER.unpack(self._header)[0])
            self._frame[:HEADER_BYTES] = self._header
        if self._filled == len(self._frame):
            frame, self._frame, self._filled = self._frame, None, 0
            self.pending.popleft()(frame)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        self._ended.set_result(None)
        self._on_end(self)
        if self._is_stopping:
            self._refuse(RejectedError(CloseCode.GOING_AWAY, "the hub stops"))
            return
        if self.pending:
            structlog.get_logger("peers").warning("a reader of the journal has ended", pid=self._process.pid)
        self._refuse(RejectedError(CloseCode.TRY_AGAIN_LATER, "the reader of the journal has ended; ask again"))


def start_process(module: str, *arguments: str, connection: socket.socket) -> subprocess.Popen[bytes]:
    """Start a process that finds the same modules as this one, independent of the working directory."""
    descriptor = connection.fileno()
    command = [sys.executable, "-P", "-m", module, *arguments, str(descriptor)]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    # A process group of its own keeps Ctrl-C away. Not a session of its own: Linux (autogroup) lets niceness count
    # within a session alone.
    return subprocess.Popen(  # noqa: S603 -- our own program
        command, pass_fds=(descriptor,), stdin=subprocess.DEVNULL, process_group=0, env=variables
    )


Piece = TypeVar("Piece", bound=Hashable)


class SharedPieces(Generic[Piece]):
    """Identical orders of several clients, which share one answer; very many are answered over several turns."""

    def __init__(self, read: Callable[[Piece, Deliver, Usage | None], object], scheduler: Scheduler) -> None:
        self._read, self._scheduler = read, scheduler
        self._waiting: dict[Piece, list[Deliver]] = {}  # callbacks by order, until the answer comes

    def fetch(self, order: Piece, deliver: Deliver, usage: Usage | None = None) -> None:
        """Answer an order together with all identical ones; the first client's user is charged."""
        waiting = self._waiting.get(order)
        if waiting is not None:
            waiting.append(deliver)
            return
        self._waiting[order] = [deliver]
        self._read(order, lambda answer: self._answer(order, answer), usage)

    def _answer(self, order: Piece, answer: bytes | bytearray | RejectedError) -> None:
        self._scheduler.add(SharedPieces, map(partial(_deliver, answer), self._waiting.pop(order)))


def _deliver(answer: bytes | bytearray | RejectedError, deliver: Deliver) -> None:
    deliver(answer)
