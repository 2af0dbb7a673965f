"""redis-server (Debian: redis-server): no snapshots, no limit on what a subscriber may be behind, else its defaults."""

from __future__ import annotations

from pathlib import Path

from brokers.broker import Ports, first_line

__all__ = ["Redis"]


class Redis:
    """redis-server."""

    name = "redis"
    package = "redis-server"
    websocket = False

    def version(self) -> str:
        """Return its number."""
        words = first_line("redis-server", "--version").split()
        return next((word.removeprefix("v=") for word in words if word.startswith("v=")), "")

    def command(self, ports: Ports, directory: Path) -> list[str]:
        """Start it without a file."""
        options = ["--save", "", "--client-output-buffer-limit", "pubsub 0 0 0", "--dir", str(directory)]
        return ["redis-server", "--bind", "127.0.0.1", "--port", str(ports[0]), *options]
