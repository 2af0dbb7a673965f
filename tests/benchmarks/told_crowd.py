"""How much the loop of a hub works while a quiet message is on its way, beside a crowd that is told something.

    python tests/benchmarks/told_crowd.py [--kinds tcp,websocket,events] [--crowd 9000] [--seconds 12]

The hub, its clients and the quiet pair are in one process, on Unix sockets, and what is said is the CPU time of its
thread from the sending of a quiet message until it has arrived. So it does not matter what else the machine does. The
crowd reads nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import socket
import statistics
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import msgspec
import structlog
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hub.frame import encode_frame
from hub.settings.settings import Settings
from peers.bench.worker import raise_descriptor_limit
from peers.connections.connection import Connection
from peers.connections.tcp import tcp_connection
from peers.connections.websocket import websocket_connection
from peers.node.node import Node
from peers.wire.control import encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from tests.hubs.eventually import eventually
from tests.hubs.raw_websocket import text, upgrade

_TOLD, _QUIET = "/told/", "/quiet"
_TELL_EACH_S = 0.1
_READ_BYTES = 1 << 16
_HELLO = Hello(protocol=1, role="client").encode()
_SAY = {
    "tcp": [_HELLO + encode_subscription(Kind.SUBSCRIBE, [_TOLD], 1)],
    "websocket": [upgrade(), text({"type": "subscribe", "prefixes": [_TOLD]})],
    "events": [f"GET /v1/events?prefix={_TOLD}&overflow=drop-oldest HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()],
}
"""What one of the crowd says, by what it speaks."""


class Hub:
    """A node whose clients are in this process."""

    def __init__(self, crowd: int) -> None:
        settings = Settings()
        limits = msgspec.structs.replace(
            settings.limits, connections=2 * crowd + 100, newcomers=2 * crowd + 100, ping_after_s=600.0
        )
        limits = msgspec.structs.replace(limits, connections_per_address=limits.connections)
        self.node = Node(msgspec.structs.replace(settings, limits=limits))

    async def client(self, kind: str, say: list[bytes]) -> socket.socket:
        """Connect somebody who says that."""
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self._connection(kind), sock=near)
        for data in say:
            far.send(data)
            await asyncio.sleep(0)
        return far

    def _connection(self, kind: str) -> Connection:
        if kind == "tcp":
            return tcp_connection(self.node, self.node.settings.queue)
        return websocket_connection(self.node, self.node.settings.queue, loopback=True)


async def _measure(kind: str, crowd: int, seconds: float, late_ms: list[float]) -> float:
    """Fill in how late each quiet message was, ms of CPU; return what the thread took of a CPU for each write, µs."""
    hub = Hub(crowd)
    members = [await hub.client(kind, _SAY[kind]) for _ in range(crowd)]
    publisher, sender = await hub.client("tcp", [_HELLO]), await hub.client("tcp", [_HELLO])
    reader = await hub.client("tcp", [_HELLO + encode_subscription(Kind.SUBSCRIBE, [_QUIET], 1)])
    await eventually(lambda: sum(_TOLD in one.prefixes for one in hub.node.core.handlers.values()) == crowd)
    await asyncio.sleep(0.5)
    reader.recv(_READ_BYTES)
    arrived = asyncio.Event()
    asyncio.get_running_loop().add_reader(reader, _arrive(reader, arrived))
    told = encode_frame(Kind.MESSAGES, b"\xc4\x40" + bytes(64), key=_TOLD.encode())
    quiet = encode_frame(Kind.MESSAGES, b"\xc4\x10" + bytes(16), key=_QUIET.encode())
    gc.collect()
    gc.freeze()
    begun_s, begun_cpu_s, tellings = time.monotonic(), time.thread_time(), 0
    for number in count():
        passed_s = time.monotonic() - begun_s
        if passed_s > seconds:
            break
        await asyncio.sleep(0.0013 + 0.0007 * (number % 7))  # not in step with the crowd
        if tellings * _TELL_EACH_S < passed_s:
            publisher.send(told)
            tellings += 1
        arrived.clear()
        sent_s = time.thread_time()
        sender.send(quiet)
        await arrived.wait()
        late_ms.append((time.thread_time() - sent_s) * 1e3)
    taken_s = time.thread_time() - begun_cpu_s
    for member in members:
        member.close()
    return taken_s / (tellings * crowd) * 1e6


def _arrive(reader: socket.socket, arrived: asyncio.Event) -> Callable[[], None]:
    def arrive() -> None:
        reader.recv(_READ_BYTES)
        arrived.set()

    return arrive


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kinds", default=",".join(_SAY))
    parser.add_argument("--crowd", type=int, default=9_000)
    parser.add_argument("--seconds", type=float, default=12.0)
    given = parser.parse_args()
    raise_descriptor_limit()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    sys.stdout.write("| crowd | p50, ms | p99, ms | longest, ms | CPU for each write, µs |\n|---|---|---|---|---|\n")
    for kind in given.kinds.split(","):
        late_ms: list[float] = []
        each_us = uvloop.run(_measure(kind, given.crowd, given.seconds, late_ms))
        cuts = statistics.quantiles(late_ms, n=100)
        sys.stdout.write(f"| {kind} | {cuts[49]:.2f} | {cuts[98]:.1f} | {max(late_ms):.0f} | {each_us:.1f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
