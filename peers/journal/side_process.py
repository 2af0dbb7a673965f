"""`SideProcess`: a process of our own that works beside the hub on its journal, and tells how far it is.

```
hub ─ order, as an argument ─▶ process ─ lines, over a socket ─▶ on_line ... on_end
    ─ end of the socket ─────▶ it ends, behind what it is doing
```

Owner: the event loop. Invariant: no process is left behind. Not here: when one is started, and started again
(`peers.journal.tiering`).
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import cast

__all__ = ["SideProcess"]

_END_S = 2.0
"""How long the process may take to end when the hub stops, seconds; then it is killed, which does no harm."""

_LINE_LIMIT_BYTES = 64 * 1024
"""Longest line that the process tells."""


class SideProcess(asyncio.Protocol):
    """One process, and its socket.

    Args:
        module: What it runs: it is given the order, and the descriptor of its end of the socket.
        order: What it is told.
        on_line: Called with each line that it tells.
        on_end: Called with its pid and its code, once it has ended.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(
        self, module: str, order: bytes, on_line: Callable[[bytes], None], on_end: Callable[[int, int], None]
    ) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = _start(module, order, theirs)
        except BaseException:
            ours.close()
            raise
        self._on_line = on_line
        self._on_end = on_end
        # What has come of a line that is not whole.
        self._held = b""
        # None until the socket is connected.
        self._transport: asyncio.Transport | None = None
        loop = asyncio.get_running_loop()
        ours.setblocking(False)
        self._connecting = loop.create_task(loop.create_unix_connection(lambda: self, sock=ours))
        # Waits for the process, once its socket has ended.
        self._reaping: asyncio.Future[asyncio.Task[None]] = loop.create_future()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    async def end(self) -> None:
        """End the process."""
        await asyncio.wait([self._connecting])
        if self._transport is not None:
            self._transport.abort()
        await (await self._reaping)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand on each line."""
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            self._on_line(line)
        if len(self._held) > _LINE_LIMIT_BYTES and self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        """See to the end of the process."""
        self._reaping.set_result(asyncio.get_running_loop().create_task(self._reap()))

    async def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, self._process.wait, _END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await loop.run_in_executor(None, self._process.wait)
        self._on_end(self._process.pid, self._process.returncode)


def _start(module: str, order: bytes, connection: socket.socket) -> subprocess.Popen[bytes]:
    """Start a process that finds the same modules as this one, whatever stands in the working directory.

    Raises:
        OSError: There are too many processes, or too little memory.
    """
    descriptor = connection.fileno()
    command = [sys.executable, "-P", "-m", module, order.decode(), str(descriptor)]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    # A process group of its own keeps Ctrl-C away. Not a session of its own: Linux (autogroup) lets niceness count
    # within a session alone.
    return subprocess.Popen(  # noqa: S603 -- our own program
        command, pass_fds=(descriptor,), stdin=subprocess.DEVNULL, process_group=0, env=variables
    )
