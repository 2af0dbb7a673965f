"""What a named consumer brings: recorded messages in a second, each acknowledged, to one member and to four.

    python tests/benchmarks/consumers.py [--messages 200000] [--prefetch 1000] [--workers 2]

The hub is a process of its own, with a journal that holds all messages before it begins; so is each member, which takes
batches and acknowledges them. Each row says what the hub's process (with workers: the core), all processes that it has
started (one that reads its journal; workers), and all members together took of a CPU for a message.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from peers.bench.running_hub import RunningHub
from peers.client import Client, connect

_TOPICS = 40
_VALUE = b"x" * 98
"""100 bytes in msgpack."""

_LOOK_S = 0.02


class Row(NamedTuple):
    """What was measured."""

    what: str
    messages: int
    seconds: float
    hub_s: float
    others_s: float
    members_s: float

    def cells(self) -> tuple[str, ...]:
        """For the table."""
        each = [f"{taken / self.messages * 1e6:.1f}" for taken in (self.hub_s, self.others_s, self.members_s)]
        return self.what, f"{self.messages / self.seconds:,.0f}", *each


def cpu_s(pid: int) -> float:
    """Return what a process has taken of a CPU."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def consume(url: str, name: str, prefetch: int) -> None:
    """Be a member until standard input ends."""
    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(None, sys.stdin.read)
    async with connect(url) as client, client.consume(name, "/t/", from_offset=0, prefetch=prefetch) as stream:
        while not ended.done():
            taking = asyncio.ensure_future(stream.batch())
            await asyncio.wait([taking, ended], return_when=asyncio.FIRST_COMPLETED)
            if not taking.done():
                taking.cancel()
                break
            await stream.ack(*taking.result())


def start_member(url: str, name: str, prefetch: int) -> subprocess.Popen[bytes]:
    """Start a member in a process of its own."""
    command = [sys.executable, __file__, "--member", url, "--name", name, "--prefetch", str(prefetch)]
    return subprocess.Popen(command, stdin=subprocess.PIPE)


async def acknowledged(client: Client, name: str) -> int:
    """Return how many messages of a consumer are done with."""
    rows = await client.request("$hub/consumers", None)
    assert isinstance(rows, list)
    return next((row["counters"]["acknowledged_total"] for row in rows if row["name"] == name), 0)


async def measure(hub: RunningHub, client: Client, members: int, messages: int, prefetch: int) -> Row:
    """Have some members consume everything; the clock runs from the first messages that are done with."""
    name = f"c{members}"
    started = [start_member(hub.url("tcp"), name, prefetch) for _ in range(members)]
    while not (first := await acknowledged(client, name)):  # noqa: ASYNC110 -- no event is told of it
        await asyncio.sleep(_LOOK_S)
    began, pids = time.monotonic(), [member.pid for member in started]
    hub_s, readers_s, members_s = cpu_s(hub.pid), sum(map(cpu_s, children(hub.pid))), sum(map(cpu_s, pids))
    while (done := await acknowledged(client, name)) < messages:  # noqa: ASYNC110 -- likewise
        await asyncio.sleep(_LOOK_S)
    seconds = time.monotonic() - began
    row = Row(
        f"{members} member{'s' if members > 1 else ''}",
        done - first,
        seconds,
        cpu_s(hub.pid) - hub_s,
        sum(map(cpu_s, children(hub.pid))) - readers_s,
        sum(map(cpu_s, pids)) - members_s,
    )
    for member in started:
        member.communicate()
    return row


async def run(messages: int, prefetch: int, workers: int) -> list[Row]:
    """Measure one member, and four."""
    with tempfile.TemporaryDirectory(prefix="hub-bench-") as folder:
        hub = RunningHub.start(
            ("tcp",), ("--journal", f"{folder}/journal", *(("--workers", str(workers)) if workers else ()))
        )
        try:
            async with connect(hub.url("tcp")) as client:
                for number in range(messages - 1):
                    await client.publish(f"/t/{number % _TOPICS}", _VALUE)
                await client.publish_confirmed("/t/0", _VALUE)
                return [await measure(hub, client, members, messages, prefetch) for members in (1, 4)]
        finally:
            hub.stop()


def main() -> None:
    """Run it, or be a member."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--prefetch", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--member", default="")
    parser.add_argument("--name", default="")
    options = parser.parse_args()
    if options.member:
        asyncio.run(consume(options.member, options.name, options.prefetch))
        return
    rows = asyncio.run(run(options.messages, options.prefetch, options.workers))
    table = Table("consumed and acknowledged", "a second", "hub, µs of CPU each", "its others", "members")
    for row in rows:
        table.add_row(*row.cells())
    Console().print(table)
    Console().print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
