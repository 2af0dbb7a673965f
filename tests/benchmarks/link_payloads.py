"""What large values cost on links between processes of one machine, as bytes, and what they would in shared memory.

    python tests/benchmarks/link_payloads.py [--sizes 4096 65536 1048576 4194304] [--mebibytes 400]

Three hubs in a row in this process, linked by pairs of Unix sockets as a core is with its workers: a client of the
first publishes, one of the last subscribes. What client and subscriber cost is measured by themselves, at one hub, and
left out. Beside it what no hub does yet: the first hub puts the value into sealed memory, its descriptor is handed on
twice, each time with a small frame and a check, and the last one reads it.
"""

from __future__ import annotations

import argparse
import array
import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog
import uvloop
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hub.frame import KIND_MESSAGES, encode_frame
from hub.settings.settings import Settings
from peers.connections.connection import Connection
from peers.connections.tcp import tcp_connection
from peers.daemon.memory import keep_freed_memory
from peers.node.node import Node
from peers.shm import memory
from peers.wire.control import encode_subscription
from peers.wire.kinds import Kind
from tests.benchmarks.mesh_hop import Swallow, connected

_READ_BYTES = 256 * 1024
_TOPIC = "/large"
_HANDLE_BYTES = 25


async def linked(dialling: Node, listening: Node) -> None:
    """Link two hubs by a pair of sockets."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    for node, sock, dialled in ((listening, far, False), (dialling, near, True)):
        sock.setblocking(False)
        connection = tcp_connection(node, node.settings.queue, dialled=dialled, address="unix:pair" if dialled else "")

        def made(connection: Connection = connection) -> Connection:
            return connection

        await loop.create_unix_connection(made, sock=sock)


class Row:
    """Hubs in a row, a publisher at the first and a subscriber at the last."""

    def __init__(self, hubs: int) -> None:
        self.nodes = [Node(Settings()) for _ in range(hubs)]
        self._publisher: Connection
        self._out: Swallow
        self._links: list[Awaitable[None]] = []

    async def start(self) -> None:
        """Link them, and wait until messages go through."""
        for near, far in zip(self.nodes, self.nodes[1:], strict=False):
            await linked(near, far)
        subscriber, self._out = connected(self.nodes[-1], role="client")
        self._publisher, _ = connected(self.nodes[0], role="client")
        subscriber.data_received(encode_subscription(Kind.SUBSCRIBE, [_TOPIC]))
        while not self._out.writes:
            self._publisher.data_received(encode_frame(KIND_MESSAGES, b"\x01", key=_TOPIC.encode()))
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)

    async def pass_on(self, frame: bytes) -> None:
        """Publish a frame, as reads of a socket bring it, and wait until it was written."""
        before = self._out.writes
        for start in range(0, len(frame), _READ_BYTES):
            self._publisher.data_received(frame[start : start + _READ_BYTES])
        while self._out.writes == before:  # noqa: ASYNC110 -- the loop goes round as quickly as it can
            await asyncio.sleep(0)


async def cpu_us(act: Callable[[], Awaitable[None]], times: int) -> float:
    """Return the CPU that one call takes, µs."""
    await act()
    begun_s = time.process_time()
    for _ in range(times):
        await act()
    return (time.process_time() - begun_s) / times * 1e6


class Handing:
    """Sealed memory that is handed on over two pairs of sockets."""

    def __init__(self) -> None:
        self._pairs = [socket.socketpair() for _ in range(2)]

    async def hand_on(self, values: bytes) -> None:
        """Put values into memory, hand it on, and read it."""
        descriptor = memory.make_sealed([values], len(values))
        for near, far in self._pairs:
            near.sendmsg(
                [bytes(_HANDLE_BYTES)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
            )
            os.close(descriptor)
            _, ancillary, _, _ = far.recvmsg(_READ_BYTES, socket.CMSG_SPACE(4))
            descriptor = int.from_bytes(ancillary[0][2], sys.byteorder)
            memory.check_sealed(descriptor, len(values))
        memory.read(descriptor, len(values), memory.VALUES_AT)
        os.close(descriptor)


async def measure(sizes: list[int], mebibytes: int) -> list[tuple[int, float, float]]:
    """Return for each size what two links take as bytes, and in shared memory, µs of CPU."""
    one, three = Row(1), Row(3)
    await one.start()
    await three.start()
    handing = Handing()
    found = []
    for size in sizes:
        frame = encode_frame(KIND_MESSAGES, b"\xc6" + size.to_bytes(4) + bytes(size), key=_TOPIC.encode())
        times = max(50, min(5000, (mebibytes << 20) // size))
        rounds = []
        for _ in range(3):
            alone = await cpu_us(lambda: one.pass_on(frame), times // 3)  # noqa: B023 -- it is awaited here
            links = await cpu_us(lambda: three.pass_on(frame), times // 3)  # noqa: B023
            shared = await cpu_us(lambda: handing.hand_on(frame), times // 3)  # noqa: B023
            rounds.append((links - alone, shared))
        found.append((size, sorted(r[0] for r in rounds)[1], sorted(r[1] for r in rounds)[1]))
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 65536, 262_144, 1 << 20, 1 << 22])
    parser.add_argument("--mebibytes", type=int, default=400, help="how much is passed on of each size")
    arguments = parser.parse_args()
    keep_freed_memory()  # as hubs do
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    table = Table(title="two links between processes, µs of CPU a value, all processes together")
    for column in ("bytes", "as bytes", "in shared memory", "times"):
        table.add_column(column, justify="right")
    for size, as_bytes, shared in uvloop.run(measure(arguments.sizes, arguments.mebibytes)):
        table.add_row(f"{size:,}", f"{as_bytes:,.0f}", f"{shared:,.0f}", f"{as_bytes / shared:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
