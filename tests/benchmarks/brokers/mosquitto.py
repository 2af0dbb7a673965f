"""mosquitto (Debian: mosquitto): TCP and WebSocket listeners, no log, no `$SYS`, no limit on queues."""

from __future__ import annotations

from pathlib import Path

from brokers.broker import Ports, first_line

__all__ = ["Mosquitto"]

_CONFIGURATION = """
user root
per_listener_settings false
allow_anonymous true
persistence false
log_type none
sys_interval 0
max_queued_messages 0
set_tcp_nodelay true
listener {port} 127.0.0.1
listener {websocket_port} 127.0.0.1
protocol websockets
"""


class Mosquitto:
    """mosquitto."""

    name = "mosquitto"
    package = "mosquitto"
    websocket = True

    def version(self) -> str:
        """Return its number."""
        line = first_line("mosquitto", "-h")
        return line.removeprefix("mosquitto version ") if line.startswith("mosquitto version") else ""

    def command(self, ports: Ports, directory: Path) -> list[str]:
        """Start it with a file of its own."""
        file = directory / "mosquitto.conf"
        file.write_text(_CONFIGURATION.format(port=ports[0], websocket_port=ports[1]))
        return ["mosquitto", "-c", str(file)]
