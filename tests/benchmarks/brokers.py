"""The brokers, and how clients of each spell what they send and get, by hand: no code of the hub is used for that.

A broker is started anew for each run, in a directory of its own, and ended with it; no service of the system is
touched. The generator knows topics as components and interests as topics or prefixes; a dialect makes of them what
people who use that broker would write. It talks only while connections are set up (blocking).
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from struct import Struct
from typing import Any, Literal, NamedTuple

import msgpack

WRITE_BYTES = 64 * 1024
"""What a publisher writes at once at full speed, bytes, which is the write buffer of a client library."""

SETUP_LIMIT_S = 20.0
"""A broker that is silent for so long during set-up is taken for broken."""

_U32, _U64 = Struct(">I"), Struct(">Q")


class WrongBytesError(Exception):
    """A message was lost, came twice, in the wrong order, or damaged."""


class Channel:
    """A connection while it is set up; it reads no further than asked."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SETUP_LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send = self.socket.sendall

    def receive(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            part = self.socket.recv(size_bytes - len(data))
            if not part:
                raise ConnectionError(f"the broker closed the connection; unread: {data!r}")
            data += part
        return data

    def receive_line(self) -> bytes:
        line = b""
        while not line.endswith(b"\r\n"):
            line += self.receive(1)
        return line

    def release(self) -> socket.socket:
        self.socket.setblocking(False)
        return self.socket


Role = Literal["publisher", "subscriber"]
Topic = tuple[str, ...]
"""The components of a topic."""


class Interest(NamedTuple):
    topic: Topic
    below: bool = False
    """Whether it is all topics with further components below this one, not this one itself."""


class Dialect:
    """What one broker's clients say."""

    unit_messages = 1
    """How many messages one frame has; more than 1 only for a protocol that has batches."""

    def __init__(self, port: int) -> None:
        self._port = port

    def connect(self, role: Role) -> Channel:
        """Open a connection and shake hands."""
        raise NotImplementedError

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        """Subscribe, and return when the broker has done so."""
        raise NotImplementedError

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Return what a publisher sends; `payloads` are `unit_messages` many."""
        raise NotImplementedError

    def delivery(self, topic: Topic, payloads: Sequence[bytes], place: int) -> bytes:  # noqa: ARG002
        """Return what a subscriber then gets; `place` is that of its interest."""
        return self.publication(topic, payloads)

    def control_bytes(self, data: bytes) -> int:  # noqa: ARG002
        """Return how long what stands at the start of `data` is, which may stand between messages.

        0: more must come to know; -1: it may not stand there.
        """
        return -1


_HEADER = Struct(">IBBH")
_HELLO, _MESSAGES, _SUBSCRIBE, _PING, _NOTICE = 1, 2, 3, 7, 9


def _hub_name(topic: Topic, *, below: bool = False) -> str:
    return "/" + "/".join(topic) + ("/" if below else "")


def _pack(value: object) -> bytes:
    data: bytes = msgpack.packb(value)
    return data


def _frame(kind: int, body: bytes, key: bytes = b"", flags: int = 0) -> bytes:
    return _HEADER.pack(len(body), kind, flags, len(key)) + key + body


class HubDialect(Dialect):
    _queue_wish = {"messages": 200_000}  # noqa: RUF012 -- room for the window of any workload

    def __init__(self, port: int, batched_bytes: int = 0) -> None:
        super().__init__(port)
        self.unit_messages = WRITE_BYTES // len(_pack(bytes(batched_bytes))) if batched_bytes else 1

    def connect(self, role: Role) -> Channel:
        channel = Channel(self._port)
        about = {"protocol": 1, "role": "client", "name": f"bench {role}", "software": "bench"}
        channel.send(_frame(_HELLO, _pack(about | {"queue": self._queue_wish})))
        self._expect(channel, _HELLO)
        return channel

    def _expect(self, channel: Channel, expected: int) -> Any:
        length, kind, _, key_length = _HEADER.unpack(channel.receive(_HEADER.size))
        body = msgpack.unpackb(channel.receive(key_length + length)[key_length:])
        if kind != expected:
            raise ConnectionError(f"kind {expected} expected: kind {kind}, {body!r}")
        return body

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        channel.send(_frame(_SUBSCRIBE, _pack([1, [_hub_name(one.topic, below=one.below) for one in interests]])))
        if (notice := self._expect(channel, _NOTICE)).get("kind") != "confirmed":
            raise ConnectionError(f"not subscribed: {notice!r}")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        body = b"".join(_pack(payload) for payload in payloads)
        if self.unit_messages > 1:
            return _frame(_MESSAGES, _U32.pack(len(payloads)) + body, _hub_name(topic).encode(), flags=1)
        return _frame(_MESSAGES, body, _hub_name(topic).encode())

    def control_bytes(self, data: bytes) -> int:
        if len(data) < _HEADER.size:
            return 0
        length, kind, _, key_length = _HEADER.unpack_from(data)
        return _HEADER.size + length + key_length if kind == _PING else -1


class NatsDialect(Dialect):
    _control = (b"PING\r\n", b"PONG\r\n", b"INFO ")
    _first_id = 1000
    """Ids begin here, so that all of a connection are equally long."""

    def connect(self, role: Role) -> Channel:  # noqa: ARG002
        channel = Channel(self._port)
        channel.receive_line()
        channel.send(b'CONNECT {"verbose":false,"pedantic":false,"lang":"bench","version":"1","protocol":1}\r\n')
        self._wait(channel)
        return channel

    def _wait(self, channel: Channel) -> None:
        channel.send(b"PING\r\n")
        while (line := channel.receive_line()) != b"PONG\r\n":
            if not line.startswith(self._control):
                raise ConnectionError(f"PONG expected: {line!r}")

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        for number, one in enumerate(interests, self._first_id):
            channel.send(b"SUB %b %d\r\n" % (_subject(one.topic) + (b".>" if one.below else b""), number))
        self._wait(channel)

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        (payload,) = payloads
        return b"PUB %b %d\r\n%b\r\n" % (_subject(topic), len(payload), payload)

    def delivery(self, topic: Topic, payloads: Sequence[bytes], place: int) -> bytes:
        (payload,) = payloads
        return b"MSG %b %d %d\r\n%b\r\n" % (_subject(topic), self._first_id + place, len(payload), payload)

    def control_bytes(self, data: bytes) -> int:
        if not any(data.startswith(word) or word.startswith(data) for word in self._control):
            return -1
        return data.find(b"\r\n") + 2 if b"\r\n" in data else 0


def _subject(topic: Topic) -> bytes:
    return ".".join(topic).encode()


class ZeromqDialect(Dialect):
    """ZMTP to a proxy of XSUB and XPUB; a publisher beside it sees when a subscription has passed through."""

    _greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)

    def __init__(self, port: int, subscriber_port: int) -> None:
        super().__init__(port)
        self._subscriber_port = subscriber_port
        self._witness = self.connect("publisher")

    def connect(self, role: Role) -> Channel:
        publishes = role == "publisher"
        channel = Channel(self._port if publishes else self._subscriber_port)
        channel.send(self._greeting)
        channel.receive(len(self._greeting))
        channel.send(_zmtp(b"\x05READY\x0bSocket-Type\0\0\0\x03" + (b"PUB" if publishes else b"SUB"), flags=4))
        self._receive(channel, 4)
        return channel

    def _receive(self, channel: Channel, expected: int) -> bytes:
        flags = channel.receive(1)[0]
        length = _U64.unpack(channel.receive(8))[0] if flags & 2 else channel.receive(1)[0]
        body = channel.receive(length)
        if flags & ~2 != expected:
            raise ConnectionError(f"flags {expected} expected: {flags} {body!r}")
        return body

    def subscribe(self, channel: Channel, interests: Sequence[Interest]) -> None:
        prefixes = [b"\x01" + "/".join(one.topic).encode() + (b"/" if one.below else b"\0") for one in interests]
        channel.send(b"".join(map(_zmtp, prefixes)))
        for prefix in prefixes:
            if (passed := self._receive(self._witness, 0)) != prefix:
                raise ConnectionError(f"the proxy passed {passed!r} on, not {prefix!r}")

    def publication(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        return _zmtp("/".join(topic).encode() + b"\0" + b"".join(payloads))


def _zmtp(body: bytes, flags: int = 0) -> bytes:
    if len(body) < 256:
        return bytes((flags, len(body))) + body
    return bytes((flags | 2,)) + _U64.pack(len(body)) + body


OURS, OURS_BATCHED = "hub", "hub-batch"
BEFORE = "hub-before"
"""The hub of another checkout, beside which this one is measured."""


def dialect_of(name: str, ports: Sequence[int], size_bytes: int) -> Dialect:
    if name == "zeromq":
        return ZeromqDialect(*ports)
    if name == "nats":
        return NatsDialect(ports[0])
    return HubDialect(ports[0], batched_bytes=size_bytes if name == OURS_BATCHED else 0)


START_LIMIT_S = 15.0
STOP_LIMIT_S = 5.0
_TOLD_BYTES = 2000


class BrokerError(Exception):
    """A broker cannot be started."""


@dataclass(frozen=True, slots=True)
class Broker:
    name: str
    version: Callable[[], str]
    """Its version, empty if it is not installed."""
    command: Callable[[list[int]], list[str]]
    """How it is started, for these ports."""
    install: str = ""
    ports: int = 1
    """How many ports it has; the second one of the ZeroMQ proxy is for subscribers."""


@dataclass(frozen=True, slots=True)
class RunningBroker:
    ports: list[int]
    process: subprocess.Popen[bytes]
    log: Path

    def told(self) -> str:
        return self.log.read_bytes()[-_TOLD_BYTES:].decode("utf-8", "replace").strip()

    def wait(self) -> None:
        limit_s = time.monotonic() + START_LIMIT_S
        for port in self.ports:
            while True:
                with socket.socket() as attempt:
                    if attempt.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if self.process.poll() is not None or time.monotonic() > limit_s:
                    raise BrokerError(f"it does not listen: {self.told() or 'it says nothing'}")
                time.sleep(0.01)


@contextmanager
def running(broker: Broker, cpu: int | None) -> Iterator[RunningBroker]:
    with tempfile.TemporaryDirectory(prefix=f"bench-{broker.name}-") as directory:
        ports = _free_ports(broker.ports)
        command = broker.command(ports)
        if cpu is not None:
            command = ["taskset", "-c", str(cpu), *command]  # becomes the broker: the process id is the same
        file = Path(directory, "log")
        with file.open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=directory
            )
        try:
            made = RunningBroker(ports, process, file)
            made.wait()
            yield made
        finally:
            process.terminate()
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _first_line(*command: str, cwd: Path | None = None) -> str:
    """Return the first line that a command writes, empty if there is no such command."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=cwd)
    except OSError:
        return ""
    return done.stdout.partition("\n")[0].strip()


_ROOT = Path(__file__).resolve().parents[2]
_PROBE = (
    "from peers.bench.report import Environment as E; e = E.here(); print(e.topichub, e.hot_loop, e.loop, sep=', ')"
)


def hub(name: str = OURS, root: Path = _ROOT) -> Broker:
    """Return the hub of a checkout."""

    def version() -> str:
        probe = _first_line(sys.executable, "-c", _PROBE, cwd=root)
        return f"{probe}, {_first_line('git', '-C', str(root), 'describe', '--always', '--dirty')}"

    def command(ports: list[int]) -> list[str]:
        start = f"import sys; sys.path.insert(0, {str(root)!r}); from peers.cli import main; main()"
        return [sys.executable, "-c", start, "run", f"--listen=tcp://127.0.0.1:{ports[0]}", "--log-level=warning"]

    return Broker(name, version, command)


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

BROKERS = (
    hub(),
    Broker(
        "nats",
        lambda: _first_line("nats-server", "--version").removeprefix("nats-server: "),
        lambda ports: ["nats-server", "--addr", "127.0.0.1", "--port", str(ports[0])],
        "apt-get install --no-install-recommends nats-server",
    ),
    Broker(
        "zeromq",
        lambda: _first_line(sys.executable, "-c", _ZMQ_VERSION) if find_spec("zmq") else "",
        lambda ports: [sys.executable, "-c", _PROXY, *map(str, ports)],
        "pip install pyzmq",
        ports=2,
    ),
)
