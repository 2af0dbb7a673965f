"""`Workers`: the workers of a core: they are started, replaced when they die, and reload and stop with it.

```
                 tcp, ws, tls, wss: one port, N sockets (SO_REUSEPORT)
              ┌───────────────┬───────────────┐
           worker 1        worker 2   ...  worker N        clients; each is a hub of its own
              │ link, control │               │
              └───────────────┼───────────────┘
                            core                           journal, links to other hubs, Zeeks, unix
```

Purpose: one interpreter uses one core of a processor, and a machine has many. What carries messages between them is the
mesh: a worker is a hub with one link, to the core.

```
stop ─▶ each worker stops accepting ─▶ "heard", once its link has all that was published there
     ─▶ PING over all links, twice: what one has heard is at the others ─▶ "close" ─▶ queues run out, ended
```

Owner: the event loop of the core. Invariants: a worker serves nobody before it is linked, and ends when its link or the
core does; a hub is up once all its workers are. Cost: see docs/workers.md. Not here: when which worker is started
(`peers.workers.supervision`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import msgspec
import structlog

from hub.errors import UsageError
from peers.daemon.daemon import Daemon
from peers.daemon.draining import Draining
from peers.daemon.reloading import Reloading
from peers.node.audit import By
from peers.workers.control import Control, Functions
from peers.workers.events import LOOK_S, EventsOfCore
from peers.workers.gathering import Gathering, share_services
from peers.workers.merging import WorkerCounts
from peers.workers.orders import Orders, of_worker, tree_of
from peers.workers.process import Process
from peers.workers.supervision import Supervision

__all__ = ["WorkerError", "Workers"]

_HEARD_PART = 2
"""One in so many parts of the time to stop is at most for what publishers have sent; the rest is for queues."""

_GRACE_S = 1.0
"""How much longer than the time to stop a worker may take before it is killed, seconds."""


class WorkerError(UsageError):
    """There can be no workers."""


class Workers:
    """The workers of one core. See `peers.daemon.run.Crew`.

    Args:
        daemon: The core; its ports are kept by `start`.

    Raises:
        WorkerError: There is nothing that they could do, or no way to do it.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._node = daemon.node
        self._loop = daemon.node.loop
        workers = daemon.node.settings.workers
        _check(daemon, workers)
        self._supervision = Supervision(workers)
        # The processes that have not ended, by the number of their place.
        self._processes: dict[int, Process] = {}
        # Numbers the processes that were started.
        self._starts = count(1)
        # One task for each process, from its start to its end.
        self._watching: set[asyncio.Task[None]] = set()
        # One task for each link that is being made.
        self._linking: set[asyncio.Task[None]] = set()
        # The timer of what is due next.
        self._timer: asyncio.TimerHandle | None = None
        # Why a worker could not start, as it said, by the number of its place; until its end is logged.
        self._reasons: dict[int, str] = {}
        # Done once all workers serve, or one of them cannot at the first attempt.
        self._all_up: asyncio.Future[None] = self._loop.create_future()
        self._whole = Gathering(self._node, self._controls, self._counts)
        # The workers whose clients are all gone, as they were moved off.
        self._drained: set[int] = set()
        # Called once those of all are; None before the core's own are gone.
        self._on_drained: Callable[[], object] | None = None
        # The workers that have heard those who publish there, as the hub stops; told of by the event.
        self._heard: set[int] = set()
        self._has_heard = asyncio.Event()
        share_services(self._node, self._whole)
        self._events = EventsOfCore(self._node.core, lambda: dict(self._controls()))
        # Looks once a second what is wanted of the hub's own topics; None before the start.
        self._looking: asyncio.TimerHandle | None = None
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")

    # See `Crew`.

    async def start(self) -> None:
        """Start all, and wait until they serve.

        Raises:
            WorkerError: One of them cannot; none is left.
        """
        cores = len(os.sched_getaffinity(0))
        if len(self._supervision) > cores:
            self._log.warning("more workers than processors", workers=len(self._supervision), processors=cores)
        self._act()
        self._look()
        try:
            await self._all_up
        except BaseException:
            self.begin_stop(self._loop.time())
            await self.stop(self._loop.time())
            raise

    def adopt(self, draining: Draining, reloading: Reloading) -> None:
        """Let all drain and reload together."""
        whole = self._whole
        whole.parts.functions["drain"] = lambda _by, _value: draining.outlook()
        whole.of_core["reload"] = lambda by, value: reloading.answer(by or None, value)

        def drain(by: By) -> None:
            self._supervision.stop()  # whoever came in place of a worker would take clients
            for process in self._processes.values():
                process.control.tell("drain", by)
            draining.begin(by)

        whole.afterwards["drain"] = drain
        share_services(self._node, whole, ("drain",))

    def when_drained(self, act: Callable[[], object]) -> None:
        """Call `act` once all workers have none of their clients any more, or have ended."""
        self._on_drained = act
        self._look_drained()

    def _look_drained(self) -> None:
        if self._on_drained is not None and self._drained >= self._processes.keys():
            self._on_drained()

    def reload(self) -> None:
        """Let them take over the settings of the core, and read files again."""
        for process in self._processes.values():
            process.control.tell("reload", self._settings())

    def _look(self) -> None:
        self._looking = self._loop.call_later(LOOK_S, self._look)
        self._events.look()

    def begin_stop(self, until_s: float) -> None:
        """Let all stop accepting."""
        self._supervision.stop()
        if self._looking is not None:
            self._looking.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for process in self._processes.values():
            process.stop(max(0.0, until_s - self._loop.time()))

    async def stop(self, until_s: float) -> None:
        """Let all stop once each has what was published at the others; see to it that they do."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((until_s - self._loop.time()) / _HEARD_PART):
                while not self._heard >= self._processes.keys():
                    self._has_heard.clear()
                    await self._has_heard.wait()
                for _ in range(2):  # from the workers to the core, and from there to the others
                    await self._sweep()
        for process in self._processes.values():
            process.control.tell("close")
        if self._watching:
            await asyncio.wait(self._watching, timeout=max(0.0, until_s - self._loop.time()) + _GRACE_S)
        for process in self._processes.values():
            process.kill()
        if self._watching:
            await asyncio.wait(self._watching)

    async def _sweep(self) -> None:
        """Wait until what the core, and each worker, has written to the other has arrived."""
        for process in list(self._processes.values()):
            await process.wait_written()
        swept = asyncio.Event()
        self._node.links.sweep([process.hub for process in self._processes.values()], swept.set)
        await swept.wait()

    # What supervision asks for.

    def _act(self) -> None:
        """Start who is due, kill who is overdue, and look again in time."""
        now_s = self._loop.time()
        for number in self._supervision.overdue(now_s):
            self._reasons[number] = "it has not come up in time"
            self._processes[number].kill()
        for number in self._supervision.due(now_s):
            self._launch(number)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_s = self._supervision.next_s()
        if next_s < math.inf:
            self._timer = self._loop.call_at(next_s, self._act)

    def _launch(self, number: int) -> None:
        functions: Functions = {
            "links": partial(self._links, number),
            "serves": partial(self._serves, number),
            "fails": partial(self._fails, number),
            "drained": partial(self._is_drained, number),
            "heard": partial(self._is_heard, number),
            "whole": self._whole.answer,
            "event": partial(self._events.hear, number),
            "wants": partial(self._events.want, number),
        }
        try:
            process = Process(number, functions)
        except OSError as error:
            self._end(number, f"it cannot be started: {error.strerror}", pid=0)
            return
        self._processes[number] = process
        watching = self._loop.create_task(self._watch(process, next(self._starts)), name=f"worker {number}")
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)

    async def _watch(self, process: Process, start: int) -> None:
        """Give a process its orders, and wait for its end."""
        number = process.number
        await process.connect()
        orders = Orders(self._settings(), self._node.name, number, start)
        process.control.tell("begin", msgspec.to_builtins(orders))
        how = await process.wait_ended()
        del self._processes[number]
        self._drained.discard(number)
        self._events.leave(number)
        self._has_heard.set()
        self._look_drained()
        self._end(number, self._reasons.pop(number, how), pid=process.pid)
        self._act()

    def _end(self, number: int, reason: str, pid: int) -> None:
        """A process has ended, or could not be started."""
        wait_s = self._supervision.end(number, self._loop.time())
        if wait_s == math.inf:
            return
        if not self._all_up.done():
            self._all_up.set_exception(WorkerError(f"worker {number}: {reason}"))
        self._log.warning("worker ended", worker=number, pid=pid, reason=reason, next_in_s=round(wait_s, 2))

    # What workers say.

    def _links(self, number: int, _: Any) -> None:
        task = self._loop.create_task(self._processes[number].link(self._daemon), name=f"link with worker {number}")
        self._linking.add(task)
        task.add_done_callback(self._linking.discard)

    def _serves(self, number: int, _: Any) -> None:
        self._supervision.serves(number, self._loop.time())
        self._log.info("worker is up", worker=number, pid=self._processes[number].pid)
        if self._supervision.up == len(self._supervision) and not self._all_up.done():
            self._all_up.set_result(None)

    def _fails(self, number: int, reason: str) -> None:
        self._reasons[number] = reason

    def _is_drained(self, number: int, _: Any) -> None:
        self._drained.add(number)
        self._look_drained()

    def _is_heard(self, number: int, _: Any) -> None:
        self._heard.add(number)
        self._has_heard.set()

    def _controls(self) -> list[tuple[int, Control]]:
        """Return the workers that serve, with what leads to them."""
        return [(number, self._processes[number].control) for number in self._supervision.serving()]

    def _counts(self, silent_total: int) -> WorkerCounts:
        one = self._supervision
        return WorkerCounts(one.up, len(one), one.started, one.ended, silent_total)

    def _settings(self) -> dict[str, Any]:
        listen = tuple(str(one) for one in self._daemon.endpoints if one.scheme.is_for_clients)
        return tree_of(of_worker(self._node.settings, listen, self._node.id))


def _check(daemon: Daemon, count: int) -> None:
    """See to it that workers can be.

    Raises:
        WorkerError: The text says what to change.
    """
    if not (hasattr(socket, "SO_REUSEPORT") and sys.platform == "linux"):
        raise WorkerError(
            f"workers = {count}: several processes share a port on Linux only; leave `workers` out on {sys.platform}"
        )
    if not any(endpoint.scheme.is_for_clients for endpoint in daemon.listen):
        raise WorkerError(
            f"workers = {count}: they serve tcp, tls, ws and wss, and `listen` has none of these; "
            "add one, or leave `workers` out"
        )
