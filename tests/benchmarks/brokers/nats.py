"""nats-server (Debian: nats-server), with its defaults, and a WebSocket listener without compression."""

from __future__ import annotations

from pathlib import Path

from brokers.broker import Ports, first_line
from brokers.certificate import Certificate

__all__ = ["Nats"]

_CONFIGURATION = """
listen: "127.0.0.1:{port}"
websocket {{ listen: "127.0.0.1:{websocket_port}", no_tls: true, compression: false }}
"""

_SECURED = """
listen: "127.0.0.1:{port}"
tls {{ cert_file: "{files.certificate}", key_file: "{files.key}" }}
"""


class Nats:
    """nats-server.

    Args:
        certificate: What it shows; without it there is no TLS, and with it no WebSocket listener.
    """

    name = "nats"
    package = "nats-server"

    def __init__(self, certificate: Certificate | None = None) -> None:
        self._certificate = certificate
        self.websocket = certificate is None

    def version(self) -> str:
        """Return what it says."""
        return first_line("nats-server", "--version").removeprefix("nats-server: ")

    def command(self, ports: Ports, directory: Path) -> list[str]:
        """Start it with a file of its own."""
        file = directory / "nats.conf"
        text = _SECURED if self._certificate else _CONFIGURATION
        file.write_text(text.format(port=ports[0], websocket_port=ports[1], files=self._certificate))
        return ["nats-server", "-c", str(file)]
