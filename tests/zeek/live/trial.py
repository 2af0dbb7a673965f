"""A cluster of real Zeeks on a hub, with nodes and hub stopped, killed and cut off: `python -m tests.zeek.live.trial`.

Needs a Zeek of 8.1 or later (`--zeek PATH`, with ZEEKPATH in the environment), and a pair of interfaces, of which
workers read one: as root, `ip link add vl0 type veth peer name vl1`, and both up. Prints what each step found; exits 1
where log records were lost, or a node that runs was missing for another one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import socket
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from peers.client import Client, connect
from peers.values import Count
from peers.values.event import Event, NoEventError
from tests.zeek.live.cluster import Cluster, Line

CONTROL, LOGS = "/live/control", "/zeek/LOG/"
UP_S = 40.0
"""How long nodes may take to have each other up again."""


class Watch:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._up: dict[int, dict[str, set[str]]] = defaultdict(dict)
        self._asked = random.randrange(1 << 30)  # noqa: S311 -- no secret
        self.ticks: dict[str, int] = defaultdict(int)
        self.logs: dict[str, list[Any]] = defaultdict(list)

    async def follow(self) -> None:
        async with self._client.subscribe("/live/", LOGS, buffer_bytes=1 << 28) as messages:
            async for message in messages:
                self._take(message.topic, message.value)

    def _take(self, topic: str, value: Any) -> None:
        if topic.startswith(LOGS):
            self.logs[topic.removeprefix(LOGS)].append(value)
            return
        try:
            name, arguments = (event := Event.of(value)).name, event.args
        except NoEventError:
            return
        if name == "Live::up":
            number, node, nodes = arguments
            self._up[int(number)][str(node)] = {str(one) for one in nodes}  # type: ignore[arg-type, union-attr]
        elif name == "Live::tick":
            self.ticks[str(arguments[0])] += 1

    async def _who(self, nodes: list[str]) -> dict[str, set[str]]:
        self._asked += 1
        await self._client.publish(CONTROL, Event("Live::who", Count(self._asked)))
        await until(lambda: len(self._up[self._asked]) == len(nodes), 2)
        return self._up.pop(self._asked)

    async def all_up(self, nodes: list[str], seconds: float = UP_S) -> tuple[float, list[str]]:
        begun = time.monotonic()
        while True:
            seen = await self._who(nodes)
            missing = [f"{at} without {one}" for at in seen for one in nodes if one not in seen[at] | {at}]
            missing += [f"{node} silent" for node in nodes if node not in seen]
            if not missing or time.monotonic() - begun > seconds:
                return time.monotonic() - begun, missing
            await asyncio.sleep(0.2)


class Trial:
    def __init__(self, title: str, cluster: Cluster) -> None:
        self.cluster = cluster
        self._title = title
        self.failed = 0

    def say(self, text: str, *, holds: bool) -> None:
        self.failed += not holds
        print(f"{time.strftime('%H:%M:%S')} {'ok  ' if holds else 'FAIL'} {self._title}: {text}", flush=True)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Watch]:
        async with connect(self.cluster.url) as client:
            watch = Watch(client)
            following = asyncio.ensure_future(watch.follow())
            try:
                yield watch
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    async def start_hub(self) -> None:
        self.cluster.start_hub()
        await until(lambda: is_listening(self.cluster.tcp), 30)

    async def ordinary(self) -> None:
        cluster = self.cluster
        await self.start_hub()
        for name in cluster.nodes:
            cluster.start_node(name)
        async with self.watching() as watch:
            await self._all_up(watch, "started", 90)
            wanted = 2 * cluster.lines
            await asyncio.to_thread(replay, cluster.sender)
            if cluster.with_logger:
                await until(lambda: lines_of(cluster, "live") >= wanted, 60)
                found = lines_of(cluster, "live")
                self.say(f"{found} of {wanted} lines at Zeek's logger", holds=found == wanted)
            else:
                await until(lambda: len(watch.logs["live"]) >= wanted, 60)
                found, late = in_order(watch.logs["live"])
                self.say(
                    f"{found} of {wanted} lines at the hub, {late} out of order", holds=(found, late) == (wanted, 0)
                )
                self.say(", ".join(f"{path} {len(rows)}" for path, rows in sorted(watch.logs.items())), holds=True)
            self.say(f"events of {dict(watch.ticks)}", holds=watch.ticks.keys() == set(cluster.nodes))

    async def faults(self, minutes: float, pause_s: float) -> None:
        chance = random.Random(1)  # noqa: S311 -- the same each time
        end = time.monotonic() + 60 * minutes
        nodes = [name for name in self.cluster.nodes if name != "manager"]
        async with self.watching() as watch:
            while time.monotonic() < end:
                for kind in ("stopped", "killed", "hub restarted", "hub killed", "restarted"):
                    victim = "the" if kind.startswith("hub") else chance.choice(nodes)
                    await self._break(kind, victim, pause_s)
                    await self._all_up(watch, f"{victim} {kind}", UP_S)
                    await asyncio.sleep(3)

    async def _break(self, kind: str, victim: str, pause_s: float) -> None:
        number = signal.SIGKILL if kind.endswith("killed") else signal.SIGTERM
        if kind == "stopped":
            self.cluster.send(victim, signal.SIGSTOP)
            await asyncio.sleep(pause_s)
            self.cluster.send(victim, signal.SIGCONT)
        elif kind.startswith("hub"):
            await asyncio.to_thread(self.cluster.stop, "hub", number)
            await asyncio.sleep(1)
            await self.start_hub()
        else:
            await asyncio.to_thread(self.cluster.stop, victim, number)
            await asyncio.sleep(2)
            self.cluster.start_node(victim)

    async def cuts(self, lines: list[Line], pause_s: float) -> None:
        async with self.watching() as watch:
            for kind, away_s in (("away", pause_s), ("reset", 0), ("reset", 3), ("reset", pause_s), ("reset", 0)):
                for line in lines:
                    if away_s:
                        line.flows.clear()
                    if kind == "reset":
                        line.reset()
                await asyncio.sleep(away_s)
                for line in lines:
                    line.flows.set()
                # So long that all others have seen it go.
                await asyncio.sleep(3)
                await self._all_up(watch, f"network {kind}, {away_s:.0f} s", UP_S)

    async def _all_up(self, watch: Watch, what: str, seconds: float) -> None:
        took, missing = await watch.all_up(self.cluster.nodes, seconds)
        self.say(f"{what}: all up after {took:.1f} s {missing or ''}", holds=not missing)


async def until(holds: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:  # noqa: ASYNC110 -- other processes have no events
        await asyncio.sleep(0.05)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def replay(interface: str) -> None:
    """Send a capture of DNS, HTTP and TLS, whose checksums are zero: Zeek needs `-C`."""
    data, at = Path(__file__).with_name("traffic.pcap").read_bytes(), 24
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((interface, 0))
        while at < len(data):
            end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
            raw.send(data[at + 16 : end])
            time.sleep(0.002)
            at = end


def lines_of(cluster: Cluster, log: str) -> int:
    path = cluster.folder / "logger-1" / f"{log}.log"
    return sum(not line.startswith(b"#") for line in path.read_bytes().splitlines()) if path.exists() else 0


def in_order(records: list[Any]) -> tuple[int, int]:
    last: dict[str, int] = {}
    late = 0
    for record in records:
        worker, number = str(record["worker"]), int(record["n"])
        late += number <= last.get(worker, -1)
        last[worker] = number
    return len(records), late


async def run(title: str, cluster: Cluster, minutes: float, pause_s: float) -> int:
    trial = Trial(title, cluster)
    try:
        lines = [Line(cluster.xpub), Line(cluster.xsub)] if title == "cut" else []
        if lines:
            cluster.fronts["worker-1"] = (await lines[0].open(), await lines[1].open())
        await trial.ordinary()
        if lines:
            await trial.cuts(lines, pause_s)
        if title == "faults":
            await trial.faults(minutes, pause_s)
        trial.say("the hub runs", holds=cluster.running["hub"].poll() is None)
    finally:
        await asyncio.to_thread(cluster.stop_all)
        for said, times in cluster.complaints().items():
            print(f"      {times} x {said}")
    return trial.failed


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zeek", required=True)
    parser.add_argument("--folder", type=Path, default=Path("build/zeek-live"))
    parser.add_argument("--lines", type=int, default=5_000, help="of each worker")
    parser.add_argument("--minutes", type=float, default=30, help="of faults")
    parser.add_argument("--pause-s", type=float, default=40)
    parser.add_argument("--only", nargs="*", default=["faults", "logger", "curve", "cut"])
    given = parser.parse_args()
    failed = 0
    for title in given.only:
        cluster = Cluster(given.folder.resolve() / title, given.zeek, dict(os.environ), given.lines)
        cluster.with_logger = title not in {"logger", "curve"}
        cluster.write_layout()
        if title == "curve":
            cluster.encrypt()
        failed += await run(title, cluster, given.minutes, given.pause_s)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
