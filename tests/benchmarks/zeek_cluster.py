"""What the hub costs as the central broker of a Zeek cluster over ZeroMQ, beside libzmq's own proxy.

    python tests/benchmarks/zeek_cluster.py [--messages 300000] [--repeat 3]

Either broker is a process of its own; what loads it is this one, with sockets and bytes that were made before. Messages
have 4 parts and 100 bytes of payload. Each row says what the broker's process took of a CPU for a message that was
published: medians of runs in turn. A stuck subscriber has asked for everything, and reads nothing.
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
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from peers.values import Count
from peers.values.event import Event
from peers.zeek.zmtp.frames import Command, encode_command, encode_message
from peers.zeek.zmtp.greeting import GREETING_BYTES, Greeting
from peers.zeek.zmtp.properties import encode_properties
from peers.zeek.zmtp.session import encode_subscription

_PROXY = """
import sys, zmq
context = zmq.Context()
front, back = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
back.setsockopt(zmq.XPUB_VERBOSER, 1)
back.setsockopt(zmq.XPUB_NODROP, 0 if sys.argv[1] == "drops" else 1)
print(back.bind_to_random_port("tcp://127.0.0.1"), front.bind_to_random_port("tcp://127.0.0.1"), flush=True)
zmq.proxy(front, back)
"""
_TOPIC = b"zeek.cluster.worker"
_PIECE_BYTES = 256 * 1024
_PAYLOAD_BYTES = 100
_STALLED_S = 5.0


class Broker(NamedTuple):
    """A running broker."""

    process: subprocess.Popen[str]
    xpub: int
    xsub: int

    @property
    def cpu_s(self) -> float:
        """CPU time of its process so far, all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


def start_proxy(how: str = "waits") -> Broker:
    """Start libzmq's proxy as Zeek does; it may drop what a subscriber does not read, which Zeek does not ask for."""
    process = subprocess.Popen([sys.executable, "-c", _PROXY, how], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    xpub, xsub = process.stdout.readline().split()
    return Broker(process, int(xpub), int(xsub))


def start_hub() -> Broker:
    """Start the hub."""
    xpub, xsub = _free_port(), _free_port()
    url = f"zeek+zmq://127.0.0.1:{xpub}?xsub={xsub}"
    command = [sys.executable, "-m", "peers.cli", "run", "--listen", url, "--log-level", "error"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, text=True)
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s:
        try:
            socket.create_connection(("127.0.0.1", xsub)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return Broker(process, xpub, xsub)
    raise TimeoutError("the hub does not listen")


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def dial(port: int, kind: str) -> socket.socket:
    """Connect and shake hands; the far side's READY is read."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ready = encode_command(Command(b"READY", encode_properties({"Socket-Type": kind.encode()})))
    sock.sendall(Greeting("NULL").encode() + ready)
    _receive(sock, GREETING_BYTES)
    head = _receive(sock, 2)
    _receive(sock, head[1])
    return sock


def _receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += sock.recv(size - len(data))
    return data


def measure(broker: Broker, messages: int, subscribers: int, *, stuck: bool) -> tuple[float, float]:
    """Return µs of the broker's CPU a message, and the part of the messages that readers got."""
    padding = "x" * (_PAYLOAD_BYTES - len(Event("Bench::event", Count(1), "").encode()))
    event = Event("Bench::event", Count(1), padding).encode()
    one = encode_message([_TOPIC, b"zeromq_worker-1_host_4242_Nabc", b"broker-bin-v1", event])
    readers = [dial(broker.xpub, "XSUB") for _ in range(subscribers)]
    held = [dial(broker.xpub, "XSUB")] if stuck else []
    for sock in (*readers, *held):
        sock.sendall(encode_subscription(b"zeek.", is_wanted=True))
    time.sleep(0.3)
    sender = dial(broker.xsub, "XPUB")
    _receive(sender, len(encode_subscription(b"zeek.", is_wanted=True)))
    for sock in (sender, *readers):
        sock.setblocking(False)
    before_s = broker.cpu_s
    got = _exchange(sender, readers, one * messages)
    spent_s = broker.cpu_s - before_s
    for sock in (sender, *readers, *held):
        sock.close()
    return spent_s / messages * 1e6, sum(got) / (subscribers * messages * len(one))


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
    given = parser.parse_args()
    brokers: dict[str, Callable[[], Broker]] = {
        "hub": start_hub,
        "libzmq's proxy": start_proxy,
        "libzmq's proxy, drops": lambda: start_proxy("drops"),
    }
    table = Table("broker", "subscribers", "µs CPU a message", "lowest to highest", "got", title="central broker")
    for subscribers, stuck in ((1, False), (4, False), (4, True)):
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in brokers}
        for _ in range(given.repeat):
            for name, start in brokers.items():
                broker = start()
                try:
                    found[name].append(measure(broker, given.messages, subscribers, stuck=stuck))
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
