"""Hubs that join clusters, and the connections by which they have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from peers.connections.connection import Connection
from peers.daemon.daemon import Daemon
from peers.daemon.sources import load


@asynccontextmanager
async def running(name: str, peers: list[str], *listen: str) -> AsyncIterator[Daemon]:
    settings = {"listen": ["tcp://127.0.0.1:0", *listen], "peers": peers}
    daemon = Daemon(load(settings, {}), name)
    await daemon.start()
    try:
        yield daemon
    finally:
        for connection in list(daemon.node.connections):
            connection.abort()
        await daemon.stop()


def joined(hub: Daemon) -> list[Connection]:
    found = [one for one in hub.node.connections if one.protocol == "zeek+zmq" and one.handler is not None]
    return sorted(found, key=lambda one: type(one.conversation).__name__)
