"""What it costs a hub to pass messages on, from link to link, beside what it costs from client to client.

    python tests/benchmarks/mesh_hop.py [--topics 1] [--idle-hubs 0] [--rounds 15]

One hub in this process, with transports that swallow what is written: a read of as many small messages as there are
topics comes by one link, or from one client, and goes to one other. Both are timed in turn. `--idle-hubs` are further
hubs of the mesh, behind the first link, that want nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import structlog
import uvloop
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hub.frame import KIND_MESSAGES, encode_frame
from hub.mesh.announcement import Announcement, Digest, Told
from hub.mesh.mesh import SETTLE_S
from hub.origin import Origin
from hub.settings.settings import Settings
from peers.connections.connection import Connection
from peers.connections.tcp import tcp_connection
from peers.node.node import Node
from peers.wire.control import encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.origin import encode_origin
from peers.wire.routing import encode_routing

_NEAR, _FAR = b"n" * 16, b"f" * 16
_TURNS, _MESSAGES_A_TURN = 60, 200
_FRAME_BYTES = 1 << 20


class Swallow(asyncio.Transport):
    """A transport that takes everything at once."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.writes = 0

    def is_closing(self) -> bool:
        """Never."""
        return False

    def write(self, data: object) -> None:  # noqa: ARG002 -- it is swallowed
        """Count it."""
        self.writes += 1

    def writelines(self, some: object) -> None:  # noqa: ARG002 -- as above
        """Count it."""
        self.writes += 1

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever in a buffer."""

    def is_reading(self) -> bool:
        """Always."""
        return True

    def get_write_buffer_size(self) -> int:
        """Nothing."""
        return 0

    def pause_reading(self) -> None:
        """Nothing comes by itself."""

    def resume_reading(self) -> None:
        """Nothing comes by itself."""


def connected(node: Node, **hello: Any) -> tuple[Connection, Swallow]:
    """Connect a far side that has said HELLO."""
    connection, transport = tcp_connection(node, node.settings.queue), Swallow()
    connection.connection_made(transport)
    connection.data_received(Hello(protocol=1, **hello).encode())
    return connection, transport


def tell(link: Connection, *told: Told) -> None:
    """Have a link tell something of the mesh."""
    for one in told:
        for frame in encode_routing(one, _FRAME_BYTES):
            link.data_received(frame)


def frames(prefix: str, topics: int) -> bytes:
    """A read of one small message of each topic."""
    value = b"\xa5hello" * 16
    return b"".join(encode_frame(KIND_MESSAGES, value, key=f"{prefix}{number}".encode()) for number in range(topics))


async def measure(arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Return µs a read, of each kind."""
    node = Node(Settings())
    subscriber, heard = connected(node, role="client")
    publisher, _ = connected(node, role="client")
    subscriber.data_received(encode_subscription(Kind.SUBSCRIBE, ["/c/"]))
    near, _ = connected(node, role="hub", id=_NEAR, mesh=1)
    far, passed_on = connected(node, role="hub", id=_FAR, mesh=1)
    idle = [b"idle" * 3 + number.to_bytes(4) for number in range(arguments.idle_hubs)]
    tell(near, Digest(()), Announcement(_NEAR, 0, 1, "", ((node.id, 1), *((one, 1) for one in idle))))
    tell(near, *(Announcement(one, 0, 1, "", ((_NEAR, 1),)) for one in idle))
    tell(far, Digest(()), Announcement(_FAR, 0, 1, "", ((node.id, 1),), ("/m/",)))
    await asyncio.sleep(SETTLE_S[-1] + 1)
    near.data_received(encode_origin(Origin(_NEAR, 1)))
    kinds = {
        "client to client": (publisher, frames("/c/", arguments.topics), heard),
        "link to link": (near, frames("/m/", arguments.topics), passed_on),
    }
    took: dict[str, list[float]] = {name: [] for name in kinds}
    reads = max(1, _MESSAGES_A_TURN // arguments.topics)
    for number in range(arguments.rounds + 1):
        for name, (connection, read, out) in kinds.items():
            node.core.routes.clear()  # else 1,000 topics take 20 % longer for the second kind, by where they lie
            for _ in range(5):  # until all topics are known
                connection.data_received(read)
                await asyncio.sleep(0.02)
            before = out.writes
            connection.data_received(read)
            assert out.writes == before + 1, "nothing was passed on"
            if number:  # the first round is for what is done once
                took[name].append(await _best_us(connection, read, reads))
        if not number:
            gc.collect()
            gc.freeze()
    return took


async def _best_us(connection: Connection, read: bytes, reads: int) -> float:
    best_s = float("inf")
    for _ in range(_TURNS):
        await asyncio.sleep(0)  # a turn: shares are full again
        begun_s = time.perf_counter()
        for _ in range(reads):
            connection.data_received(read)
        best_s = min(best_s, time.perf_counter() - begun_s)
    return best_s / reads * 1e6


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=1, help="topics, each with one message in a read")
    parser.add_argument("--idle-hubs", type=int, default=0, help="hubs of the mesh that want nothing")
    parser.add_argument("--rounds", type=int, default=15, help="rounds; each takes the best of 60 turns")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    took = uvloop.run(measure(arguments))
    table = Table(title=f"{arguments.topics} topics, {arguments.idle_hubs} idle hubs: µs a read")
    for column in ("", "median", "least"):
        table.add_column(column, justify="right" if column else "left")
    for name, each in took.items():
        table.add_row(name, f"{statistics.median(each):.2f}", f"{min(each):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
