"""`Broker`: what the comparison must know of a broker. `RunningBroker`: one process of it, on its own ports and CPU.

A broker is started anew for each run, in a directory of its own, and ended with it. Nothing of it stays behind, and no
service of the system is touched.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

__all__ = ["Broker", "BrokerError", "Ports", "RunningBroker", "first_line"]

START_LIMIT_S = 15.0
STOP_LIMIT_S = 5.0
_LOOK_S = 0.01
_TOLD_BYTES = 2000

Ports = tuple[int, int]
"""The broker's main port, and its second one (WebSocket; for the ZeroMQ proxy: subscribers)."""


class BrokerError(Exception):
    """A broker cannot be started, or is not there."""


class Broker(Protocol):
    """A kind of broker."""

    name: str
    package: str
    """A package of Debian, or of PyPI if it begins with `pypi:`; empty for what is always there."""
    websocket: bool
    """Whether it has WebSocket clients."""

    def version(self) -> str:
        """Return its version, empty if it is not installed."""

    def command(self, ports: Ports, directory: Path) -> list[str]:
        """Return how it is started, after writing what it reads into `directory`."""


class RunningBroker:
    """One process, which is a context manager that ends it.

    Args:
        broker: What is started.
        cpu: The CPU that it is bound to; None for any.
    """

    def __init__(self, broker: Broker, cpu: int | None) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix=f"bench-{broker.name}-")
        directory = Path(self._directory.name)
        self._log = directory / "log"
        self.ports: Ports = _free_ports()
        command = broker.command(self.ports, directory)
        if cpu is not None:
            command = ["taskset", "-c", str(cpu), *command]  # becomes the broker: the process id is the same
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=directory
            )
        self.pid = self._process.pid
        self._wait(broker)

    def _wait(self, broker: Broker) -> None:
        """Wait until it listens."""
        limit_s = time.monotonic() + START_LIMIT_S
        waiting = list(self.ports if broker.websocket or broker.name == "zeromq" else self.ports[:1])
        while waiting:
            with socket.socket() as attempt:
                if attempt.connect_ex(("127.0.0.1", waiting[0])) == 0:
                    waiting.pop(0)
                    continue
            if self._process.poll() is not None or time.monotonic() > limit_s:
                told = self.told()
                self.stop()
                raise BrokerError(f"{broker.name} does not listen: {told or 'it says nothing'}")
            time.sleep(_LOOK_S)

    def told(self) -> str:
        """Return the end of what it has written."""
        return self._log.read_bytes()[-_TOLD_BYTES:].decode("utf-8", "replace").strip()

    def stop(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._directory.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _free_ports() -> Ports:
    """Return two ports that nobody listens on now."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def first_line(*command: str) -> str:
    """Return the first line that a command writes, empty if there is no such command."""
    search = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**os.environ, "PATH": search},
        )
    except OSError:
        return ""
    return done.stdout.partition("\n")[0].strip()
