"""A row of real hubs: what is published at one end, and arrives at the other.

    python tests/benchmarks/mesh_chain.py [--hubs 8] [--rate 100000] [--seconds 5] [--size 100]

Each hub is a process (`hub run`), linked with the one before it. One client publishes numbered messages at the first
hub, so many a second; another one, in a process of its own, subscribes at the last hub, and looks at each number: what
is missing, what comes twice, what comes out of order. CPU is that of each hub while messages flow.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import re
import statistics
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec
import uvloop

from peers.client import connect
from peers.wire.hello import QueueWish

_TOPIC = "/chain/x"
_TICK_S = 0.01
_QUIET_S = 3.0
"""How long hubs are left alone before messages flow: by then all of them know the same."""

_GIVEN_UP_S = 10.0
"""When nothing has come for so long, nothing more is waited for."""


class Received(NamedTuple):
    """What the subscriber has seen."""

    messages: int
    repeated: int
    reordered: int
    lost: int
    lasted_s: float
    delays_ms: list[float]


class HubProcess:
    """One hub.

    Args:
        number: Which.
        peer: The URL of the hub that it dials, empty for none.
    """

    def __init__(self, number: int, peer: str) -> None:
        command = [sys.executable, "-m", "peers.cli", "run", "--name", f"hub-{number}", "--listen", "tcp://127.0.0.1:0"]
        command += ["--peer", peer] if peer else []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        self.url = next(found[0] for line in self._process.stdout if (found := re.search(r"tcp://[\d.:]+", line)))

    @property
    def cpu_s(self) -> float:
        """What it has used of the CPU, seconds."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def end(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait()


def receive(url: str, messages: int, pipe: Connection) -> None:
    """Subscribe, say that it is done, and tell what came."""
    pipe.send(uvloop.run(_receive(url, messages, pipe)))


async def _receive(url: str, messages: int, pipe: Connection) -> Received:
    seen = bytearray(messages)
    delays_ms: list[float] = []
    last, repeated, reordered, begun_s, ended_s = -1, 0, 0, 0.0, 0.0
    async with connect(url, queue=QueueWish(messages=1 << 16)) as client, client.subscribe("/chain/") as stream:
        pipe.send("subscribed")
        while last < messages - 1:
            try:
                message = await asyncio.wait_for(anext(stream), _GIVEN_UP_S)
            except TimeoutError:
                break
            number, sent_s, _ = message.value
            ended_s = time.monotonic()
            begun_s = begun_s or ended_s
            repeated += seen[number]
            seen[number] = 1
            reordered += number < last
            last = number
            if not number % 100:
                delays_ms.append((ended_s - sent_s) * 1000)
    arrived = sum(seen)
    return Received(arrived, repeated, reordered, messages - arrived, ended_s - begun_s, delays_ms)


async def publish(url: str, arguments: argparse.Namespace, progress: Progress) -> None:
    """Publish at the rate that was asked for."""
    total = int(arguments.rate * arguments.seconds)
    task = progress.add_task("publishing", total=total)
    encode = msgspec.msgpack.Encoder().encode
    filling = b"x" * max(0, arguments.size - 20)
    async with connect(url, buffer_bytes=1 << 26) as client:
        begun_s, number = time.monotonic(), 0
        while number < total:
            now_s = time.monotonic()
            due = min(total, int((now_s - begun_s) * arguments.rate) + 1)
            for one in range(number, due):
                client.publish_packed_nowait(_TOPIC, encode((one, now_s, filling)))
            progress.update(task, completed=due)
            number = due
            await asyncio.sleep(_TICK_S)
        await client.drain()


def main() -> None:
    """Start the hubs, let messages flow, print what came."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hubs", type=int, default=8, help="hubs in a row")
    parser.add_argument("--rate", type=float, default=100_000, help="messages a second")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long")
    parser.add_argument("--size", type=int, default=100, help="bytes of a value, about")
    arguments = parser.parse_args()
    hubs: list[HubProcess] = []
    try:
        for number in range(arguments.hubs):
            hubs.append(HubProcess(number, hubs[-1].url if hubs else ""))
        show(arguments, hubs, *run(arguments, hubs))
    finally:
        for hub in hubs:
            hub.end()


def run(arguments: argparse.Namespace, hubs: list[HubProcess]) -> tuple[Received, list[float]]:
    """Let messages flow; return what came, and the CPU of each hub."""
    ours, theirs = multiprocessing.Pipe()
    total = int(arguments.rate * arguments.seconds)
    receiver = multiprocessing.Process(target=receive, args=(hubs[-1].url, total, theirs))
    receiver.start()
    ours.recv()
    time.sleep(_QUIET_S)
    before = [hub.cpu_s for hub in hubs]
    with Progress(console=Console(stderr=True)) as progress:
        uvloop.run(publish(hubs[0].url, arguments, progress))
    received: Received = ours.recv()
    spent = [hub.cpu_s - cpu_s for hub, cpu_s in zip(hubs, before, strict=True)]
    receiver.join()
    return received, spent


def show(arguments: argparse.Namespace, hubs: list[HubProcess], received: Received, spent: list[float]) -> None:
    """Print what came."""
    table = Table(title=f"{len(hubs)} hubs in a row, {arguments.rate:,.0f} messages/s of {arguments.size} bytes")
    for column in (
        "arrived",
        "lost",
        "twice",
        "out of order",
        "messages/s",
        "p50 ms",
        "p99 ms",
        "CPU of a hub, us/message",
    ):
        table.add_column(column, justify="right")
    cuts = statistics.quantiles(received.delays_ms, n=100)
    table.add_row(
        f"{received.messages:,}",
        f"{received.lost:,}",
        f"{received.repeated:,}",
        f"{received.reordered:,}",
        f"{received.messages / received.lasted_s:,.0f}",
        f"{cuts[49]:.1f}",
        f"{cuts[98]:.1f}",
        f"{statistics.median(spent) / received.messages * 1e6:.2f}",
    )
    Console().print(table)


if __name__ == "__main__":
    main()
