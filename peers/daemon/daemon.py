"""`Daemon`: the composition root. It opens ports, dials peers, has a tick once a second, and stops in order.

```
Settings ─▶ Server (core, links, keepalive)
            ├─ listeners   Connection ─▶ a conversation for each scheme: tcp, tls, unix, ws, wss, zeek, zeek+tcp
            ├─ diallers    one task per --peer: to a hub, a Broker endpoint, a Zeek's WebSocket server
            └─ every second: deadlines, `$hub/overflow`, `$hub/statistics`
```
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import math
import os
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple, cast

import structlog

from hub.errors import CloseCode, StorageError
from hub.limits import Overflow, QueueLimits
from hub.quotas import Resource
from hub.settings.keys import reloaded
from hub.settings.settings import Limits, Settings
from peers.admin.services import add_services
from peers.admin.state import Telling
from peers.connections.broker import broker_connection
from peers.connections.broker_peerings import Peerings
from peers.connections.connection import Connection
from peers.connections.dialler import Dialler, HubDialler, NameDialler, is_name
from peers.connections.listener import Listener, bind, reserve
from peers.connections.tcp import tcp_connection
from peers.connections.unix import unix_connection
from peers.connections.websocket import websocket_connection
from peers.connections.zeek_cluster.cluster import Cluster
from peers.connections.zeek_cluster.remote_end import NO_CURVE, Mechanisms
from peers.connections.zeek_cluster.sockets import logger_connection, publisher_connection, subscriber_connection
from peers.connections.zeek_diallers import BridgeDialler, BrokerDialler, cluster_diallers, tls_server_context
from peers.daemon.reviewing import Vouching, judge_certificate, review
from peers.daemon.sources import Loaded, guarded, is_loopback, reaches_strangers
from peers.journal.folder import JournalFullError
from peers.journal.journal import Journal
from peers.journal.remote_journals import NoJournal
from peers.server.memory import MemoryWatch
from peers.server.server import Connected, Server
from peers.transport.endpoints import Endpoint, Scheme
from peers.transport.tls import server_context
from peers.transport.tls_transport import TlsTransport
from peers.transport.transport import end_all
from peers.users.users import Users, read_users
from peers.values import conversion  # noqa: F401 -- needed late, when there may be no descriptor left to import it with


class Part(enum.Enum):
    """Part of a hub."""

    WHOLE = enum.auto()  # A hub of one process
    CORE = enum.auto()  # Linked with all workers; it has the clients that no network brings
    WORKER = enum.auto()  # One of several that share the ports

    def is_kept(self, endpoint: Endpoint) -> bool:
        """Return whether this process keeps the port of a listener for workers."""
        return self is Part.CORE and endpoint.scheme.is_for_clients

    def is_open(self, endpoint: Endpoint) -> bool:
        """Return whether this process listens there, or keeps the port."""
        return self is not Part.WORKER or endpoint.scheme.is_for_clients


RESERVED_DESCRIPTORS = 64  # Kept for listeners, logs, links and the event loop, out of the process's limit
_OPEN_MAX = 10_240  # The most that macOS lets a process open, even with a higher limit
# Where descriptors are too few: largest part for shared memory, and of the rest for newcomers
_SHARED_PART, _NEWCOMERS_PART = 8, 4
_TICK_S = 1.0

# How often a journal or stores without room are opened again: the hub waits meanwhile, for up to 0.2 s where segments
# or stores are read
_TRY_AGAIN_S = 5.0


class Prepared(NamedTuple):
    """Changes of a reload, read and checked."""

    settings: Settings  # The old ones with the live keys of the new ones
    origins: Mapping[str, str]
    users: Users
    tls: ssl.SSLContext | None  # Of listeners on `tls://` and `wss://`
    vouching: Vouching
    applied: list[str]  # Changed keys that are taken
    needs_restart: list[str]  # Changed keys that are not


def descriptors_of_connections(limits: Limits) -> int:
    """Return how many descriptors the connections that are allowed need, with those for the hub itself."""
    return limits.connections + limits.newcomers + limits.tls_handshakes + RESERVED_DESCRIPTORS


class Daemon:
    """A running hub: its listeners, its diallers, its journal and its clock."""

    def __init__(self, loaded: Loaded, name: str, part: Part = Part.WHOLE) -> None:
        loaded, self.has_new_admin = guarded(loaded, os.environ)  # Whether the admin's token was made at this start
        self.server = Server(loaded.settings, name=name)
        self.server.origins = loaded.origins
        self.part = part
        add_services(self.server)
        self._peerings = Peerings(self.server)
        self.endpoints: list[Endpoint] = []  # Where it listens, with the ports that were picked for port 0
        self._loaded = loaded  # The settings in force; `reload` changes them
        self._servers: list[Listener] = []  # Open listeners, and the ports that are kept for workers
        self._tasks: list[asyncio.Task[None]] = []  # One task for each peer that is dialled
        self._tick: asyncio.Handle | None = None  # The timer of the next second
        self._due_s = math.inf  # When that second begins
        self._journal: Journal | None = None
        self._next_try_s = 0.0  # When the journal and stores are opened again, if there was no room
        self._memory_watch = MemoryWatch(self.server.memory)
        self._warned_of_memory = False  # Whether the last log line said that there is too little memory
        self._tls: ssl.SSLContext | None = None  # Of all listeners on `tls://` and `wss://`
        self._vouching = Vouching()  # Which certificates are good, as of the last reload
        self._mechanisms = NO_CURVE  # For nodes of Zeek clusters; set at the start
        self._telling = Telling(self.server)
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")

    @property
    def listen(self) -> tuple[Endpoint, ...]:
        return self._loaded.listen

    async def start(self) -> None:
        """Listen and dial, or raise a `HubError` for a wrong setting, file or address; then nothing is left open."""
        self._fit_descriptors()
        settings = self.server.settings
        self._mechanisms = Mechanisms(settings.zeek, self.server.access.allows_curve_key)
        if settings.journal.path:
            self._open_journal()
        try:
            self._open_stores()
            for endpoint in self._loaded.listen:
                if self.part.is_open(endpoint):
                    await self._open(endpoint)
        except BaseException:
            self._close_servers()
            self._peerings.stores.close()
            await self.server.stores.stop()
            if self._journal is not None:
                await self._journal.stop()
            raise
        self._warn_of_strangers()
        for peer in self._loaded.peers:
            for dialler in self._diallers(peer):
                self._tasks.append(self.server.loop.create_task(dialler.run(), name=f"link to {peer.location}"))
        self.server.second_s = self.server.loop.time()
        self._plan_second()
        self.server.ready = True

    def _open_journal(self) -> None:
        server, settings = self.server, self.server.settings
        before = server.journal.trouble
        try:
            server.journal = self._journal = Journal(server.core, settings.journal, settings.limits)
        except StorageError as error:
            if not (isinstance(error, JournalFullError) or before):
                raise
            trouble = f"the journal could not be opened: {error}; make room: it is tried again every few seconds"
            if trouble != before:
                server.journal = NoJournal(trouble)
                self._log.error("nothing is recorded", reason=trouble)
        else:
            if before:
                self._log.info("the journal is open now")

    def _open_stores(self) -> None:
        server = self.server
        server.stores.open(server.settings.stores)
        if server.stores.trouble:
            return
        own_id = self._peerings.own_id
        self._peerings.stores.open()
        if self._peerings.own_id != own_id:  # a store had another one from before: Zeeks come again
            for connection in [one for one in server.connections if one.protocol in {Scheme.ZEEK, Scheme.ZEEK_TCP}]:
                connection.end(CloseCode.GOING_AWAY, "the stores of this hub are open, and with them it has another id")

    def _open_again(self) -> None:
        server = self.server
        if server.draining or server.second_s < self._next_try_s:
            return
        self._next_try_s = server.second_s + _TRY_AGAIN_S
        if server.settings.journal.path and self._journal is None:
            self._open_journal()
        if server.stores.trouble:
            self._open_stores()

    async def _open(self, endpoint: Endpoint) -> None:
        if endpoint.scheme is Scheme.ZEEK_ZMQ:
            self.endpoints.append(await self._open_cluster(endpoint))
        elif self.part.is_kept(endpoint):
            kept, bound = await reserve(endpoint, self.server.loop)
            self._servers.append(kept)
            self.endpoints.append(bound)
        else:
            self.endpoints.append(await self._bind(endpoint, self._maker(endpoint)))

    async def _open_cluster(self, endpoint: Endpoint) -> Endpoint:
        mechanism = self._mechanisms.served
        cluster = Cluster(self.server, serializer=endpoint.serializer, mechanism=mechanism)
        queue = self._queue(endpoint)
        first = await self._bind(endpoint, lambda: subscriber_connection(cluster, queue))
        second = await self._bind(endpoint.with_port(endpoint.xsub), lambda: publisher_connection(cluster, queue))
        return dataclasses.replace(first, xsub=second.port)

    async def _bind(self, endpoint: Endpoint, make: Callable[[], asyncio.BaseProtocol]) -> Endpoint:
        server, bound = await bind(
            endpoint,
            make,
            self.server.loop,
            self._shed,
            int(self.server.settings.unix.mode, 8),
            shares_port=self.part is Part.WORKER,
        )
        self._servers.append(server)
        return bound

    async def stop(self, until_s: float | None = None, others: Callable[[], Awaitable[None]] | None = None) -> None:
        """Stop accepting, write queues within the grace period, close with 1001; abort connections that are left.

        Args:
            until_s: End of the grace period, by the loop's clock; by default `limits.drain_s` from now.
            others: Waits until the other processes of this hub have all messages that were published here.
        """
        server = self.server
        server.draining = True
        server.ready = False
        self._close_servers()
        server.handshakes.close()
        await end_all(self._tasks)
        if until_s is None:
            until_s = server.loop.time() + server.settings.limits.drain_s
        await self.settle()
        if others is not None:
            await others()
            await self.settle()
        for connection in list(server.connections):
            connection.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                await server.wait_released()
        for connection in list(server.connections):
            connection.abort()
        await asyncio.sleep(0)
        if self._tick is not None:
            self._tick.cancel()
        self._peerings.stores.close()
        await server.stores.stop()
        if self._journal is not None:
            await self._journal.stop()

    async def settle(self) -> None:
        """Write the messages of this turn, and wait until they are recorded and confirmed."""
        self.server.core.flush()
        await self.server.journal.settle()

    def prepare(self, loaded: Loaded) -> Prepared:
        """Read everything that a reload can change, and change nothing; called in any thread."""
        guarded_again, _ = guarded(dataclasses.replace(loaded, listen=self._loaded.listen), os.environ)
        settings, applied, needs_restart = reloaded(self.server.settings, guarded_again.settings)
        users = read_users(settings.access, settings.zeek)
        tls = None
        if any(endpoint.scheme.is_secure for endpoint in self._loaded.listen):  # also where workers listen in its place
            tls = server_context(settings.tls)
        origins = {**guarded_again.origins, **{path: self.server.origins[path] for path in needs_restart}}
        return Prepared(settings, origins, users, tls, Vouching.read(settings.tls), applied, needs_restart)

    def take_over(self, prepared: Prepared) -> tuple[list[str], list[str]]:
        """Put prepared changes in force; return the changed keys that are in force, and those that need a restart."""
        server, settings = self.server, prepared.settings
        if self._tls is not None:
            self._tls = prepared.tls
        self._vouching = prepared.vouching
        server.access.adopt(prepared.users)
        server.core.authority.adopt(prepared.users.policy)
        self._loaded = dataclasses.replace(self._loaded, settings=settings)
        server.settings, server.origins = settings, prepared.origins
        self._fit_descriptors()
        return prepared.applied, prepared.needs_restart

    async def review(self, *, was_open: bool) -> int:
        return await review(self.server, self._vouching, was_open=was_open)

    def _tls_of(self, endpoint: Endpoint) -> ssl.SSLContext | None:
        settings = self.server.settings
        if endpoint.scheme is Scheme.ZEEK:
            return tls_server_context(settings.zeek)
        if not endpoint.scheme.is_secure:
            return None
        if self._tls is None:
            self._tls = server_context(settings.tls)
        return self._tls

    def _fail_tls(self, address: str, reason: str) -> None:
        self.server.tls_failures += 1
        self._log.warning("TLS handshake failed", address=address, reason=reason)

    def _maker(self, endpoint: Endpoint) -> Callable[[], asyncio.BaseProtocol]:
        make, context = self._plain_maker(endpoint), self._tls_of(endpoint)
        if context is None:
            return make
        handshakes = self.server.handshakes
        fail = self._peerings.fail_tls if endpoint.scheme.is_zeek else self._fail_tls
        if endpoint.scheme is Scheme.ZEEK:
            return lambda: TlsTransport(context, make, handshakes, fail)

        def begin() -> TlsTransport:
            context = cast("ssl.SSLContext", self._tls)

            def made() -> asyncio.BaseProtocol:
                connection = make()
                if context is not self._tls:  # a reload has come within the handshake
                    self.server.after_turn(lambda: judge_certificate(cast("Connected", connection), self._vouching))
                return connection

            return TlsTransport(context, made, handshakes, fail)

        return begin

    def _plain_maker(self, endpoint: Endpoint) -> Callable[[], asyncio.BaseProtocol]:
        loopback = is_loopback(endpoint)
        if endpoint.scheme.is_websocket:
            return lambda: websocket_connection(self.server, self._queue(endpoint), loopback=loopback)
        if endpoint.scheme is Scheme.ZEEK_LOG:
            return lambda: logger_connection(self.server, self._queue(endpoint), self._mechanisms.served)
        if endpoint.scheme.is_zeek:
            return lambda: broker_connection(self._peerings, self._queue(endpoint))
        if endpoint.scheme is Scheme.UNIX:
            return lambda: unix_connection(self.server, self._queue(endpoint), cost=endpoint.cost)
        return lambda: tcp_connection(self.server, self._queue(endpoint), cost=endpoint.cost)

    async def take(self, sock: socket.socket) -> None:
        """Serve a pair of connected Unix sockets whose other end is in this process."""
        make = self._maker(Endpoint(Scheme.UNIX, path="/in/this/process"))
        await self.server.loop.connect_accepted_socket(make, sock)

    async def link(self, sock: socket.socket, address: str, *, dialled: bool) -> Connection:
        """Link with another process of this hub over a Unix socket; `lost` is done once the link is gone."""
        most = self.server.settings.queue_max  # a message lost here is lost for all clients behind this link
        queue = QueueLimits(most.messages, most.bytes, Overflow.DROP_OLDEST)
        connection = tcp_connection(self.server, queue, dialled=dialled, trusted=True, address=address)
        connection.lost = self.server.loop.create_future()
        self.server.ticker.leave_out(connection)
        await self.server.loop.create_unix_connection(lambda: connection, sock=sock)
        return connection

    def _diallers(self, peer: Endpoint) -> tuple[Dialler | NameDialler, ...]:
        if peer.scheme is Scheme.ZEEK_ZMQ:
            return cluster_diallers(self.server, peer, self._queue(peer), mechanism=self._mechanisms.dialled)
        if peer.scheme is Scheme.ZEEK_WS:
            return (BridgeDialler(self.server, peer, self._queue(peer)),)
        if peer.scheme.is_zeek:
            return (BrokerDialler(self._peerings, peer, self._queue(peer)),)
        if is_name(peer):
            return (NameDialler(self.server, peer, lambda address: self._hub_dialler(peer, address)),)
        return (self._hub_dialler(peer),)

    def _hub_dialler(self, peer: Endpoint, address: str = "") -> Dialler:
        return HubDialler(self.server, peer, self.server.settings.queue, address=address)

    def _warn_of_strangers(self) -> None:
        named = {endpoint.host.lower() for endpoint in self.endpoints if endpoint.scheme.is_websocket}
        self.server.host_names = frozenset(named | {socket.gethostname().lower()})
        role = self.server.access.anonymous
        for endpoint in self.endpoints:
            if role and self.part is not Part.WORKER and reaches_strangers(endpoint, self.server.settings):
                self._log.warning("clients without credentials are admitted", on=endpoint.location, role=role)

    def _queue(self, endpoint: Endpoint) -> QueueLimits:
        return endpoint.queue.applied_to(self.server.settings.queue)

    def _shed(self) -> None:
        self.server.admission.shed += 1
        self._log.warning("connection closed: no file descriptor is left", so_far=self.server.admission.shed)

    def _fit_descriptors(self) -> None:
        admission, limits = self.server.admission, self.server.settings.limits
        listens_unix = any(endpoint.scheme is Scheme.UNIX for endpoint in self._loaded.listen)
        shared = self.server.settings.shm.descriptors if listens_unix else 0
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = descriptors_of_connections(limits) + shared
        if soft != resource.RLIM_INFINITY and soft < needed:
            wanted = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
            for number in (wanted, min(wanted, _OPEN_MAX)):
                with suppress(OSError, ValueError):
                    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
                    soft = number
                    break
        admission.limit, admission.places.limit = limits.connections, limits.newcomers
        admission.address_limit = limits.connections_per_address
        self.server.handshakes.places.limit = limits.tls_handshakes
        self.server.handshakes.limit_s = limits.tls_handshake_s
        if soft != resource.RLIM_INFINITY and soft < needed:
            shared = min(shared, soft // _SHARED_PART)
            room = max(2, soft - RESERVED_DESCRIPTORS - shared)
            admission.places.limit = min(limits.newcomers, max(1, room // _NEWCOMERS_PART))
            self.server.handshakes.places.limit = min(limits.tls_handshakes, admission.places.limit)
            admission.limit = min(limits.connections, room - admission.places.limit)
            self._log.warning(
                "fewer connections than set",
                limit=admission.limit,
                newcomers=admission.places.limit,
                set=limits.connections,
                nofile=soft,
            )
        self.server.shared.descriptors.limit = shared
        quotas = self.server.core.quotas
        quotas.set_total(Resource.CONNECTIONS, admission.limit)
        quotas.set_total(Resource.DESCRIPTORS, shared)

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
        self._servers = []

    def _plan_second(self) -> None:
        self._due_s = math.floor(self.server.loop.time()) + _TICK_S
        self._tick = self.server.loop.call_at(self._due_s, self._second)

    def _second(self) -> None:
        server, due_s = self.server, self._due_s
        self._plan_second()
        now_s = server.second_s = server.loop.time()
        parts: tuple[Callable[[], object], ...] = (
            lambda: server.keepalive.tick(now_s),
            server.audit.tick,
            server.marks.tick,
            server.remote_consumers.tick,
            lambda: self._report_drops(now_s),
            lambda: server.ticker.beat(now_s, now_s - due_s),
            lambda: server.core.tick(now_s),
            self._memory_watch.tick,
            self._report_memory,
            self._journal.tick if self._journal is not None else lambda: None,
            self._open_again,
            self._telling.tick,
        )
        for part in parts:
            try:
                part()
            except Exception as error:  # noqa: BLE001 -- the last line of defence
                self._log.exception(
                    "the work of this second failed because of a bug, please report it", error=repr(error)
                )

    def _report_drops(self, now_s: float) -> None:
        for event in self.server.core.report_drops():
            unreadable = event.topic.endswith("unreadable")
            self._log.warning("messages not readable there" if unreadable else "messages dropped", **event.value)
            self.server.ticker.lose(math.floor(now_s), event.value)

    def _report_memory(self) -> None:
        statistics = self.server.memory.statistics()
        if statistics.is_over is self._warned_of_memory:
            return
        self._warned_of_memory = statistics.is_over
        if statistics.is_over:
            self._log.warning(
                "too little memory: new connections, subscriptions and other new state are rejected",
                resident=statistics.resident_bytes,
                limit=statistics.limit_bytes,
                **statistics.charged_bytes,
            )
        else:
            self._log.info("there is enough memory again", resident=statistics.resident_bytes)
