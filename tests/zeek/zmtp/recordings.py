"""What was recorded of libzmq 4.3 with Zeek's options: streams of bytes, by connection and direction."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["TO_BROKER", "TO_NODE", "wire"]

TO_BROKER = "node-to-broker"
TO_NODE = "broker-to-node"

_FOLDER = Path(__file__).with_name("recordings")


def wire(name: str) -> dict[tuple[str, str], list[bytes]]:
    """Return the reads of a recording, by connection and direction."""
    reads: dict[tuple[str, str], list[bytes]] = {}
    for line in (_FOLDER / name).read_text().splitlines():
        read = json.loads(line)
        if read["hex"]:
            reads.setdefault((read["connection"], read["dir"]), []).append(bytes.fromhex(read["hex"]))
    return reads
