"""`Process`: a worker as the core sees it: a process with two sockets, one for the link and one to control it.

Owner: `Workers`. Invariants: it finds the same modules as the core, whatever stands in the working directory; whoever
kills the core ends it, too, since both sockets end; no terminal's signal reaches it. Not here: what it does
(`peers.workers.worker`), when it is started (`peers.workers.supervision`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

from peers.connections.connection import Connection
from peers.connections.tcp import TcpConversation
from peers.daemon.daemon import Daemon
from peers.workers.control import Control, Functions, wait_written

__all__ = ["Process"]

_END_S = 2.0
"""How long a process may take to end once it has closed its sockets, seconds."""


class Process:
    """One worker.

    Args:
        number: Of its place.

    Raises:
        OSError: It cannot be started: there are too many processes, or too little memory.
    """

    __slots__ = ("_control_socket", "_is_stopping", "_link", "_link_socket", "_popen", "control", "number")

    def __init__(self, number: int, functions: Functions) -> None:
        self.number = number
        with ExitStack() as stack:
            self._control_socket, their_control = socket.socketpair()
            stack.callback(self._control_socket.close)
            stack.callback(their_control.close)
            self._link_socket, their_link = socket.socketpair()
            stack.callback(self._link_socket.close)
            stack.callback(their_link.close)
            self._popen = _start(number, their_control.fileno(), their_link.fileno())
            stack.pop_all()
        their_control.close()
        their_link.close()
        self._link: Connection | None = None
        """What leads to it as a hub, from `link` on."""
        self._is_stopping = False
        """Whether it was told to stop: its link then ends before it does."""
        self.control = Control(functions)
        """What it may be asked."""

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._popen.pid

    async def connect(self) -> None:
        """Control it."""
        self._control_socket.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self.control, sock=self._control_socket)

    async def link(self, daemon: Daemon) -> None:
        """Let the core link with it, once it is there: the time for a handshake begins now."""
        self._link_socket.setblocking(False)
        self._link = link = await daemon.link(self._link_socket, f"unix:worker/{self.number}", dialled=False)
        if link.lost is not None:
            link.lost.add_done_callback(lambda _: self._end())

    @property
    def hub(self) -> bytes:
        """The id of the worker as a hub; empty while it is not linked."""
        conversation = self._link.conversation if self._link is not None else None
        return conversation.far_id if isinstance(conversation, TcpConversation) else b""

    async def wait_written(self) -> None:
        """Wait until nothing waits in the queue of its link."""
        if self._link is not None:
            await wait_written(self._link)

    def stop(self, left_s: float) -> None:
        """Let it stop, within so many seconds: it says when its link has what was published, and waits for `close`."""
        self._is_stopping = True
        self.control.tell("stop", left_s)

    def _end(self) -> None:
        """The link is gone: a worker that is not told to stop ends then, or hangs, and is killed."""
        if not self._is_stopping:
            self.control.close()

    def kill(self) -> None:
        """End it now, also if it is stopped."""
        self._popen.kill()

    async def wait_ended(self) -> str:
        """Wait until it has ended, which it must do soon after its sockets; say how."""
        await asyncio.wait([self.control.lost])
        if self._link is None:
            self._link_socket.close()
        loop = asyncio.get_running_loop()
        try:
            code = await loop.run_in_executor(None, self._popen.wait, _END_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        return f"killed by {_signal_name(-code)}" if code < 0 else f"exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _start(number: int, control: int, link: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "peers.workers.worker", str(number), str(control), str(link)]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    return subprocess.Popen(  # noqa: S603 -- our own program
        command, pass_fds=(control, link), stdin=subprocess.DEVNULL, start_new_session=True, env=variables
    )
