"""Record a real cluster with Zeek's own broker and logger: `python -m tests.zeek.live.record --zeek PATH`.

Writes what nodes have sent and received, a line for each message, as `tests/zeek/zmtp/recordings.py` reads it:
`z05-zeek-cluster-parts.jsonl` holds the first seconds of a cluster and its end, `z06-zeek-logs.jsonl` the log batches
of each writer, `z06-zeek-logs.expected.ndjson` the same records as Zeek's own JSON writer has written them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path

from peers.zeek.zmtp.frames import Command, Incoming
from peers.zeek.zmtp.greeting import GREETING_BYTES
from tests.zeek.live.cluster import Cluster
from tests.zeek.live.trial import replay
from tests.zeek.zmtp.recordings import NODE_ID, Step

RECORDINGS = Path(__file__).parents[1] / "zmtp" / "recordings"


class Tap:
    """A TCP proxy in front of one socket of one node, which takes down messages."""

    def __init__(self, port: int, node: str, kind: str, taken: list[Step]) -> None:
        self._port, self._node, self._kind, self._taken = port, node, kind, taken

    async def open(self) -> int:
        """Listen; returns the port."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.close()
            return
        copies = self._copy(reader, far_writer, "send"), self._copy(far_reader, writer, "recv")
        await asyncio.gather(*copies)

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: str) -> None:
        incoming = Incoming(1 << 24)
        greeting = b""
        try:
            while data := await source.read(1 << 16):
                rest = data
                if len(greeting) < GREETING_BYTES:
                    greeting += data
                    rest, greeting = greeting[GREETING_BYTES:], greeting[:GREETING_BYTES]
                incoming.feed(rest)
                while (found := incoming.next_message()) is not None:
                    if not isinstance(found, Command):
                        self._take(way, found.parts)
                    elif found.name in {b"SUBSCRIBE", b"CANCEL"}:
                        self._take(way, [bytes([found.name == b"SUBSCRIBE"]) + found.data])
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            # Before the broker finds out: it tells the other nodes at once.
            if way == "send" and self._kind == "XSUB":
                self._take(way, [b"\0", b""], "gone")
            sink.close()

    def _take(self, way: str, parts: list[bytes], socket: str = "") -> None:
        self._taken.append(Step(time.time(), self._node, socket or self._kind, way == "send", parts))


async def main() -> int:
    """Record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zeek", required=True)
    parser.add_argument("--seconds", type=float, default=15, help="until workers read packets")
    parser.add_argument("--folder", type=Path, default=Path("build/zeek-recorded"))
    given = parser.parse_args()
    environment = dict(os.environ) | {"LIVE_QUIET": "1", "LIVE_JSON": "1"}
    cluster = Cluster(given.folder.resolve(), given.zeek, environment, lines=20, zeeks_proxy=True)
    taken: list[Step] = []
    cluster.log_port = await Tap(cluster.log, "", "PUSH", taken).open()
    cluster.write_layout()
    for name in cluster.nodes:
        taps = Tap(cluster.xpub, name, "XPUB", taken), Tap(cluster.xsub, name, "XSUB", taken)
        cluster.fronts[name] = (await taps[0].open(), await taps[1].open())
        cluster.start_node(name)
        await asyncio.sleep(1)
    await asyncio.sleep(given.seconds)
    await asyncio.to_thread(replay, cluster.sender, 18)
    await asyncio.sleep(8)
    for name in reversed(cluster.nodes):
        await asyncio.to_thread(cluster.stop, name)
        await asyncio.sleep(1)
    write("z05-zeek-cluster-parts.jsonl", without_own([step for step in taken if step.socket != "PUSH"]))
    write("z06-zeek-logs.jsonl", [step for step in taken if step.socket == "PUSH"])
    with (RECORDINGS / "z06-zeek-logs.expected.ndjson").open("w") as expected:
        for path in sorted((cluster.folder / "logger-1").glob("*.log")):
            for record in path.read_text().splitlines():
                expected.write(json.dumps({"path": path.stem, "record": record}) + "\n")
    return 0


def without_own(steps: list[Step]) -> list[Step]:
    """Leave out what nodes have published and got themselves: libzmq drops it, by the id in the second part."""
    start = b"\1" + NODE_ID
    own = {
        step.node: step.parts[0][len(start) : -1]
        for step in steps
        if step.is_sent and step.socket == "XSUB" and step.parts[0].startswith(start)
    }
    return [step for step in steps if step.is_sent or step.socket != "XSUB" or step.parts[1] != own.get(step.node)]


def write(name: str, steps: list[Step]) -> None:
    """Write a recording, a line for each message."""
    with (RECORDINGS / name).open("w") as file:
        for step in steps:
            way = "send" if step.is_sent else "recv"
            parts = [part.hex() for part in step.parts]
            line = {
                "t": round(step.t_s - steps[0].t_s, 6),
                "node": step.node,
                "socket": step.socket,
                "dir": way,
                "parts": parts,
            }
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
