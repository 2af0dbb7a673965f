"""Run a daemon until a signal, or an admin, says stop: SIGTERM and SIGINT do so at once, `$hub/drain` at leisure.

SIGHUP, or `$hub/reload`, reads again what the hub was started with. The event loop, the log and the signal handlers of
the process are set up here, so that a daemon can be built in a test without them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import structlog

from hub.topics import RESERVED
from peers.daemon.daemon import Daemon, Part
from peers.daemon.draining import Draining
from peers.daemon.logs import OutputQueue, RateLimit, configure, log_statistics, queue_output, report_suppressed
from peers.daemon.reloading import Reloading
from peers.daemon.service_manager import ServiceManager
from peers.daemon.sources import Loaded
from peers.server.memory import GarbageWatch, keep_freed_memory
from peers.server.server import Server
from peers.wire.hello import fitting_name

_SUPPRESSED_REPORT_S = 5.0
_COLLECTED_S = 1.0


class Crew(Protocol):
    """The other processes of a hub."""

    async def start(self) -> None:
        """Start them, and wait until all are up.

        Raises:
            UsageError: One cannot be started; none is left.
        """

    def adopt(self, draining: Draining, reloading: Reloading) -> None:
        """Let all processes drain and reload with this one, whichever of them is asked for it."""

    def when_drained(self, act: Callable[[], object]) -> None:
        """Call `act` once the clients of all others are gone, as those of this process are."""

    def reload(self) -> None:
        """Let them take over what the daemon has taken over."""

    def begin_stop(self, until_s: float) -> None:
        """Let them hear who publishes there, and close these, within the time that ends then, of the loop's clock."""

    async def stop(self, until_s: float) -> None:
        """Let them stop, once that is done, within the time that ends then, of the loop's clock."""


def run(
    load: Callable[[], Loaded],
    announce: Callable[[Daemon], None],
    make_crew: Callable[[Daemon], Crew | None] = lambda _: None,
) -> None:
    """Run a hub in this process.

    Args:
        load: Reads the settings; called now, and again at SIGHUP.
        announce: Called once everything is open, to tell the user where.
        make_crew: Makes the other processes where `workers` asks for some.

    Raises:
        ConfigError, ListenError, WorkerError: At the start; the text says what to change.
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


async def _serve(  # noqa: PLR0913 -- what a process has once
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
    """Do meanwhile what a process of a hub needs now and then: collect garbage, report suppressed log lines."""
    loop = asyncio.get_running_loop()
    tasks = [
        loop.create_task(_report(limit), name="report suppressed log lines"),
        loop.create_task(_collect(server), name="collect garbage"),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        report_suppressed(limit, loop.time())


async def _collect(server: Server) -> None:
    watch = GarbageWatch()
    while True:
        await asyncio.sleep(_COLLECTED_S)
        places = server.admission
        still = len(places.connections)
        watch.tick(still, places.accepted - still, is_memory_short=server.memory.is_over)


async def _report(limit: RateLimit) -> None:
    while True:
        await asyncio.sleep(_SUPPRESSED_REPORT_S)
        report_suppressed(limit, asyncio.get_running_loop().time())


def host_name() -> str:
    """Return the name of this machine, as far as it fits into the name of a hub."""
    return fitting_name(socket.gethostname()) or "hub"
