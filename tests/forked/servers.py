"""The servers of this process that fork others, one for commands of `hub`, one for `LAUNCHER`; `end` ends them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

PROJECT = Path(__file__).parents[2]

# Stands for `python` where others start many, such as Spark: `tests/forked/launcher.py`.
LAUNCHER = str(Path(__file__).parent / "python")


def python_path() -> dict[str, str]:
    """What a program that a test starts can import: this project, and nothing that the test itself does without."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))}


class Server:
    """A process that forks others (`tests.forked.server`); it can be asked before it is there."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(b"")  # the kernel names it; there is no file
        self._listener.listen()
        self.address: bytes = self._listener.getsockname()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def variables(self) -> dict[str, str]:
        return {"FORKED_PYTHON": sys.executable, "FORKED_SERVER": self.address[1:].decode()}

    def start(self, environment: Mapping[str, str]) -> None:
        with self._listener as listener:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked.server", str(listener.fileno()), self._kind],
                cwd=PROJECT,
                env=environment,
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
        _running.append(self)

    def close(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


_running: list[Server] = []  # Those of this process
_commands: list[Server] = []  # The one of commands, once it is needed
_elsewhere: list[bytes] = []  # Address of the one that this process was forked from, if it was
_starting = Lock()


def of_commands() -> Server:
    with _starting:
        if not _commands:
            server = Server("commands")
            server.start(os.environ)
            _commands.append(server)
        return _commands[0]


def ask_at(address: bytes) -> None:
    _elsewhere.append(address)


def address_of_commands() -> bytes:
    return _elsewhere[0] if _elsewhere else of_commands().address


def server_pids() -> set[int]:
    return {server.pid for server in _running}


def end() -> None:
    _commands.clear()
    while _running:
        _running.pop().close()


# Who has asked for a forked process: that is a child of the server's, whose command `/proc` shows.

_NAME = "of "  # How its name begins; behind it stands the id of who has asked, and the kernel keeps 15 bytes in all


def bear_name(asker: int) -> None:
    Path("/proc/self/comm").write_text(f"{_NAME}{asker}")


def asked_by(pid: int) -> int:
    try:
        name = Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return 0
    return int(name.removeprefix(_NAME)) if name.startswith(_NAME) else 0
