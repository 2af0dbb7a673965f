"""What plain HTTP brings: publications, lines and events in a second, and a quiet pair beside many streams.

    python tests/benchmarks/plain_http.py [--seconds 3] [--streams 10000]

The hub is a process of its own; what loads it is this one, on sockets, with nothing read that it need not. Each row
says what the hub's process took of a CPU for a unit.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from peers.bench.running_hub import RunningHub
from peers.transport.endpoints import Endpoint

_HOST = "Host: 127.0.0.1\r\n"
_VALUE = b'{"n":%d,"text":"' + b"x" * 80 + b'"}'
_READ_BYTES = 1 << 20
_LINES = 100_000
_PUBLISHERS = 4


class Row(NamedTuple):
    """What was measured."""

    what: str
    units: float
    seconds: float
    cpu_s: float

    def cells(self) -> tuple[str, str, str]:
        """For the table: what, units in a second, µs of the hub's CPU for each."""
        return self.what, f"{self.units / self.seconds:,.0f}", f"{self.cpu_s / self.units * 1e6:.1f}"


class Client:
    """One connection."""

    def __init__(self, hub: RunningHub) -> None:
        place = Endpoint.parse(hub.url("ws"))
        self.sock = socket.create_connection((place.host, place.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def follow(self, query: str) -> None:
        """Ask for events, and read the head of the answer."""
        self.sock.sendall(f"GET /v1/events?{query} HTTP/1.1\r\n{_HOST}\r\n".encode())
        self.rest = self.until(b"\r\n\r\n")

    def until(self, end: bytes) -> bytes:
        """Read until something has come; return what stands behind it."""
        data = self.rest
        while end not in data:
            data += self.sock.recv(_READ_BYTES)
        return data.partition(end)[2]

    def post(self, body: bytes, kind: str, topic: str = "t") -> None:
        """Publish, and read the answer."""
        head = f"POST /v1/publish/{topic} HTTP/1.1\r\n{_HOST}Content-Type: application/{kind}\r\n"
        self.sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.until(b"}\n")


def cpu_s(hub: RunningHub) -> float:
    """CPU time of the hub's process so far."""
    fields = Path(f"/proc/{hub.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def posts(hub: RunningHub, seconds: float) -> Row:
    """Small bodies, each answered before the next, on a few connections at once."""
    clients = [Client(hub) for _ in range(_PUBLISHERS)]
    body = _VALUE % 7
    head = (
        f"POST /v1/publish/t HTTP/1.1\r\n{_HOST}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    ready = {one.sock: one for one in clients}
    for one in clients:
        one.sock.sendall(request)
    done, began, cpu = 0, time.monotonic(), cpu_s(hub)
    while time.monotonic() - began < seconds:
        for sock in select.select(list(ready), [], [])[0]:
            done += sock.recv(4096).endswith(b"}\n")
            sock.sendall(request)
    return Row(
        f"publications of 100 bytes, {_PUBLISHERS} connections", done, time.monotonic() - began, cpu_s(hub) - cpu
    )


def lines(hub: RunningHub, seconds: float) -> Row:
    """One POST after another of many lines."""
    client = Client(hub)
    body = b"".join(_VALUE % number + b"\n" for number in range(_LINES))
    done, began, cpu = 0, time.monotonic(), cpu_s(hub)
    while time.monotonic() - began < seconds:
        client.post(body, "x-ndjson")
        done += _LINES
    return Row("lines (NDJSON) of 100 bytes", done, time.monotonic() - began, cpu_s(hub) - cpu)


def events(hub: RunningHub, query: str, what: str, streams: int) -> Row:
    """A POST of many lines, and streams that read all of it."""
    readers = [Client(hub) for _ in range(streams)]
    for one in readers:
        one.follow(query)
        one.sock.setblocking(False)
    publisher = Client(hub)
    body = b"".join(_VALUE % number + b"\n" for number in range(_LINES // 2))
    fields = f"{_HOST}Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n"
    head = f"POST /v1/publish/e HTTP/1.1\r\n{fields}\r\n"
    unsent = memoryview(head.encode() + body)
    publisher.sock.setblocking(False)
    counts = dict.fromkeys((one.sock for one in readers), 0)
    began, cpu = time.monotonic(), cpu_s(hub)
    while min(counts.values()) < _LINES // 2:
        reads, writes, _ = select.select(list(counts), [publisher.sock] if unsent else [], [])
        for sock in writes:
            unsent = unsent[sock.send(unsent[: 64 * 1024]) :]
        for sock in reads:
            counts[sock] += sock.recv(_READ_BYTES).count(b"data: ")
    seconds = time.monotonic() - began
    return Row(f"events, {what}, {streams} streams", sum(counts.values()), seconds, cpu_s(hub) - cpu)


def quiet(hub: RunningHub, seconds: float) -> Iterator[float]:
    """How long each message of a quiet pair takes, from the POST to the event, s."""
    reader, publisher = Client(hub), Client(hub)
    reader.follow("prefix=/quiet&overflow=disconnect")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        publisher.post(b"1", "json", "quiet")
        reader.rest = reader.until(b"\n\n")
        yield time.monotonic() - began
        time.sleep(0.01)


def told(what: str, times: list[float]) -> tuple[str, str, str, str]:
    """Cells of the table of the quiet pair, ms."""
    times.sort()
    return (
        what,
        f"{statistics.median(times) * 1e3:.2f}",
        f"{times[int(len(times) * 0.99)] * 1e3:.2f}",
        f"{times[-1] * 1e3:.2f}",
    )


def crowd(console: Console, streams: int, seconds: float) -> None:
    """A quiet pair alone, beside so many idle streams, and while all of these are told something."""
    most = str(streams + 100)
    flags = ("--limits-connections", most, "--limits-connections-per-address", most, "--limits-newcomers", most)
    hub = RunningHub.start(("ws",), flags)
    table = Table("quiet pair", "median, ms", "p99, ms", "longest, ms")
    try:
        table.add_row(*told("alone", list(quiet(hub, seconds))))
        clients = []
        began, cpu = time.monotonic(), cpu_s(hub)
        for _ in range(streams):
            clients.append(Client(hub))
            clients[-1].follow("prefix=/crowd&overflow=drop-oldest")
        opened = Row("streams opened", streams, time.monotonic() - began, cpu_s(hub) - cpu)
        table.add_row(*told(f"beside {streams:,} idle streams", list(quiet(hub, seconds))))
        child = os.fork()
        if not child:  # it publishes to the crowd ten times a second, and nobody of the crowd reads
            publisher = Client(hub)
            while True:
                publisher.post(_VALUE % 1, "json", "crowd")
                time.sleep(0.1)
        table.add_row(*told("while all of them are told 10 messages/s", list(quiet(hub, seconds))))
        os.kill(child, 9)
        os.waitpid(child, 0)
        console.print(opened.cells())
        console.print(table)
    finally:
        hub.stop()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--streams", type=int, default=10_000)
    given = parser.parse_args()
    console = Console(width=120)
    table = Table("what", "a second", "hub, µs each")
    with tempfile.TemporaryDirectory() as folder:
        hub = RunningHub.start(("ws",), ("--journal", f"{folder}/journal", "--journal-topics", "/e"))
        try:
            table.add_row(*posts(hub, given.seconds).cells())
            table.add_row(*lines(hub, given.seconds).cells())
            for streams in (1, 10):
                table.add_row(*events(hub, "prefix=/e&overflow=drop-newest&messages=1000000", "live", streams).cells())
                table.add_row(*events(hub, "prefix=/e", "recorded", streams).cells())
        finally:
            hub.stop()
    console.print(table)
    if given.streams:
        crowd(console, given.streams, given.seconds)


if __name__ == "__main__":
    main()
