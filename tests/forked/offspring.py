"""Workers and readers of a forked hub are forked, too, which saves 0.1 to 0.4 s of imports each.

They are children of the server's, not of the hub: `servers.asked_by` says whose they are.
"""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from peers.journal import readers
from peers.workers import workers
from tests.forked import servers
from tests.forked.program import Program

__all__ = ["fork_offspring", "fork_reader"]


def fork_offspring(address: bytes) -> None:
    servers.ask_at(address)
    workers._start = _fork_worker  # type: ignore[assignment]
    readers.start_process = fork_reader


def _fork_worker(number: int, control: int, link: int) -> subprocess.Popen[bytes]:
    return _fork("peers.workers.worker", [str(number), str(control), str(link)], (control, link))


def fork_reader(module: str, *arguments: str, connection: socket.socket) -> subprocess.Popen[bytes]:
    descriptor = connection.fileno()
    return _fork(module, [*arguments, str(descriptor)], (descriptor,))


def _fork(module: str, arguments: list[str], descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
    return Program(
        *arguments,
        module=module,
        cwd=Path.cwd(),
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
