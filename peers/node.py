"""`Node`: what all connections of one hub share: the core, its identity, its limits, its clock.

Made by the daemon, or by a test; handed to every listener and dialler. Owner of the state: the event loop. It counts
connections against their limit and keeps the links by the id of their hub.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Protocol

import structlog

from hub.core import Core
from hub.names.names import NameLimits
from hub.overflow import QueueLimits
from hub.settings import Settings
from peers.journal.journal import NoJournal, Recording
from peers.keepalive import Keepalive
from peers.links import Links
from peers.shm.sharing import SharedMemory
from peers.wire.hello import ID_BYTES, Hello, QueueWish

__all__ = ["LINGER_S", "Connected", "Node"]

LINGER_S = 2.0
"""How long a connection that was closed here may take to read why, seconds."""


class Connected(Protocol):
    """An open connection of any kind."""

    def drain(self) -> None:
        """The hub stops: write what is queued, then close with 1001."""

    def abort(self) -> None:
        """End it now."""


class Node:
    """One hub: its core and what its connections have in common."""

    def __init__(self, settings: Settings, *, name: str = "hub", hub_id: bytes = b"") -> None:
        self.settings = settings
        self.name = name
        self.id = hub_id or secrets.token_bytes(ID_BYTES)
        self.loop = asyncio.get_running_loop()
        self.core = Core(
            self._wake,
            routes_limit=settings.limits.routes,
            routes_limit_bytes=settings.limits.routes_bytes,
            prefixes_limit=settings.limits.prefixes_per_client,
            rules_limit=settings.limits.rules_per_client,
            asked_of_leaves=settings.zeek.topics,
            requests=settings.requests,
            wake_at=self._expire_at,
            hub_id=self.id,
            name_limits=NameLimits(settings.names.per_client, settings.names.queue, settings.names.total),
        )
        self.keepalive = Keepalive(self.loop.time())
        self.links = Links(self.id)
        self.journal: Recording = NoJournal()
        self.shared = SharedMemory(settings.shm)
        self.connections: dict[Connected, None] = {}
        self.connections_limit = settings.limits.connections
        self.refused_connections = 0
        self.accepted_connections = 0
        self.rejected_messages = 0
        self.draining = False
        self.ready = False
        self._released: asyncio.Event | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self.log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")

    def _wake(self) -> None:
        self.loop.call_soon(self.core.flush)

    def _expire_at(self, due_ms: int) -> None:
        """Time requests out then, and no longer at what was said before."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self.loop.call_at(due_ms / 1000, self.expire)

    def expire(self) -> None:
        """Answer the requests that have waited for too long."""
        self.core.requests.expire(self.now_ms())

    def now_ms(self) -> int:
        """The loop's clock, ms, as requests are timed by it."""
        return int(self.loop.time() * 1000)

    def admit(self, connection: Connected) -> str:
        """Count a new connection in; return why it is refused instead, or an empty text."""
        if self.draining:
            return "the hub is stopping"
        if len(self.connections) >= self.connections_limit:
            self.refused_connections += 1
            return f"{self.connections_limit} connections are open, which is the limit"
        self.accepted_connections += 1
        self.connections[connection] = None
        return ""

    def release(self, connection: Connected) -> None:
        """Count a connection out."""
        self.connections.pop(connection, None)
        if not self.connections and self._released is not None:
            self._released.set()

    async def wait_released(self) -> None:
        """Wait until no connection is open any more."""
        if self.connections:
            self._released = asyncio.Event()
            await self._released.wait()

    def hello(self, granted: QueueLimits | None = None) -> Hello:
        """What this hub says of itself."""
        queue = None if granted is None else QueueWish(granted.messages, granted.bytes, granted.overflow)
        return Hello(
            protocol=1,
            role="hub",
            id=self.id,
            name=self.name,
            queue=queue,
            frame=self.settings.limits.frame_bytes,
            journal=self.journal.id,
        )

    @property
    def unready(self) -> str:
        """Why this hub should not be given clients now, empty if it should."""
        if self.draining:
            return "the hub is stopping"
        return self.journal.trouble if self.ready else "the hub is starting"

    def after_turn(self, act: Callable[[], object]) -> None:
        """Call `act` once this turn of the loop is over."""
        self.loop.call_soon(act)

    def wall_us(self) -> int:
        """Return the time, µs since 1970."""
        return time.time_ns() // 1000
