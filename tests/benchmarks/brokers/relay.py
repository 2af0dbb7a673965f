"""The floor: a relay that writes what it reads, unread, from one publisher to one subscriber. No broker.

It says what the kernel costs (one read, one write, one wake-up) on the way of any broker that copies bytes through a
process. What is above it is the broker's own. It is not a peer, and no goal is compared to it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from brokers.broker import Ports

__all__ = ["Relay"]

_RELAY = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=16)
ends = {}
while len(ends) < 2:
    connection = listener.accept()[0]
    role = connection.recv(1)
    if role:  # else somebody only looked whether the port is open
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.send(role)
        ends[role] = connection
buffer = memoryview(bytearray(256 * 1024))
source, target = ends[b"P"], ends[b"S"]
while size := source.recv_into(buffer):
    target.sendall(buffer[:size])
"""


class Relay:
    """The relay, which is no broker."""

    name = "relay"
    package = ""
    websocket = False

    def version(self) -> str:
        """Say what it is."""
        return f"Python {sys.version.partition(' ')[0]}, recv and send"

    def command(self, ports: Ports, directory: Path) -> list[str]:  # noqa: ARG002 -- it reads no file
        """Start it."""
        return [sys.executable, "-c", _RELAY, str(ports[0])]
