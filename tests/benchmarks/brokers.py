"""The brokers: how each is found, configured and started. `BROKERS` lists them, ours first.

A broker is started anew for each run, in a directory of its own, and ended with it; no service of the system is
touched.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

OURS = "hub"
BEFORE = "hub-before"
"""The hub of another checkout, beside which this one is measured."""

START_LIMIT_S = 15.0
STOP_LIMIT_S = 5.0
_TOLD_BYTES = 2000

Ports = tuple[int, int]
"""The broker's main port, and its second one (WebSocket; for the ZeroMQ proxy: subscribers)."""


class BrokerError(Exception):
    """A broker cannot be started."""


@dataclass(frozen=True, slots=True)
class Broker:
    name: str
    version: Callable[[], str]
    """Its version, empty if it is not installed."""
    command: Callable[[Ports, Path], list[str]]
    """How it is started, after writing what it reads into the directory."""
    install: str = ""
    ports: int = 1
    """How many of its ports listen."""


@dataclass(frozen=True, slots=True)
class RunningBroker:
    ports: Ports
    pid: int
    log: Path

    def told(self) -> str:
        return self.log.read_bytes()[-_TOLD_BYTES:].decode("utf-8", "replace").strip()


@contextmanager
def running(broker: Broker, cpu: int | None) -> Iterator[RunningBroker]:
    with tempfile.TemporaryDirectory(prefix=f"bench-{broker.name}-") as name:
        directory = Path(name)
        ports = _free_ports()
        command = broker.command(ports, directory)
        if cpu is not None:
            command = ["taskset", "-c", str(cpu), *command]  # becomes the broker: the process id is the same
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=directory
            )
        try:
            made = RunningBroker(ports, process.pid, directory / "log")
            _wait(broker, made, process)
            yield made
        finally:
            process.terminate()
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(broker: Broker, made: RunningBroker, process: subprocess.Popen[bytes]) -> None:
    limit_s = time.monotonic() + START_LIMIT_S
    for port in made.ports[: broker.ports]:
        while True:
            with socket.socket() as attempt:
                if attempt.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > limit_s:
                raise BrokerError(f"{broker.name} does not listen: {made.told() or 'it says nothing'}")
            time.sleep(0.01)


def _free_ports() -> Ports:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def _first_line(*command: str) -> str:
    """Return the first line that a command writes, empty if there is no such command."""
    env = os.environ | {"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"}
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=env
        )
    except OSError:
        return ""
    return done.stdout.partition("\n")[0].strip()


_ROOT = Path(__file__).resolve().parents[2]
_PROBE = """
from importlib.util import find_spec
from pathlib import Path
import hub
twin = "compiled scanner" if any(Path(hub.__file__).parent.rglob("_runs.*.so")) else "pure Python"
loop = "uvloop" if find_spec("uvloop") else "asyncio's loop"
print(hub.__version__, "with", twin, "and", loop)
"""


def hub(name: str = OURS, root: Path = _ROOT) -> Broker:
    """Return the hub of a checkout."""

    def version() -> str:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, check=True, cwd=root
        ).stdout.strip()
        return f"{probe}, {_first_line('git', '-C', str(root), 'describe', '--always', '--dirty')}"

    def command(ports: Ports, _: Path) -> list[str]:
        start = f"import sys; sys.path.insert(0, {str(root)!r}); from peers.cli import main; main()"
        return [sys.executable, "-c", start, "run", f"--listen=tcp://127.0.0.1:{ports[0]}", "--log-level=warning"]

    return Broker(name, version, command)


def _configured(directory: Path, text: str, ports: Ports) -> str:
    file = directory / "broker.conf"
    file.write_text(text % ports[0])
    return str(file)


_MOSQUITTO = """
user root
per_listener_settings false
allow_anonymous true
persistence false
log_type none
sys_interval 0
max_queued_messages 0
set_tcp_nodelay true
listener %d 127.0.0.1
"""
_NATS = """
listen: "127.0.0.1:%d"
"""
_REDIS = ["redis-server", "--bind", "127.0.0.1", "--client-output-buffer-limit"]
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
_ZMQ_VERSION = "import zmq; print(f'libzmq {zmq.zmq_version()}, pyzmq {zmq.__version__}')"
_APT = "apt-get install --no-install-recommends "

BROKERS = (
    hub(),
    Broker(
        "nats",
        lambda: _first_line("nats-server", "--version").removeprefix("nats-server: "),
        lambda ports, directory: ["nats-server", "-c", _configured(directory, _NATS, ports)],
        _APT + "nats-server",
    ),
    Broker(
        "zeromq",
        lambda: _first_line(sys.executable, "-c", _ZMQ_VERSION) if find_spec("zmq") else "",
        lambda ports, _: [sys.executable, "-c", _PROXY, *map(str, ports)],
        "pip install pyzmq",
        ports=2,
    ),
    Broker(
        "redis",
        lambda: _first_line("redis-server", "--version").partition(" v=")[2].partition(" ")[0],
        lambda ports, directory: [
            *_REDIS,
            "pubsub 0 0 0",
            "--save",
            "",
            "--dir",
            str(directory),
            "--port",
            str(ports[0]),
        ],
        _APT + "redis-server",
    ),
    Broker(
        "mosquitto",
        lambda: _first_line("mosquitto", "-h").partition("mosquitto version ")[2],
        lambda ports, directory: ["mosquitto", "-c", _configured(directory, _MOSQUITTO, ports)],
        _APT + "mosquitto",
    ),
)
