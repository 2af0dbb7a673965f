"""The brokers: how each is found, configured and started. `BROKERS` lists them, ours first.

A broker is started anew for each run, in a directory of its own, and ended with it; no service of the system is
touched. The last one, the relay, is no broker: it shows what the kernel alone costs.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

OURS = "hub"
BEFORE = "hub-before"
"""The hub of another checkout, beside which this one is measured."""
FLOOR = "relay"
"""The relay is no broker: see `brokers.relay`."""

START_LIMIT_S = 15.0
STOP_LIMIT_S = 5.0
_LOOK_S = 0.01
_TOLD_BYTES = 2000

Ports = tuple[int, int]
"""The broker's main port, and its second one (WebSocket; for the ZeroMQ proxy: subscribers)."""


class BrokerError(Exception):
    """A broker cannot be started, or is not there."""


class Broker(Protocol):
    name: str
    install: str
    """How it is installed; empty for what is always there."""
    websocket: bool
    """Whether it has WebSocket clients."""

    def version(self) -> str:
        """Return its version, empty if it is not installed."""

    def command(self, ports: Ports, directory: Path) -> list[str]:
        """Return how it is started, after writing what it reads into `directory`."""


class RunningBroker:
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
        return self._log.read_bytes()[-_TOLD_BYTES:].decode("utf-8", "replace").strip()

    def stop(self) -> None:
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


_ROOT = Path(__file__).resolve().parents[2]
_PROBE = """
from importlib.util import find_spec
import hub
twin = "compiled scanner" if find_spec("hub._runs") else "pure Python"
loop = "uvloop" if find_spec("uvloop") else "asyncio's loop"
print(hub.__version__, "with", twin, "and", loop)
"""


class Hub:
    install = ""
    websocket = True

    def __init__(self, name: str = "hub", root: Path = _ROOT) -> None:
        self.name = name
        self._root = root

    def version(self) -> str:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, check=True, cwd=self._root
        ).stdout.strip()
        commit = first_line("git", "-C", str(self._root), "describe", "--always", "--dirty")
        return f"{probe}, {commit}"

    def command(self, ports: Ports, directory: Path) -> list[str]:  # noqa: ARG002 -- it reads no file
        start = f"import sys; sys.path.insert(0, {str(self._root)!r}); from peers.cli import main; main()"
        listen = [f"--listen={scheme}://127.0.0.1:{port}" for scheme, port in zip(("tcp", "ws"), ports, strict=True)]
        return [sys.executable, "-c", start, "run", *listen, "--log-level=warning"]


_MOSQUITTO = """
user root
per_listener_settings false
allow_anonymous true
persistence false
log_type none
sys_interval 0
max_queued_messages 0
set_tcp_nodelay true
listener {port} 127.0.0.1
listener {websocket_port} 127.0.0.1
protocol websockets
"""


class Mosquitto:
    name = "mosquitto"
    install = "apt-get install --no-install-recommends mosquitto"
    websocket = True

    def version(self) -> str:
        line = first_line("mosquitto", "-h")
        return line.removeprefix("mosquitto version ") if line.startswith("mosquitto version") else ""

    def command(self, ports: Ports, directory: Path) -> list[str]:
        file = directory / "mosquitto.conf"
        file.write_text(_MOSQUITTO.format(port=ports[0], websocket_port=ports[1]))
        return ["mosquitto", "-c", str(file)]


_NATS = """
listen: "127.0.0.1:{port}"
websocket {{ listen: "127.0.0.1:{websocket_port}", no_tls: true, compression: false }}
"""


class Nats:
    name = "nats"
    install = "apt-get install --no-install-recommends nats-server"
    websocket = True

    def version(self) -> str:
        return first_line("nats-server", "--version").removeprefix("nats-server: ")

    def command(self, ports: Ports, directory: Path) -> list[str]:
        file = directory / "nats.conf"
        file.write_text(_NATS.format(port=ports[0], websocket_port=ports[1]))
        return ["nats-server", "-c", str(file)]


class Redis:
    name = "redis"
    install = "apt-get install --no-install-recommends redis-server"
    websocket = False

    def version(self) -> str:
        words = first_line("redis-server", "--version").split()
        return next((word.removeprefix("v=") for word in words if word.startswith("v=")), "")

    def command(self, ports: Ports, directory: Path) -> list[str]:
        options = ["--save", "", "--client-output-buffer-limit", "pubsub 0 0 0", "--dir", str(directory)]
        return ["redis-server", "--bind", "127.0.0.1", "--port", str(ports[0]), *options]


_RELAY = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=16)
ends = {}
while len(ends) < 2:
    connection = listener.accept()[0]
    role = connection.recv(1)
    if role:  # else somebody only looked whether the port is open
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.send(role)
        ends[role] = connection
buffer = memoryview(bytearray(256 * 1024))
source, target = ends[b"P"], ends[b"S"]
while size := source.recv_into(buffer):
    target.sendall(buffer[:size])
"""


class Relay:
    name = "relay"
    install = ""
    websocket = False

    def version(self) -> str:
        return f"Python {sys.version.partition(' ')[0]}, recv and send"

    def command(self, ports: Ports, directory: Path) -> list[str]:  # noqa: ARG002 -- it reads no file
        return [sys.executable, "-c", _RELAY, str(ports[0])]


_PROXY = """
import sys, zmq
context = zmq.Context(io_threads=1)
context.set(zmq.MAX_SOCKETS, 20000)
frontend, backend = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
for socket in (frontend, backend):
    socket.set_hwm(0)
    socket.setsockopt(zmq.BACKLOG, 4096)
backend.setsockopt(zmq.XPUB_VERBOSE, 1)
frontend.bind(f"tcp://127.0.0.1:{sys.argv[1]}")
backend.bind(f"tcp://127.0.0.1:{sys.argv[2]}")
zmq.proxy(frontend, backend)
"""
_VERSION = "import zmq; print(f'libzmq {zmq.zmq_version()}, pyzmq {zmq.__version__}')"


class Zeromq:
    name = "zeromq"
    install = "pip install pyzmq"
    websocket = False

    def version(self) -> str:
        return first_line(sys.executable, "-c", _VERSION) if find_spec("zmq") else ""

    def command(self, ports: Ports, directory: Path) -> list[str]:  # noqa: ARG002 -- it reads no file
        return [sys.executable, "-c", _PROXY, str(ports[0]), str(ports[1])]


BROKERS: tuple[Broker, ...] = (Hub(), Nats(), Zeromq(), Redis(), Mosquitto(), Relay())
