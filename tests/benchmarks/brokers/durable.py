"""NATS and Redis as they write to the disk: JetStream in files, the append-only file; and words in Redis's protocol."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokers.broker import Ports
from brokers.nats import Nats
from brokers.redis import Redis

__all__ = ["AppendingRedis", "JetStream", "connected", "redis_command"]


class JetStream(Nats):
    """nats-server with JetStream."""

    def command(self, ports: Ports, directory: Path) -> list[str]:
        """Start it with a folder for streams."""
        command = super().command(ports, directory)
        with (directory / "nats.conf").open("a") as file:
            file.write(f'jetstream {{ store_dir: "{directory}/store" }}\n')
        return command


class AppendingRedis(Redis):
    """redis-server with its append-only file, synced once a second."""

    def command(self, ports: Ports, directory: Path) -> list[str]:
        """Start it with a file."""
        return [*super().command(ports, directory), "--appendonly", "yes", "--appendfsync", "everysec"]


def redis_command(*words: bytes) -> bytes:
    """Return a command as Redis reads it."""
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%s\r\n" % (len(word), word) for word in words])


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    """Connect with a server of this machine."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield line
