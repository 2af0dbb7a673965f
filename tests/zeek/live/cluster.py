"""A cluster of real Zeek nodes on loopback, and a hub beside it, each a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.hubs.ports import free_ports

HERE = Path(__file__).parent
HUB = [sys.executable, "-c", "from peers.cli import main; main()"]
NODES = {"manager": "MANAGER", "logger-1": "LOGGER", "proxy-1": "PROXY", "worker-1": "WORKER", "worker-2": "WORKER"}
STOP_S = 30


@dataclass(slots=True)
class Cluster:
    """Where everything listens, and the processes that run.

    Workers read `interface`; packets are sent at `sender`. Without a logger in the layout, the hub gets all logs.
    """

    folder: Path
    zeek: str
    environment: dict[str, str]
    lines: int = 5_000
    interface: str = "vl1"
    sender: str = "vl0"
    with_logger: bool = True
    curve: dict[str, str] = field(default_factory=dict)
    hub_arguments: list[str] = field(default_factory=list)
    xsub: int = 0
    xpub: int = 0
    log: int = 0
    tcp: int = 0
    web: int = 0
    fronts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of nodes that dial a proxy: its ports in place of `xpub` and `xsub`."""
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.xsub, self.xpub, self.log, self.tcp, self.web = free_ports(5)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def write_layout(self) -> None:
        rows = [
            f'["{name}"] = [$node_type=Cluster::{NODES[name]}, $ip=127.0.0.1'
            + (f", $p={self.log}/tcp]" if name == "logger-1" else "]")
            for name in self.nodes
        ]
        layout = "redef Cluster::manager_is_logger = F;\nredef Cluster::nodes = {\n" + ",\n".join(rows) + "\n};\n"
        (self.folder / "cluster-layout.zeek").write_text(layout)

    @property
    def nodes(self) -> list[str]:
        return [name for name in NODES if self.with_logger or name != "logger-1"]

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.tcp}"

    def encrypt(self) -> None:
        keys = {}
        for name in ("broker", "node"):
            subprocess.run([*HUB, "curve", "new", name], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
            for kind in ("pub", "key"):
                keys[name, kind] = (self.folder / f"{name}.{kind}").read_text().splitlines()[-1]
        self.hub_arguments += ["--zeek-curve-key", str(self.folder / "broker.key")]
        self.hub_arguments += ["--zeek-curve-clients", str(self.folder / "node.pub")]
        start = "ZEEK_CLUSTER_BACKEND_ZEROMQ_CURVE_"
        self.curve = {
            start + "SERVER_PUBLICKEY": keys["broker", "pub"],
            start + "SERVER_SECRETKEY": keys["broker", "key"],
            start + "CLIENT_PUBLICKEY": keys["node", "pub"],
            start + "CLIENT_SECRETKEY": keys["node", "key"],
        }

    def start_hub(self) -> None:
        listen = [self.url, f"ws://127.0.0.1:{self.web}", f"zeek+zmq://127.0.0.1:{self.xsub}?xsub={self.xpub}"]
        if not self.with_logger:
            listen.append(f"zeek+log://127.0.0.1:{self.log}")
        given = [argument for url in listen for argument in ("--listen", url)]
        environment = os.environ | {"XDG_STATE_HOME": str(self.folder / "state")}
        self._start("hub", [*HUB, "run", *given, *self.hub_arguments], environment)

    def start_node(self, name: str) -> None:
        xpub, xsub = self.fronts.get(name, (self.xpub, self.xsub))
        environment = self.environment | {
            "CLUSTER_NODE": name,
            "LIVE_XPUB": f"tcp://127.0.0.1:{xpub}",
            "LIVE_XSUB": f"tcp://127.0.0.1:{xsub}",
            "LIVE_LOGGER": "" if self.with_logger else f"tcp://127.0.0.1:{self.log}",
            "LIVE_LINES": str(self.lines),
        }
        environment |= self.curve
        environment["ZEEKPATH"] = f"{self.folder}:{HERE}:{environment['ZEEKPATH']}"
        given = ["-C", "-i", self.interface] if name.startswith("worker") else []
        self._start(name, [self.zeek, *given, str(HERE / "site.zeek")], environment)

    def _start(self, name: str, program: list[str], environment: dict[str, str]) -> None:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        with (folder / "out").open("ab") as out:
            self.running[name] = subprocess.Popen(
                program, env=environment, cwd=folder, stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )

    def send(self, name: str, number: signal.Signals) -> None:
        self.running[name].send_signal(number)

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        process = self.running.pop(name)
        process.send_signal(number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop_all(self) -> None:
        for name in sorted(self.running, key=lambda name: name == "hub"):
            self.stop(name)

    def complaints(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for path in self.folder.glob("*/out"):
            for line in path.read_text(errors="replace").splitlines():
                if "warning" in line or "error" in line:
                    found[re.sub(r"zeromq_\S+|[\d.]+", "N", line)[:200]] += 1
        return found


class Line:
    """A proxy in front of a port of loopback."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.flows = asyncio.Event()
        self.flows.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> int:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.flows.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                await self.flows.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()

    def reset(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
