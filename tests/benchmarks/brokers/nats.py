"""nats-server (Debian: nats-server), with its defaults and a WebSocket listener without TLS and compression."""

from __future__ import annotations

from pathlib import Path

from brokers.broker import Ports, first_line

__all__ = ["Nats"]

_CONFIGURATION = """
listen: "127.0.0.1:{port}"
websocket {{ listen: "127.0.0.1:{websocket_port}", no_tls: true, compression: false }}
"""


class Nats:
    """nats-server."""

    name = "nats"
    package = "nats-server"
    websocket = True

    def version(self) -> str:
        """Return what it says."""
        return first_line("nats-server", "--version").removeprefix("nats-server: ")

    def command(self, ports: Ports, directory: Path) -> list[str]:
        """Start it with a file of its own."""
        file = directory / "nats.conf"
        file.write_text(_CONFIGURATION.format(port=ports[0], websocket_port=ports[1]))
        return ["nats-server", "-c", str(file)]
