"""What Zeeks cost the hub: forwarding between two Broker endpoints, and a Zeek event to browsers.

    python tests/benchmarks/zeek.py [--repeat 3] [--seconds 2]

The hub runs on the first CPU, this on the second one. Every byte that comes is compared with what was due. CPU is what
the operating system has charged to the hub, from the first message sent to the last one received.
"""

from __future__ import annotations

import argparse
import base64
import os
import select
import socket
import sys
import time
from pathlib import Path
from statistics import median

from brokers.broker import Ports, RunningBroker
from brokers.hub import Hub
from generators.websocket import encode_frame, frame_head
from measure import placement
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from peers.bench.usage import read_usage
from peers.values import Count, Timestamp, encode, encode_message
from peers.values.event import Event
from peers.zeek.broker.envelope import Envelope, EnvelopeType, encode_envelope
from peers.zeek.broker.handshake_messages import (
    LENGTH,
    NIL_ID,
    Hello,
    VersionSelect,
    decode_message,
    encode_hello,
    encode_originator_ack,
    encode_originator_syn,
    encode_responder_syn_ack,
    encode_version_select,
)

TOPIC = "/bench/stream"
_STEP_BYTES = 64 * 1024
_WINDOW_BYTES = 512 * 1024
_CLIENTS = 100
_KEY = base64.b64encode(bytes(16)).decode()


class ZeekHub(Hub):
    """The hub, listening for Zeeks on its first port; it asks them for all of `/bench/`."""

    def command(self, ports: Ports, directory: Path) -> list[str]:
        """Start it with both listeners."""
        start = super().command(ports, directory)
        listen = [f"--listen=zeek+tcp://127.0.0.1:{ports[0]}", f"--listen=ws://127.0.0.1:{ports[1]}"]
        return [*start[: start.index("run") + 1], *listen, "--zeek-topics=/bench/", "--log-level=error"]


class Endpoint:
    """A Broker endpoint, peered with the hub."""

    def __init__(self, port: int, own_id: bytes, *prefixes: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(encode_hello(own_id))
        self._frame()  # the probe
        first = decode_message(self._frame(), 100)
        if isinstance(first, Hello):
            self.hub_id = first.sender
            self.socket.sendall(encode_version_select(own_id) + encode_originator_syn(prefixes))
            self._frame()
            self.socket.sendall(encode_originator_ack())
        elif isinstance(first, VersionSelect):
            self.hub_id = first.sender
            self._frame()
            self.socket.sendall(encode_responder_syn_ack(prefixes))
            self._frame()
        self.socket.setblocking(False)

    def _frame(self) -> bytes:
        size = LENGTH.unpack(self._exactly(LENGTH.size))[0]
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.socket.recv(size - len(data))
        return data


def forwarding(port: int, pid: int, seconds: float) -> tuple[float, int]:
    """Flood from one endpoint to another; return µs of hub CPU a message, and the messages."""
    ids = bytes.fromhex("11" * 16), bytes.fromhex("22" * 16)
    source, target = Endpoint(port, ids[0]), Endpoint(port, ids[1], "/bench/")
    payload = encode("x" * 98)  # tag and length in front: 100 bytes
    sent_one = encode_envelope(Envelope(ids[0], NIL_ID, EnvelopeType.DATA, TOPIC.encode(), payload))
    due_one = encode_envelope(Envelope(target.hub_id, NIL_ID, EnvelopeType.DATA, TOPIC.encode(), payload))
    count = _STEP_BYTES // len(sent_one)
    chunk, due = memoryview(sent_one * count), due_one * (2 * count)
    size = len(sent_one)
    poll = select.epoll()
    poll.register(source.socket, select.EPOLLOUT)
    poll.register(target.socket, select.EPOLLIN)
    before = read_usage(pid).cpu_ns
    sent = got = 0
    left = chunk[:0]
    end_s = time.perf_counter() + seconds
    while True:
        publishing = time.perf_counter() < end_s
        if not left and publishing and sent - got < _WINDOW_BYTES:
            left = chunk
        if left:
            try:
                written = source.socket.send(left)
            except BlockingIOError:
                written = 0
            sent += written
            left = left[written:]
        elif not publishing and got == sent:
            break
        try:
            data = target.socket.recv(2 * _WINDOW_BYTES)
        except BlockingIOError:
            poll.poll(0.001)
            continue
        for first in range(0, len(data), len(due) // 2):
            part = data[first : first + len(due) // 2]
            at = (got + first) % size
            if part != due[at : at + len(part)]:
                raise SystemExit("what came is not what was sent")
        got += len(data)
    messages = sent // size
    return (read_usage(pid).cpu_ns - before) / messages / 1e3, messages


def events(ports: Ports, pid: int, seconds: float) -> tuple[float, int]:
    """Send a 10-field event to so many browsers, one at a time; return µs of hub CPU a delivery, and the deliveries."""
    clients = [_browser(ports[1]) for _ in range(_CLIENTS)]
    source = Endpoint(ports[0], bytes.fromhex("11" * 16))
    source.socket.setblocking(True)
    event = Event("Bench::ten", *("text", Count(3), -3, 1.5, True, None, ("a",), {"k": 1}, Timestamp(0), b"bytes"))
    body = event.encode()
    envelope = encode_envelope(Envelope(bytes.fromhex("11" * 16), NIL_ID, EnvelopeType.DATA, TOPIC.encode(), body))
    text = encode_message(TOPIC.encode(), body)
    before = read_usage(pid).cpu_ns
    sent = 0
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        source.socket.sendall(envelope)
        sent += 1
        for client in clients:
            if _message(client) != text:
                raise SystemExit("what came is not what was sent")
    return (read_usage(pid).cpu_ns - before) / sent / _CLIENTS / 1e3, sent * _CLIENTS


def _browser(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(
        f"GET /v1/messages/json HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {_KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    while not client.recv(65536, socket.MSG_PEEK).endswith(b"\r\n\r\n"):
        pass
    client.recv(65536)
    client.sendall(encode_frame(1, b'["/bench/"]'))
    _message(client)  # the ack
    return client


def _message(client: socket.socket) -> bytes:
    data = b""
    while (head := frame_head(data)) is None or len(data) < head.head_bytes + head.payload_bytes:
        data += client.recv(65536)
    return data[head.head_bytes :]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=3, metavar="N")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S")
    given = parser.parse_args()
    place = placement()
    figures: dict[str, list[float]] = {}
    for _ in range(given.repeat):
        with RunningBroker(ZeekHub(), place.server) as hub:
            if place.generator is not None:
                os.sched_setaffinity(0, {place.generator})
            forwarding(hub.ports[0], hub.pid, 0.3)
            name = "forwarding between two endpoints, 100 bytes, one topic, µs of hub CPU a message"
            figures.setdefault(name, []).append(forwarding(hub.ports[0], hub.pid, given.seconds)[0])
        with RunningBroker(ZeekHub(), place.server) as hub:
            name = f"an event of 10 fields to {_CLIENTS} browsers as Zeek's JSON, one by one, µs of hub CPU a delivery"
            figures.setdefault(name, []).append(events(hub.ports, hub.pid, given.seconds)[0])
    table = Table("figure", "median", "lowest to highest")
    for name, values in figures.items():
        table.add_row(name, f"{median(values):.3f}", f"{min(values):.3f} to {max(values):.3f}")
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
