"""Recordings of libzmq 4.3 with Zeek's options (z01 to z04), and of a cluster of Zeek 8.2.2 (z05, z06).

Those of a real Zeek were taken between its nodes and its own broker and logger.
"""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import NamedTuple

TO_BROKER = "node-to-broker"
TO_NODE = "broker-to-node"

NODE_ID = b"zeek.cluster.nodeid."
"""What the topics begin with by which nodes find each other."""

STORIES = {
    "z01-null-parts.jsonl": 2.0,
    "z02-curve-parts.jsonl": 7.0,
    "z04-node-joins-late-and-broker-restarts-parts.jsonl": 2.0,
    "z05-zeek-cluster-parts.jsonl": inf,
}
"""What was recorded as nodes see it; and of each a moment at which the broker was away, seconds."""

_FOLDER = Path(__file__).with_name("recorded")


def wire(name: str) -> dict[tuple[str, str], list[bytes]]:
    reads: dict[tuple[str, str], list[bytes]] = {}
    for line in (_FOLDER / name).read_text().splitlines():
        read = json.loads(line)
        if read["hex"]:
            reads.setdefault((read["connection"], read["dir"]), []).append(bytes.fromhex(read["hex"]))
    return reads


class Step(NamedTuple):
    t_s: float
    node: str
    socket: str
    is_sent: bool
    parts: list[bytes]

    @property
    def topic(self) -> bytes:
        return self.parts[0] if len(self.parts) > 1 else self.parts[0][1:]


def story(name: str) -> list[Step]:
    steps = []
    for line in (_FOLDER / name).read_text().splitlines():
        one = json.loads(line)
        parts = [bytes.fromhex(part) for part in one["parts"]]
        steps.append(Step(one["t"], one["node"], one["socket"], one["dir"] == "send", parts))
    return sorted(steps, key=lambda step: step.t_s)
