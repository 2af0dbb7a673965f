"""`Workers`: starts the workers of a core, replaces those that die, and has them reload and stop with it.

```
                 tcp, ws, tls, wss: one port, N sockets (SO_REUSEPORT)
              ┌───────────────┬───────────────┐
           worker 1        worker 2   ...  worker N        clients; each is a hub of its own
              │ link, control │               │
              └───────────────┼───────────────┘
                            core                           journal, links to other hubs, Zeeks, unix
```

The mesh carries messages between processes: a worker is a hub with one link, to the core. It serves no client before it
is linked, and ends when its link or the core does; a hub is up once all its workers are.

At a stop, each worker stops accepting, and says "heard" once its link has all messages that were published there. A
PING over all links, twice, has them arrive at the others; then each worker closes its clients as queues run out.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import math
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any, Final

import msgspec
import structlog

from hub.errors import UsageError
from peers.connections.connection import Connection
from peers.connections.tcp import TcpConversation
from peers.daemon.daemon import Daemon
from peers.daemon.reloading import Reloading
from peers.daemon.run import Draining
from peers.server.audit import By
from peers.transport.timing import Backoff
from peers.workers.control import LOOK_S, Control, EventsOfCore, Functions, Orders, of_worker, wait_written
from peers.workers.gathering import Gathering, WorkerCounts, share_services

START_S: Final = 60.0  # Time until a worker serves, at most: a hundred times that on an idle machine
STEADY_S: Final = 30.0  # A worker that ends earlier has failed at its start; as long as the longest wait
_HEARD_PART: Final = 2  # Part of the time to stop that is for messages of publishers; the rest is for queues
_GRACE_S: Final = 1.0  # Beyond the time to stop, before a worker is killed
_END_S: Final = 2.0  # Time of a process to end once it has closed its sockets


class Phase(enum.Enum):
    """Of a place for a worker: WAITING ─ due ─▶ STARTING ─ up ─▶ UP; ended, or overdue: WAITING, longer each time."""

    WAITING = enum.auto()  # No process; one is due at some time
    STARTING = enum.auto()  # A process that does not serve yet
    UP = enum.auto()


class _Place:
    def __init__(self, source: random.Random | None) -> None:
        self.backoff = Backoff(source=source)
        self.phase = Phase.WAITING
        self.until_s = -math.inf  # When a process is due (WAITING), late (STARTING), or steady (UP)


class Supervision:
    """The places for workers, numbered from 1: which worker is due, and which has taken too long. No clock.

    A worker that has served for `STEADY_S` did not fail at its start: if it ends, the waits are short again.
    """

    def __init__(self, places: int, source: random.Random | None = None) -> None:
        self._places = {number: _Place(source) for number in range(1, places + 1)}
        self._is_stopping = False
        self.started = 0
        self.ended = 0  # Except because the hub stops

    def __len__(self) -> int:
        return len(self._places)

    @property
    def up(self) -> int:
        return len(self.serving())

    def serving(self) -> list[int]:
        return [number for number, place in self._places.items() if place.phase is Phase.UP]

    def due(self, now_s: float) -> list[int]:
        """Return the places where a process is to be started now; each counts as started."""
        if self._is_stopping:
            return []
        found = self._past(Phase.WAITING, now_s)
        for number in found:
            place = self._places[number]
            place.phase, place.until_s = Phase.STARTING, now_s + START_S
            self.started += 1
        return found

    def overdue(self, now_s: float) -> list[int]:
        """Return the places whose process is to be killed, as it has taken too long to start; each once."""
        found = self._past(Phase.STARTING, now_s)
        for number in found:
            self._places[number].until_s = math.inf
        return found

    def serves(self, number: int, now_s: float) -> None:
        place = self._places[number]
        place.phase, place.until_s = Phase.UP, now_s + STEADY_S

    def end(self, number: int, now_s: float) -> float:
        """Note that a process has ended, or could not be started; return the wait until the next, s; or inf."""
        place = self._places[number]
        if place.phase is Phase.UP and now_s >= place.until_s:
            place.backoff.reset()
        place.phase = Phase.WAITING
        if self._is_stopping:
            place.until_s = math.inf
            return math.inf
        self.ended += 1
        wait_s = place.backoff.next_s()
        place.until_s = now_s + wait_s
        return wait_s

    def next_s(self) -> float:
        """Return when to ask again at the latest; inf for never."""
        times = (place.until_s for place in self._places.values() if place.phase is not Phase.UP)
        return math.inf if self._is_stopping else min(times, default=math.inf)

    def stop(self) -> None:
        self._is_stopping = True

    def _past(self, phase: Phase, now_s: float) -> list[int]:
        return [number for number, place in self._places.items() if place.phase is phase and place.until_s <= now_s]


class Process:
    """One worker as the core sees it: a process with a socket for the link, and one to control it.

    It finds the same modules as the core, independent of the working directory; no terminal's signal reaches it.
    """

    def __init__(self, number: int, functions: Functions) -> None:
        self.number = number
        with ExitStack() as stack:
            self._control_socket, their_control = socket.socketpair()
            stack.callback(self._control_socket.close)
            stack.callback(their_control.close)
            self._link_socket, their_link = socket.socketpair()
            stack.callback(self._link_socket.close)
            stack.callback(their_link.close)
            self._popen = _start(number, their_control.fileno(), their_link.fileno())
            stack.pop_all()
        their_control.close()
        their_link.close()
        self.connection: Connection | None = None  # Of the link
        self._is_stopping = False  # Its link then ends before it does
        self.control = Control(functions)

    @property
    def pid(self) -> int:
        return self._popen.pid

    async def connect(self) -> None:
        self._control_socket.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self.control, sock=self._control_socket)

    async def link(self, daemon: Daemon) -> None:
        """Let the core link with it: the time for a handshake begins now."""
        self._link_socket.setblocking(False)
        self.connection = link = await daemon.link(self._link_socket, f"unix:worker/{self.number}", dialled=False)
        if link.lost is not None:
            # A worker that is not stopping ends then, or hangs, and is killed.
            link.lost.add_done_callback(lambda _: None if self._is_stopping else self.control.close())

    @property
    def hub(self) -> bytes:
        """The id of the worker as a hub; empty while it is not linked."""
        conversation = self.connection.conversation if self.connection is not None else None
        return conversation.far_id if isinstance(conversation, TcpConversation) else b""

    def stop(self, left_s: float) -> None:
        """Let it stop: it says "heard" once its link has all published messages, and waits for "close"."""
        self._is_stopping = True
        self.control.tell("stop", left_s)

    def kill(self) -> None:
        self._popen.kill()

    async def wait_ended(self) -> str:
        """Wait until it has ended, which it must do soon after its sockets; return how."""
        await asyncio.wait([self.control.lost])
        if self.connection is None:
            self._link_socket.close()
        loop = asyncio.get_running_loop()
        try:
            code = await loop.run_in_executor(None, self._popen.wait, _END_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        if code >= 0:
            return f"exit code {code}"
        number = -code
        return f"killed by {signal.Signals(number).name if number in set(signal.Signals) else f'signal {number}'}"


def _start(number: int, control: int, link: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "peers.workers.worker", str(number), str(control), str(link)]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    return subprocess.Popen(  # noqa: S603 -- our own program
        command, pass_fds=(control, link), stdin=subprocess.DEVNULL, start_new_session=True, env=variables
    )


class WorkerError(UsageError):
    """There can be no workers."""


class Workers:
    """The workers of one core, which keeps their ports; a `WorkerError` if they cannot share them."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._server = daemon.server
        self._loop = daemon.server.loop
        workers = daemon.server.settings.workers
        _check(daemon, workers)
        self._supervision = Supervision(workers)
        self._processes: dict[int, Process] = {}
        self._starts = count(1)  # Numbers the processes that were started
        self._watching: set[asyncio.Task[None]] = set()  # One task for each process, from its start to its end
        self._linking: set[asyncio.Task[None]] = set()  # One task for each link that is being made
        self._timer: asyncio.TimerHandle | None = None  # The timer of what is due next
        self._reasons: dict[int, str] = {}  # Why a worker could not start, until its end is logged
        # Done once all workers serve, or one of them cannot at the first attempt.
        self._all_up: asyncio.Future[None] = self._loop.create_future()
        one = self._supervision
        counts = lambda silent: WorkerCounts(one.up, len(one), one.started, one.ended, silent)  # noqa: E731 -- one line
        self._whole = Gathering(self._server, self._controls, counts)
        self._drained: set[int] = set()  # Workers whose clients were all moved off
        self._on_drained: Callable[[], object] | None = None  # Set once the core's own clients are gone
        self._heard: set[int] = set()  # Workers whose publishers were heard to the end, as the hub stops
        self._has_heard = asyncio.Event()  # Set with each
        share_services(self._server, self._whole)
        self._events = EventsOfCore(self._server.core, lambda: dict(self._controls()))
        self._looking: asyncio.TimerHandle | None = None  # The timer of `EventsOfCore.look`
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")

    async def start(self) -> None:
        """Start all, and wait until they serve; raise a `WorkerError`, with none left, if one cannot."""
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
        """Let all processes drain and reload together, whichever of them is asked."""
        whole = self._whole
        whole.parts.functions["drain"] = lambda _by, _value: draining.outlook()
        whole.of_core["reload"] = lambda by, value: reloading.answer(by or None, value)

        def drain(by: By) -> None:
            self._supervision.stop()  # the successor of a worker would take clients
            for process in self._processes.values():
                process.control.tell("drain", by)
            draining.begin(by)

        whole.afterwards["drain"] = drain
        share_services(self._server, whole, ("drain",))

    def when_drained(self, act: Callable[[], object]) -> None:
        """Call `act` once the clients of all workers are gone, or the workers have ended."""
        self._on_drained = act
        self._look_drained()

    def _look_drained(self) -> None:
        if self._on_drained is not None and self._drained >= self._processes.keys():
            self._on_drained()

    def reload(self) -> None:
        """Let the workers take over the settings of the core, and read files again."""
        for process in self._processes.values():
            process.control.tell("reload", self._settings())

    def _look(self) -> None:
        self._looking = self._loop.call_later(LOOK_S, self._look)
        self._events.look()

    def begin_stop(self, until_s: float) -> None:
        """Let all stop accepting; `until_s` is the end of the grace period, by the loop's clock."""
        self._supervision.stop()
        if self._looking is not None:
            self._looking.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for process in self._processes.values():
            process.stop(max(0.0, until_s - self._loop.time()))

    async def stop(self, until_s: float) -> None:
        """Let each worker close once it has the messages of the others, and wait until all have ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((until_s - self._loop.time()) / _HEARD_PART):
                while not self._heard >= self._processes.keys():
                    self._has_heard.clear()
                    await self._has_heard.wait()
                for _ in range(2):  # from the workers to the core, and from there to the others
                    for process in list(self._processes.values()):
                        if process.connection is not None:
                            await wait_written(process.connection)
                    swept = asyncio.Event()
                    self._server.links.sweep([process.hub for process in self._processes.values()], swept.set)
                    await swept.wait()
        for process in self._processes.values():
            process.control.tell("close")
        if self._watching:
            await asyncio.wait(self._watching, timeout=max(0.0, until_s - self._loop.time()) + _GRACE_S)
        for process in self._processes.values():
            process.kill()
        if self._watching:
            await asyncio.wait(self._watching)

    def _act(self) -> None:
        """Start processes that are due, kill those that are overdue, and look again in time."""
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
            "fails": partial(self._reasons.__setitem__, number),
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
        number = process.number
        await process.connect()
        orders = Orders(self._settings(), self._server.name, number, start)
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
        wait_s = self._supervision.end(number, self._loop.time())
        if wait_s == math.inf:
            return
        if not self._all_up.done():
            self._all_up.set_exception(WorkerError(f"worker {number}: {reason}"))
        self._log.warning("worker ended", worker=number, pid=pid, reason=reason, next_in_s=round(wait_s, 2))

    def _links(self, number: int, _: Any) -> None:
        task = self._loop.create_task(self._processes[number].link(self._daemon), name=f"link with worker {number}")
        self._linking.add(task)
        task.add_done_callback(self._linking.discard)

    def _serves(self, number: int, _: Any) -> None:
        self._supervision.serves(number, self._loop.time())
        self._log.info("worker is up", worker=number, pid=self._processes[number].pid)
        if self._supervision.up == len(self._supervision) and not self._all_up.done():
            self._all_up.set_result(None)

    def _is_drained(self, number: int, _: Any) -> None:
        self._drained.add(number)
        self._look_drained()

    def _is_heard(self, number: int, _: Any) -> None:
        self._heard.add(number)
        self._has_heard.set()

    def _controls(self) -> list[tuple[int, Control]]:
        """Return the workers that serve."""
        return [(number, self._processes[number].control) for number in self._supervision.serving()]

    def _settings(self) -> dict[str, Any]:
        listen = tuple(str(one) for one in self._daemon.endpoints if one.scheme.is_for_clients)
        tree: dict[str, Any] = msgspec.to_builtins(of_worker(self._server.settings, listen, self._server.id))
        return tree


def _check(daemon: Daemon, count: int) -> None:
    if not (hasattr(socket, "SO_REUSEPORT") and sys.platform == "linux"):
        raise WorkerError(
            f"workers = {count}: several processes share a port on Linux only; leave `workers` out on {sys.platform}"
        )
    if not any(endpoint.scheme.is_for_clients for endpoint in daemon.listen):
        raise WorkerError(
            f"workers = {count}: they serve tcp, tls, ws and wss; add such a URL to `listen`, or remove `workers`"
        )
