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
from functools import partial
from pathlib import Path

from peers.zeek.zmtp.frames import Command, Incoming
from peers.zeek.zmtp.session import GREETING_BYTES
from tests.zeek.live.cluster import Cluster, Line
from tests.zeek.live.trial import replay
from tests.zeek.zmtp.recordings import NODE_ID, Step

RECORDINGS = Path(__file__).parents[1] / "zmtp" / "recordings"


class Tap:
    def __init__(self, node: str, kind: str, taken: list[Step], is_sent: bool) -> None:  # noqa: FBT001 -- see `Line`
        self._node, self._kind, self._taken, self._is_sent = node, kind, taken, is_sent
        self._incoming = Incoming(1 << 24)
        self._greeting = b""

    def take(self, data: bytes) -> None:
        if len(self._greeting) < GREETING_BYTES:
            read = self._greeting + data
            self._greeting, data = read[:GREETING_BYTES], read[GREETING_BYTES:]
        self._incoming.feed(data)
        while (found := self._incoming.next_message()) is not None:
            if not isinstance(found, Command):
                self._note(found.parts)
            elif found.name in {b"SUBSCRIBE", b"CANCEL"}:
                self._note([bytes([found.name == b"SUBSCRIBE"]) + found.data])

    def end(self) -> None:
        if self._is_sent and self._kind == "XSUB":
            self._note([b"\0", b""], "gone")

    def _note(self, parts: list[bytes], socket: str = "") -> None:
        self._taken.append(Step(time.time(), self._node, socket or self._kind, self._is_sent, parts))


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zeek", required=True)
    parser.add_argument("--seconds", type=float, default=15, help="until workers read packets")
    parser.add_argument("--folder", type=Path, default=Path("build/zeek-recorded"))
    given = parser.parse_args()
    environment = dict(os.environ) | {"LIVE_QUIET": "1", "LIVE_JSON": "1"}
    cluster = Cluster(given.folder.resolve(), given.zeek, environment, lines=20, zeeks_proxy=True)
    taken: list[Step] = []
    cluster.log_port = await Line(cluster.log, partial(Tap, "", "PUSH", taken)).open()
    cluster.write_layout()
    for name in cluster.nodes:
        ports = ((cluster.xpub, "XPUB"), (cluster.xsub, "XSUB"))
        xpub, xsub = [await Line(port, partial(Tap, name, kind, taken)).open() for port, kind in ports]
        cluster.fronts[name] = (xpub, xsub)
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
    start = b"\1" + NODE_ID
    own = {
        step.node: step.parts[0][len(start) : -1]
        for step in steps
        if step.is_sent and step.socket == "XSUB" and step.parts[0].startswith(start)
    }
    return [step for step in steps if step.is_sent or step.socket != "XSUB" or step.parts[1] != own.get(step.node)]


def write(name: str, steps: list[Step]) -> None:
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
