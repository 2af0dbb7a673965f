"""Run a daemon in a process: event loop, log, signals. SIGTERM and SIGINT stop it at once, `$hub/drain` gradually.

```
$hub/drain ─▶ no client is admitted, /readyz says 503
           ─▶ every 20 ms: some clients more, each once its requests are answered (2 s at most) and its queue is
              written: CLOSE 1001 "the hub stops; retry after N s"
           ─▶ all have gone, or `drain.time_s` is over ─▶ the hub stops, as SIGTERM stops it
```

Clients that are closed at once come back at once. So they are closed over a time, each with a random time to wait, up
to `drain.retry_after_s`. Links stay until the end: messages of remaining clients go on.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

import structlog

from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.topics import RESERVED
from peers.daemon.daemon import Daemon, Part
from peers.daemon.logs import OutputQueue, RateLimit, configure, log_statistics, queue_output, report_suppressed
from peers.daemon.reloading import Reloading
from peers.daemon.service_manager import ServiceManager
from peers.daemon.sources import Loaded
from peers.server.audit import By
from peers.server.memory import GarbageWatch, keep_freed_memory
from peers.server.server import HUB_STOPS, Server, connection_of
from peers.wire.control import with_retry
from peers.wire.hello import fitting_name

_SUPPRESSED_REPORT_S = 5
_COLLECTED_S = 1.0
_GROUP_S: Final = 0.02  # Two clients at the default rate, and 200 at the largest one, which takes 10 ms of a turn
_ANSWERED_S: Final = 2.0  # How long a client is kept, from its turn on, for pending requests of it or to it


class Draining:
    """Moves clients off a hub that is taken out of service, and then stops it."""

    def __init__(self, server: Server, stop: Callable[[], object], settle: Callable[[], Awaitable[None]]) -> None:
        self._server = server
        self._stop = stop
        self._settle = settle
        self._task: asyncio.Task[None] | None = None  # Runs from `begin` on
        self._answered_until_s: dict[int, float] = {}  # Id of a client with pending requests → until when it is kept

    def answer(self, handler: By | None, value: Any) -> dict[str, Any]:  # noqa: ARG002 -- any question
        """Answer a request to `$hub/drain`: begin, and return the `outlook`."""
        self.begin(handler)
        return self.outlook()

    def outlook(self) -> dict[str, Any]:
        """Return how many clients there are and how long it takes, about."""
        clients = len(self._clients())
        return {"clients": clients, "seconds": round(clients / self._server.settings.drain.clients_per_s, 1)}

    def begin(self, by: By | None) -> None:
        if self._task is not None:
            return
        server = self._server
        server.draining = True
        clients = self._clients()
        server.audit.did(by, "drain", clients=len(clients))
        server.log.info("draining", clients=len(clients), per_s=server.settings.drain.clients_per_s)
        self._task = server.loop.create_task(self._run(clients), name="drain")

    async def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _clients(self) -> deque[Handler]:
        """Return the clients: those that do not subscribe first, so that what they publish still finds its readers."""
        return deque(sorted(self._those_left(), key=lambda one: bool(one.prefixes)))

    def _those_left(self) -> Iterator[Handler]:
        return (one for one in self._server.core.handlers.values() if one.role is Role.CLIENT and not one.closed)

    async def _run(self, clients: deque[Handler]) -> None:
        loop, settings = self._server.loop, self._server.settings.drain
        until_s = loop.time() + settings.time_s
        due = 0.0
        while loop.time() < until_s and (clients or any(True for _ in self._those_left())):
            due += settings.clients_per_s * _GROUP_S
            if clients and due >= 1:
                await self._settle()
            for _ in range(min(int(due), len(clients))):
                due -= 1
                handler = clients.popleft()
                if self._is_awaited(handler):
                    clients.append(handler)
                else:
                    self._move(handler, settings.retry_after_s)
            await asyncio.sleep(_GROUP_S)
        self._stop()

    def _is_awaited(self, handler: Handler) -> bool:
        if not self._server.core.requests.has_pending(handler):
            return False
        now_s = self._server.loop.time()
        return now_s < self._answered_until_s.setdefault(handler.id, now_s + _ANSWERED_S)

    def _move(self, handler: Handler, retry_after_s: float) -> None:
        if handler.closed or handler.id not in self._server.core.handlers:
            return
        self._server.drained_clients += 1
        connection = connection_of(handler)
        text = with_retry(HUB_STOPS, random.uniform(0.0, retry_after_s))  # noqa: S311 -- spread, not secrecy
        connection.drain(text)


class Crew(Protocol):
    """The workers of a hub: see `peers.workers.workers.Workers`."""

    async def start(self) -> None: ...

    def adopt(self, draining: Draining, reloading: Reloading) -> None: ...

    def when_drained(self, act: Callable[[], object]) -> None: ...

    def reload(self) -> None: ...

    def begin_stop(self, until_s: float) -> None: ...

    async def stop(self, until_s: float) -> None: ...


def run(
    load: Callable[[], Loaded],
    announce: Callable[[Daemon], None],
    make_crew: Callable[[Daemon], Crew | None] = lambda _: None,
) -> None:
    """Run a hub in this process; errors of the start are raised.

    Args:
        load: Reads the settings; called now, and again at SIGHUP.
        announce: Called once everything is open, to print where.
        make_crew: Makes the workers, if `workers` asks for some.
    """
    manager = ServiceManager.taken_from(os.environ)
    loaded = load()
    log_queue = queue_output()
    limit = configure(loaded.settings.log)
    keep_freed_memory()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            runner.run(_serve(loaded, load, announce, make_crew, limit=limit, log_queue=log_queue, manager=manager))
        finally:
            manager.end()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Choose uvloop where it is installed: it costs less per read and write, see docs/performance.md."""
    try:
        import uvloop  # noqa: PLC0415 -- optional
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(  # noqa: PLR0913 -- parts that a process has once
    loaded: Loaded,
    load: Callable[[], Loaded],
    announce: Callable[[Daemon], None],
    make_crew: Callable[[Daemon], Crew | None],
    *,
    limit: RateLimit,
    log_queue: OutputQueue,
    manager: ServiceManager,
) -> None:
    log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")
    loop = asyncio.get_running_loop()
    has_crew = loaded.settings.workers > 1
    daemon = Daemon(loaded, loaded.settings.name or host_name(), Part.CORE if has_crew else Part.WHOLE)
    daemon.server.log_statistics = lambda: log_statistics(log_queue, limit)
    crew = make_crew(daemon) if has_crew else None
    manager.begin(lambda: not daemon.server.clock_trouble)
    await daemon.start()
    if crew is not None:
        try:
            await crew.start()
        except BaseException:
            await daemon.stop(loop.time())
            raise
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)

    def applied() -> None:
        configure(daemon.server.settings.log, limit=limit)
        if crew is not None:
            crew.reload()

    reloading = Reloading(daemon, load, applied, manager)
    loop.add_signal_handler(signal.SIGHUP, reloading.signal)
    drained = stopped.set if crew is None else partial(crew.when_drained, stopped.set)
    draining = Draining(daemon.server, drained, daemon.settle)
    services = daemon.server.core.requests.hub_services
    services.add(RESERVED + "drain", draining.answer, for_admins=True)
    services.add(RESERVED + "reload", reloading.answer, for_admins=True)
    if crew is not None:
        crew.adopt(draining, reloading)
    async with cared_for(daemon.server, limit):
        announce(daemon)
        manager.ready()
        try:
            await stopped.wait()
            log.info("stopping", connections=len(daemon.server.connections))
        finally:
            manager.stopping()
            await reloading.cancel()
            await draining.cancel()
            until_s = loop.time() + daemon.server.settings.limits.drain_s
            if crew is not None:
                crew.begin_stop(until_s)
            await daemon.stop(until_s, None if crew is None else partial(crew.stop, until_s))


@asynccontextmanager
async def cared_for(server: Server, limit: RateLimit) -> AsyncIterator[None]:
    """Collect garbage, and report suppressed log lines, now and then within the block."""
    task = server.loop.create_task(_care(server, limit), name="collect garbage, report suppressed log lines")
    try:
        yield
    finally:
        task.cancel()
        report_suppressed(limit, server.loop.time())


async def _care(server: Server, limit: RateLimit) -> None:
    watch, places = GarbageWatch(), server.admission
    for second in count(1):
        await asyncio.sleep(_COLLECTED_S)
        still = len(places.connections)
        watch.tick(still, places.accepted - still, is_memory_short=server.memory.is_over)
        if not second % _SUPPRESSED_REPORT_S:
            report_suppressed(limit, server.loop.time())


def host_name() -> str:
    return fitting_name(socket.gethostname()) or "hub"
