"""What the hub costs as the central broker of a Zeek cluster over ZeroMQ, beside libzmq's own proxy.

    python tests/benchmarks/zeek_cluster.py [--messages 300000] [--repeat 3] [--curve]

Either broker is a process of its own; what loads it is this one, with sockets and bytes that were made before. Messages
have 4 parts and 100 bytes of payload. Each row says what the broker's process took of a CPU for a message that was
published: medians of runs in turn. A stuck subscriber has asked for everything, and reads nothing. With `--curve` all
is encrypted, by keys that are made for it; who loads the broker has sealed everything before.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from peers.users.curve_keys import write_public, write_secret
from peers.values import Count
from peers.values.event import Event
from peers.wire.scanner import NEED_DATA
from peers.zeek.zmtp.curve.client import CurveClient
from peers.zeek.zmtp.curve.key_pair import KeyPair
from peers.zeek.zmtp.curve.z85 import encode_key
from peers.zeek.zmtp.frames import encode_message
from peers.zeek.zmtp.mechanism import NULL
from peers.zeek.zmtp.session import Ready, Session, SocketType, Subscribed, encode_subscription

_PROXY = """
import os, sys, zmq
context = zmq.Context()
front, back = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
back.setsockopt(zmq.XPUB_VERBOSER, 1)
back.setsockopt(zmq.XPUB_NODROP, 0 if sys.argv[1] == "drops" else 1)
if secret := os.environ.get("CURVE_SECRET"):
    for one in (front, back):
        one.curve_server, one.curve_secretkey = True, secret.encode()
print(back.bind_to_random_port("tcp://127.0.0.1"), front.bind_to_random_port("tcp://127.0.0.1"), flush=True)
zmq.proxy(front, back)
"""
_TOPIC = b"zeek.cluster.worker"
_PIECE_BYTES = 256 * 1024
_PAYLOAD_BYTES = 100
_STALLED_S = 5.0


class Keys(NamedTuple):
    """Of the broker, and of all who dial it."""

    folder: Path
    """Where they stand in files."""
    server: KeyPair
    client: KeyPair

    @classmethod
    def new(cls, folder: Path) -> Keys:
        """Make them."""
        keys = cls(folder, KeyPair.new(), KeyPair.new())
        write_secret(folder / "broker", keys.server.secret)
        write_public(folder / "nodes", keys.client.public)
        return keys


class Broker(NamedTuple):
    """A running broker."""

    process: subprocess.Popen[str]
    xpub: int
    xsub: int
    keys: Keys | None
    """With which all is encrypted; None for nothing."""

    @property
    def cpu_s(self) -> float:
        """CPU time of its process so far, all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


def start_proxy(keys: Keys | None, how: str = "waits") -> Broker:
    """Start libzmq's proxy as Zeek does; it may drop what a subscriber does not read, which Zeek does not ask for."""
    secret = {} if keys is None else {"CURVE_SECRET": encode_key(keys.server.secret)}
    command = [sys.executable, "-c", _PROXY, how]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | secret)
    assert process.stdout is not None
    xpub, xsub = process.stdout.readline().split()
    return Broker(process, int(xpub), int(xsub), keys)


def start_hub(keys: Keys | None) -> Broker:
    """Start the hub."""
    xpub, xsub = _free_port(), _free_port()
    url = f"zeek+zmq://127.0.0.1:{xpub}?xsub={xsub}"
    command = [sys.executable, "-m", "peers.cli", "run", "--listen", url, "--log-level", "error"]
    if keys is not None:
        command += ["--zeek-curve-key", str(keys.folder / "broker"), "--zeek-curve-clients", str(keys.folder / "nodes")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, text=True)
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s:
        try:
            socket.create_connection(("127.0.0.1", xsub)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return Broker(process, xpub, xsub, keys)
    raise TimeoutError("the hub does not listen")


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class Node(NamedTuple):
    """One socket of what loads a broker."""

    sock: socket.socket
    session: Session

    def wait_for(self, event: type) -> None:
        """Say what there is to say, and read, until the broker has said something."""
        while True:
            while (found := self.session.next_event()) is not NEED_DATA:
                if isinstance(found, event):
                    self.sock.sendall(self.session.take_outgoing())
                    return
            self.sock.sendall(self.session.take_outgoing())
            self.session.feed(self.sock.recv(_PIECE_BYTES))


def dial(broker: Broker, port: int, kind: SocketType) -> Node:
    """Connect and shake hands."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keys = broker.keys
    mechanism = NULL if keys is None else CurveClient(keys.client, keys.server.public)
    node = Node(sock, Session(kind, _PIECE_BYTES, mechanism=mechanism))
    node.wait_for(Ready)
    return node


def measure(broker: Broker, messages: int, subscribers: int, *, stuck: bool) -> tuple[float, float]:
    """Return µs of the broker's CPU a message, and the part of the messages that readers got."""
    padding = "x" * (_PAYLOAD_BYTES - len(Event("Bench::event", Count(1), "").encode()))
    event = Event("Bench::event", Count(1), padding).encode()
    one = encode_message([_TOPIC, b"zeromq_worker-1_host_4242_Nabc", b"broker-bin-v1", event])
    readers = [dial(broker, broker.xpub, SocketType.XSUB) for _ in range(subscribers)]
    held = [dial(broker, broker.xpub, SocketType.XSUB)] if stuck else []
    for node in (*readers, *held):
        node.sock.sendall(node.session.seal(encode_subscription(b"zeek.", is_wanted=True)))
    time.sleep(0.3)
    sender = dial(broker, broker.xsub, SocketType.XPUB)
    sender.wait_for(Subscribed)
    data = sender.session.seal(one * messages)
    for node in (sender, *readers):
        node.sock.setblocking(False)
    before_s = broker.cpu_s
    got = _exchange(sender.sock, [node.sock for node in readers], data)
    spent_s = broker.cpu_s - before_s
    for node in (sender, *readers, *held):
        node.sock.close()
    return spent_s / messages * 1e6, sum(got) / (subscribers * len(data))


def _exchange(sender: socket.socket, readers: list[socket.socket], data: bytes) -> list[int]:
    """Send everything, read everything; return how much each has read. Ends when nothing happens any more."""
    unsent, got = memoryview(data), dict.fromkeys(readers, 0)
    while unsent or min(got.values()) < len(data):
        reads, writes, _ = select.select(readers, [sender] if unsent else [], [], _STALLED_S)
        if not (reads or writes):
            break
        for sock in writes:
            unsent = unsent[sock.send(unsent[:_PIECE_BYTES]) :]
        for sock in reads:
            got[sock] += len(sock.recv(_PIECE_BYTES))
    return list(got.values())


def main() -> None:
    """Measure both in turn, and show it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--curve", action="store_true", help="encrypt everything")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        keys = Keys.new(Path(folder)) if given.curve else None
        _compare(keys, given.messages, given.repeat)


def _compare(keys: Keys | None, messages: int, repeat: int) -> None:
    brokers: dict[str, Callable[[], Broker]] = {
        "hub": lambda: start_hub(keys),
        "libzmq's proxy": lambda: start_proxy(keys),
        "libzmq's proxy, drops": lambda: start_proxy(keys, "drops"),
    }
    title = "central broker" if keys is None else "central broker, CURVE"
    table = Table("broker", "subscribers", "µs CPU a message", "lowest to highest", "got", title=title)
    for subscribers, stuck in ((1, False), (4, False), (4, True)):
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in brokers}
        for _ in range(repeat):
            for name, start in brokers.items():
                broker = start()
                try:
                    found[name].append(measure(broker, messages, subscribers, stuck=stuck))
                finally:
                    broker.stop()
        for name, runs in found.items():
            costs = [cost for cost, _ in runs]
            table.add_row(
                name,
                f"{subscribers}{' and a stuck one' if stuck else ''}",
                f"{statistics.median(costs):.2f}",
                f"{min(costs):.2f} to {max(costs):.2f}",
                f"{min(part for _, part in runs):.1%}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
