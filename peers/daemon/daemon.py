"""`Daemon`: the composition root. It opens ports, dials peers, keeps the second hand, and stops in order.

```
Settings ─▶ Node (core, links, keepalive)
            ├─ listeners   tcp, unix ─▶ peers.tcp.Connection      ws ─▶ peers.websocket.WebSocketConnection
            │              zeek, zeek+tcp ─▶ peers.zeek.peering.PeeringConnection
            ├─ diallers    one task per --peer: Dialler, ZeekDialler, ZeekBridge
            └─ every second: deadlines, `$hub/overflow`, `$hub/statistics`
```

Owner of the state: one event loop. Everything else can be built in a test without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Callable
from typing import Any

import structlog

from hub.events import STATISTICS_TOPIC, Event
from hub.overflow import QueueLimits
from peers.daemon.sources import Loaded
from peers.endpoints import Endpoint, Scheme
from peers.journal.journal import Journal
from peers.node import Node
from peers.tcp.connection import Connection
from peers.tcp.dialler import Dialler
from peers.tcp.listener import bind
from peers.unix import UnixConnection
from peers.websocket.connection import WebSocketConnection
from peers.zeek.bridge import ZeekBridge
from peers.zeek.peering.connection import PeeringConnection
from peers.zeek.peering.dialler import ZeekDialler
from peers.zeek.peering.peerings import Peerings
from peers.zeek.tls import server_context

__all__ = ["RESERVED_DESCRIPTORS", "Daemon"]

RESERVED_DESCRIPTORS = 64
"""File descriptors kept for listeners, logs, links and the event loop, out of the process's limit."""

_SHARED_PART = 8
"""Where the process may open fewer descriptors than it should, one in so many at most is for shared memory."""

_TICK_S = 1.0
_HANDLERS_PER_MESSAGE = 256
"""`$hub/statistics` lists so many handlers a message: about 64 KiB."""


class Daemon:
    """A running hub."""

    def __init__(self, loaded: Loaded, name: str) -> None:
        self.node = Node(loaded.settings, name=name)
        self._peerings = Peerings(self.node)
        self.endpoints: list[Endpoint] = []
        self._loaded = loaded
        self._servers: list[asyncio.Server] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._tick: asyncio.TimerHandle | None = None
        self._journal: Journal | None = None
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")

    async def start(self) -> None:
        """Listen and dial.

        Raises:
            ListenError: An address cannot be listened on; nothing is left open.
            TlsError: TLS towards Zeeks cannot be set up; nothing is left open.
            JournalCorruptError, JournalUnavailableError: The journal cannot be opened; nothing is left open.
        """
        self._fit_descriptors()
        settings = self.node.settings
        if settings.journal.path:
            self.node.journal = self._journal = Journal(self.node.core, settings.journal, settings.limits)
        try:
            for endpoint in self._loaded.listen:
                tls = server_context(self.node.settings.zeek) if endpoint.scheme is Scheme.ZEEK else None
                server, bound = await bind(endpoint, self._maker(endpoint), self.node.loop, tls)
                self._servers.append(server)
                self.endpoints.append(bound)
        except BaseException:
            self._close_servers()
            if self._journal is not None:
                await self._journal.stop()
            raise
        for peer in self._loaded.peers:
            self._tasks.append(self.node.loop.create_task(self._dialler(peer).run(), name=f"link to {peer.location}"))
        self._tick = self.node.loop.call_later(_TICK_S, self._second)
        self.node.ready = True

    async def stop(self) -> None:
        """Stop accepting, write out what is queued within the grace period, close with 1001."""
        node = self.node
        node.draining = True
        node.ready = False
        self._close_servers()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        node.core.flush()
        if self._journal is not None:
            await self._journal.settle()
        for connection in list(node.connections):
            connection.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(node.settings.limits.drain_s):
                await node.wait_released()
        for connection in list(node.connections):
            connection.abort()
        await asyncio.sleep(0)
        if self._tick is not None:
            self._tick.cancel()
        if self._journal is not None:
            await self._journal.stop()

    def reload(self, loaded: Loaded) -> list[str]:
        """Take over settings for connections to come.

        Returns:
            The keys that have changed but need a restart.
        """
        old, new = self._loaded.settings, loaded.settings
        needs_restart = [key for key in ("name", "listen", "peers") if getattr(old, key) != getattr(new, key)]
        if old.limits.routes != new.limits.routes:
            needs_restart.append("limits.routes")
        if old.limits.prefixes_per_client != new.limits.prefixes_per_client:
            needs_restart.append("limits.prefixes_per_client")
        needs_restart += [key for key in ("zeek", "journal", "shm") if getattr(old, key) != getattr(new, key)]
        self._loaded = loaded
        self.node.settings = new
        self._fit_descriptors()
        return needs_restart

    def _maker(self, endpoint: Endpoint) -> Callable[[], asyncio.BaseProtocol]:
        loopback = endpoint.host in {"localhost", "::1"} or endpoint.host.startswith("127.")
        if endpoint.scheme is Scheme.WS:
            return lambda: WebSocketConnection(self.node, self._queue(endpoint), loopback=loopback)
        if endpoint.scheme.is_zeek:
            return lambda: PeeringConnection(self._peerings, self._queue(endpoint))
        if endpoint.scheme is Scheme.UNIX:
            return lambda: UnixConnection(self.node, self._queue(endpoint))
        return lambda: Connection(self.node, self._queue(endpoint))

    def _dialler(self, peer: Endpoint) -> Dialler | ZeekBridge:
        if peer.scheme is Scheme.ZEEK_WS:
            return ZeekBridge(self.node, peer, self._queue(peer))
        if peer.scheme.is_zeek:
            return ZeekDialler(self._peerings, peer, self._queue(peer))
        return Dialler(self.node, peer, self.node.settings.queue)

    def _queue(self, endpoint: Endpoint) -> QueueLimits:
        return endpoint.queue.applied_to(self.node.settings.queue)

    def _fit_descriptors(self) -> None:
        """Keep the limit of connections below what the process may open, so that running out is never a surprise."""
        wanted = self.node.settings.limits.connections
        listens_unix = any(endpoint.scheme is Scheme.UNIX for endpoint in self._loaded.listen)
        shared = self.node.settings.shm.descriptors if listens_unix else 0
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = wanted + RESERVED_DESCRIPTORS + shared
        if soft != resource.RLIM_INFINITY and soft < needed:
            soft = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.node.connections_limit = wanted
        if soft != resource.RLIM_INFINITY and soft < needed:
            shared = min(shared, soft // _SHARED_PART)
            self.node.connections_limit = max(1, soft - RESERVED_DESCRIPTORS - shared)
            self._log.warning("fewer connections than set", limit=self.node.connections_limit, set=wanted, nofile=soft)
        self.node.shared.descriptors.limit = shared

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
        self._servers = []

    def _second(self) -> None:
        """What happens once a second."""
        node = self.node
        self._tick = node.loop.call_later(_TICK_S, self._second)  # first: a bug below must not stop the clock
        node.keepalive.tick(node.loop.time())
        for event in node.core.report_drops():
            self._log.warning("messages dropped", **event.value)
        if self._journal is not None:
            self._journal.tick()
        self._announce_statistics()

    def _announce_statistics(self) -> None:
        core = self.node.core
        if not core.is_wanted(STATISTICS_TOPIC):
            return
        handlers = core.handler_statistics()
        totals: dict[str, Any] = {"hub": self.node.name, "at_s": self.node.loop.time(), "handlers": len(handlers)}
        for first in range(0, max(1, len(handlers)), _HANDLERS_PER_MESSAGE):
            some = [one._asdict() for one in handlers[first : first + _HANDLERS_PER_MESSAGE]]
            core.announce(Event(STATISTICS_TOPIC, totals | {"first": first, "some": some}))
