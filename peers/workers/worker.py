"""`Worker`: a process that serves clients, and is a hub of its own with one link, to the core.

It ends at once when the core, or the link to it, is gone. It ignores signals: those of a terminal or a service manager
may reach all processes of a hub, and the core decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import structlog

from hub.errors import HubError
from peers.connections.connection import Connection
from peers.daemon.daemon import Daemon, Part
from peers.daemon.logs import OutputQueue, RateLimit, configure, log_statistics, queue_output
from peers.daemon.reloading import Reloading
from peers.daemon.run import Draining, cared_for, loop_factory
from peers.daemon.sources import Loaded, given
from peers.server.memory import keep_freed_memory
from peers.workers.control import IDS_PER_START, LOOK_S, Control, EventsOfWorker, Orders, wait_written
from peers.workers.gathering import FromWorker, Parts, share_services

_LOOK_S = 0.002  # How often a worker that starts looks whether it is linked: there is no event for that
_FAILED = 1  # Exit codes: it could not start; the core, or the link to it, was gone
_ALONE = 3


class Worker:
    """One worker; `link` is its end of the link to the core."""

    def __init__(self, link: socket.socket, log_queue: OutputQueue) -> None:
        self._link = link
        self._log_queue = log_queue
        self._loop = asyncio.get_running_loop()
        self._orders: asyncio.Future[Orders] = self._loop.create_future()
        self._stop: asyncio.Future[float] = self._loop.create_future()  # The time in which to stop, seconds
        self._close: asyncio.Future[None] = self._loop.create_future()  # Clients that only subscribe may be closed
        self._reloading: Reloading | None = None  # From when it serves on
        self._newer: Loaded | None = None  # Settings of the next reload; None before the core has sent any
        self._draining: Draining  # Set before it is linked, as is `_events`
        self._events: EventsOfWorker
        self._functions: dict[str, Callable[[Any], Any]] = {
            "begin": lambda orders: self._orders.set_result(msgspec.convert(orders, Orders)),
            "stop": partial(_set_once, self._stop),
            "close": partial(_set_once, self._close),
            "reload": self._reload,
        }
        self.control = Control(self._functions)

    async def run(self) -> int:
        """Serve until the core says stop, or is gone; return the exit code."""
        first: list[asyncio.Future[Any]] = [self._orders, self.control.lost]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if not self._orders.done():
            return _ALONE
        orders = self._orders.result()
        try:
            loaded = orders.loaded()
            limit = configure(loaded.settings.log)
            daemon = Daemon(loaded, orders.own_name, Part.WORKER)
            daemon.server.log_statistics = lambda: log_statistics(self._log_queue, limit)
            daemon.server.core.number_from(orders.start * IDS_PER_START)
            self._join(daemon)
            link = await self._linked(daemon)
            await daemon.start()
        except HubError as error:
            self.control.tell("fails", str(error))
            return _FAILED
        return await self._serve(daemon, loaded, link, limit)

    def _join(self, daemon: Daemon) -> None:
        parts = Parts(daemon.server)
        self._draining = Draining(daemon.server, lambda: self.control.tell("drained"), daemon.settle)
        parts.functions["drain"] = lambda _by, _value: self._draining.outlook()
        share_services(daemon.server, FromWorker(self.control), ("drain", "reload"))
        self._events = EventsOfWorker(daemon.server.core, self.control)
        self._functions |= {
            "part": parts.answer,
            "drain": self._draining.begin,
            "event": self._events.hear,
            "wants": self._events.want,
        }
        self._look()

    def _look(self) -> None:
        self._events.look()
        self._loop.call_later(LOOK_S, self._look)

    async def _linked(self, daemon: Daemon) -> Connection:
        """Link with the core, and wait until it is in the mesh, before clients come."""
        self.control.tell("links")
        link = await daemon.link(self._link, "unix:core", dialled=True)
        mesh = daemon.server.core.mesh
        while not (len(mesh.graph.reached) > 1 or link.is_lost):  # noqa: ASYNC110 -- there is no event for that
            await asyncio.sleep(_LOOK_S)
        return link

    async def _serve(self, daemon: Daemon, loaded: Loaded, link: Connection, limit: RateLimit) -> int:
        log = daemon.server.log
        self._reloading = Reloading(
            daemon,
            lambda: self._newer or loaded,
            lambda: configure(daemon.server.settings.log, limit=limit),
            forced=True,
        )
        if self._newer is not None:  # the core has reloaded while this worker started
            self._reloading.signal()
        self.control.tell("serves")
        async with cared_for(daemon.server, limit):
            ends: list[asyncio.Future[Any]] = [self._stop, self.control.lost]
            if link.lost is not None:
                ends.append(link.lost)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            await self._reloading.cancel()
            await self._draining.cancel()
            if not self._stop.done():
                log.warning("a worker ends: the core is gone", reason=link.reason)
                for connection in list(daemon.server.connections):
                    connection.abort()
                return _ALONE
            until_s = self._loop.time() + self._stop.result()
            await daemon.stop(until_s, lambda: self._others_heard(link, until_s))
            return 0

    async def _others_heard(self, link: Connection, until_s: float) -> None:
        """Pass on the messages of clients here, and wait until those of others are here, as the core says."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                await wait_written(link)
        self.control.tell("heard")
        ends: list[asyncio.Future[Any]] = [self._close, self.control.lost]
        left_s = max(0.0, until_s - self._loop.time())
        await asyncio.wait(ends, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)

    def _reload(self, settings: Any) -> None:
        self._newer = given(("the core", settings))
        if self._reloading is not None:
            self._reloading.signal()


def _set_once(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


async def _run(control: int, link: int, log_queue: OutputQueue) -> int:
    loop = asyncio.get_running_loop()
    worker = Worker(_socket(link), log_queue)
    await loop.create_unix_connection(lambda: worker.control, sock=_socket(control))
    return await worker.run()


def _socket(number: int) -> socket.socket:
    found = socket.socket(fileno=number)
    found.set_inheritable(False)
    found.setblocking(False)
    return found


def main() -> None:
    """Serve a core. Arguments: the number of the worker, and the descriptors of its control and of its link."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    structlog.contextvars.bind_contextvars(worker=int(sys.argv[1]))
    keep_freed_memory()
    log_queue = queue_output()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        code = runner.run(_run(int(sys.argv[2]), int(sys.argv[3]), log_queue))
    sys.exit(code)


if __name__ == "__main__":
    main()
