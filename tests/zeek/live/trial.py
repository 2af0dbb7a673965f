"""A cluster of real Zeeks on a hub, with nodes and hub stopped and killed: `python -m tests.zeek.live.trial`.

Needs a Zeek of 8.1 or later (`--zeek PATH`, with ZEEKPATH in the environment), and a pair of interfaces, of which
workers read one: as root, `ip link add vl0 type veth peer name vl1`, and both up. Prints what each step found; exits 1
where log records were lost, or a node that runs was missing for another one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
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
from tests.hubs.ports import free_ports

HERE = Path(__file__).parent
CONTROL, LOGS = "/live/control", "/zeek/LOG/"
NODES = {"manager": "MANAGER", "logger-1": "LOGGER", "proxy-1": "PROXY", "worker-1": "WORKER", "worker-2": "WORKER"}
READ, SENT = "vl1", "vl0"  # the interface that workers read, and the one at which packets are sent
UP_S, STOP_S = 40.0, 30  # how long nodes may take to have each other up again, and to stop


class Cluster:
    """Nodes on loopback and a hub beside them, each a process of its own; without a logger the hub gets all logs."""

    def __init__(self, folder: Path, zeek: str, lines: int, *, with_logger: bool) -> None:
        self.nodes = [name for name in NODES if with_logger or name != "logger-1"]
        self.lines, self.with_logger = lines, with_logger
        self._folder, self._zeek = folder, zeek
        self._xsub, self._xpub, self._log, self.tcp = free_ports(4)
        self.url = f"tcp://127.0.0.1:{self.tcp}"
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        ports = {"logger-1": f", $p={self._log}/tcp"}
        rows = [f'["{n}"] = [$node_type=Cluster::{NODES[n]}, $ip=127.0.0.1{ports.get(n, "")}]' for n in self.nodes]
        layout = "redef Cluster::manager_is_logger = F;\nredef Cluster::nodes = {\n" + ",\n".join(rows) + "\n};\n"
        (folder / "cluster-layout.zeek").write_text(layout)

    def start(self, name: str) -> None:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        xpub, xsub, log = (f"tcp://127.0.0.1:{port}" for port in (self._xpub, self._xsub, self._log))
        environment = os.environ | {"XDG_STATE_HOME": str(self._folder / "state")}
        if name == "hub":
            listen = [self.url, f"zeek+zmq://127.0.0.1:{self._xsub}?xsub={self._xpub}"]
            listen += [] if self.with_logger else [f"zeek+log://127.0.0.1:{self._log}"]
            program = [sys.executable, "-m", "peers.cli", "run", *(f"--listen={url}" for url in listen)]
        else:
            environment |= {"CLUSTER_NODE": name, "LIVE_XPUB": xpub, "LIVE_XSUB": xsub, "LIVE_LINES": str(self.lines)}
            environment |= {"LIVE_LOGGER": "" if self.with_logger else log}
            environment["ZEEKPATH"] = f"{self._folder}:{HERE}:{environment['ZEEKPATH']}"
            reads = ["-C", "-i", READ] if name.startswith("worker") else []
            program = [self._zeek, *reads, str(HERE / "site.zeek")]
        with (folder / "out").open("ab") as out:
            self.running[name] = subprocess.Popen(
                program, env=environment, cwd=folder, stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        process = self.running.pop(name)
        process.send_signal(number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def lines_of(self, log: str) -> int:
        path = self._folder / "logger-1" / f"{log}.log"
        return sum(not line.startswith(b"#") for line in path.read_bytes().splitlines()) if path.exists() else 0


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

    async def all_up(self, nodes: list[str], seconds: float) -> tuple[float, list[str]]:
        begun = time.monotonic()
        while True:
            self._asked += 1
            await self._client.publish(CONTROL, Event("Live::who", Count(self._asked)))
            await until(lambda: len(self._up[self._asked]) == len(nodes), 2)
            seen = self._up.pop(self._asked)
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
        self.cluster.start("hub")
        await until(lambda: is_listening(self.cluster.tcp), 30)

    async def ordinary(self) -> None:
        """All are up, and each line of each worker's log arrives, in order."""
        cluster = self.cluster
        await self.start_hub()
        for name in cluster.nodes:
            cluster.start(name)
        async with self.watching() as watch:
            await self._all_up(watch, "started", 90)
            wanted, late = 2 * cluster.lines, 0
            await asyncio.to_thread(replay)

            def found() -> int:
                return cluster.lines_of("live") if cluster.with_logger else len(watch.logs["live"])

            await until(lambda: found() >= wanted, 60)
            last: dict[str, int] = {}
            for record in watch.logs["live"]:
                late += int(record["n"]) <= last.get(record["worker"], -1)
                last[record["worker"]] = int(record["n"])
            self.say(f"{found()} of {wanted} lines, {late} out of order", holds=(found(), late) == (wanted, 0))
            self.say(", ".join(f"{path} {len(rows)}" for path, rows in sorted(watch.logs.items())), holds=True)
            self.say(f"events of {dict(watch.ticks)}", holds=watch.ticks.keys() == set(cluster.nodes))

    async def faults(self, minutes: float, pause_s: float) -> None:
        chance = random.Random(1)  # noqa: S311 -- the same each time
        end = time.monotonic() + 60 * minutes
        async with self.watching() as watch:
            while time.monotonic() < end:
                for kind in ("stopped", "killed", "hub restarted", "hub killed", "restarted"):
                    victim = "hub" if kind.startswith("hub") else chance.choice(self.cluster.nodes[1:])
                    await self._break(kind, victim, pause_s)
                    await self._all_up(watch, f"{victim}: {kind}", UP_S)
                    await asyncio.sleep(3)

    async def _break(self, kind: str, victim: str, pause_s: float) -> None:
        if kind == "stopped":
            self.cluster.running[victim].send_signal(signal.SIGSTOP)
            await asyncio.sleep(pause_s)
            self.cluster.running[victim].send_signal(signal.SIGCONT)
            return
        number = signal.SIGKILL if kind.endswith("killed") else signal.SIGTERM
        await asyncio.to_thread(self.cluster.stop, victim, number)
        await asyncio.sleep(2)
        await (self.start_hub() if victim == "hub" else asyncio.to_thread(self.cluster.start, victim))

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


def replay() -> None:
    """Send a capture of DNS, HTTP and TLS, whose checksums are zero: Zeek needs `-C`."""
    data, at = (HERE / "traffic.pcap").read_bytes(), 24
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((SENT, 0))
        while at < len(data):
            end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
            raw.send(data[at + 16 : end])
            time.sleep(0.002)
            at = end


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zeek", required=True)
    parser.add_argument("--folder", type=Path, default=Path("build/zeek-live"))
    parser.add_argument("--lines", type=int, default=5_000, help="of each worker")
    parser.add_argument("--minutes", type=float, default=30, help="of faults")
    parser.add_argument("--pause-s", type=float, default=40)
    parser.add_argument("--only", nargs="*", default=["faults", "logger"])
    given = parser.parse_args()
    failed = 0
    for title in given.only:
        cluster = Cluster(given.folder.resolve() / title, given.zeek, given.lines, with_logger=title != "logger")
        trial = Trial(title, cluster)
        try:
            await trial.ordinary()
            if title == "faults":
                await trial.faults(given.minutes, given.pause_s)
            trial.say("the hub runs", holds=cluster.running["hub"].poll() is None)
        finally:
            for name in sorted(cluster.running, key=lambda name: name == "hub"):
                await asyncio.to_thread(cluster.stop, name)
        failed += trial.failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
