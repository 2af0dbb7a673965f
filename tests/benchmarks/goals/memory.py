"""Goals for memory, and for subscribers that stop reading: their cost for the others."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain

from hub.limits import Overflow
from hub.messages.frame import encode_frame
from peers.bench.line import Layout, Line, dial
from peers.bench.measurement import Measurement
from peers.bench.processes import RunningHub
from peers.bench.stage import Stage, Transport, Watch
from peers.transport.endpoints import Endpoint
from peers.wire.hello import QueueWish
from peers.wire.kinds import Kind
from tests.benchmarks.goals.figure import Figure, Scope, faults, in_pairs

_SIGN_OF_LIFE_S = 5.0
"""Well below the 20 s of silence after which a hub pings: stalled readers send a pong, so that the hub does not take
them for dead."""

_STALLED_RECEIVE_BYTES = 4096
"""A small buffer, so that the hub soon notices that they do not read. Linux doubles it and gives at least about this.
A buffer that is made small later would make the kernel drop what it let in."""


@contextmanager
def stalled_readers(stage: Stage, count: int, wish: QueueWish, watch: Watch, *, apart: bool = False) -> Iterator[Watch]:
    """Have subscribers that do not read while the block lasts, `apart`: each with a topic of its own.

    Yields a `watch` that keeps them alive and calls the given one.
    """
    lines: list[Line] = []
    url = stage.hub.url("tcp")
    endpoint = Endpoint.parse(url)
    said_s = time.monotonic()

    def watched(done: int, total: int) -> None:
        nonlocal said_s
        watch(done, total)
        if time.monotonic() - said_s > _SIGN_OF_LIFE_S:
            said_s = time.monotonic()
            for line in lines:
                with suppress(OSError):  # the hub has closed it
                    line.socket.sendall(encode_frame(Kind.PONG, b""))

    try:
        for number in range(count):
            made = socket.socket(socket.AF_INET)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _STALLED_RECEIVE_BYTES)
            made.connect((endpoint.host, endpoint.port))
            lines.append(dial(url, stage.layout, f"bench stalled {number}", wish=wish, through=made))
            lines[-1].subscribe([stage.layout.topic(number) if apart else stage.layout.prefix])
        yield watched
    finally:
        for line in lines:
            line.close()


_SIZE_BYTES = 100
_SUBSCRIBERS, _STALLED = 100, 10
_QUEUE_MESSAGES = 1000
_RATE_MESSAGES = 400_000


def stalled(scope: Scope, overflow: Overflow, goal_percent: float) -> list[Figure]:
    name = f"10 of 100 stalled, {overflow.value}"
    wish = QueueWish(messages=_QUEUE_MESSAGES, overflow=overflow)

    def measure(stalling: bool) -> Measurement:  # noqa: FBT001 -- as all
        stuck = scope.scaled(_STALLED) if stalling else 0
        others = scope.scaled(_SUBSCRIBERS, 2) - stuck
        plan = scope.plan(messages=scope.scaled(_RATE_MESSAGES), size=_SIZE_BYTES, subscribers=others)
        watch = scope.tell(f"{name}{'' if stalling else ': none yet'}")
        with Stage(plan) as stage, stalled_readers(stage, stuck, wish, watch) as watched:
            stage.measure(plan.warmup_messages)  # so that their queues are full from the beginning
            return stage.measure(watch=watched)

    runs = in_pairs(scope.repeat, measure)
    pairs = list(zip(*runs, strict=True))
    rates = [100 * beside.published_per_s / before.published_per_s for before, beside in pairs]
    capacities = [100 * before.us_per_message / beside.us_per_message for before, beside in pairs]
    flaws = faults(chain(*runs))
    by_cpu = f"{name}: messages to the others for a second of hub CPU"
    return [
        Figure(f"{name}: rate of the others", goal_percent, "% of before", rates, at_least=True, faults=flaws),
        Figure(by_cpu, goal_percent, "% of before", capacities, at_least=True, faults=flaws),
    ]


_CONNECTIONS = 2000
_PREFIXES = 100_000
_HOLDERS = 20
_WARM_CONNECTIONS = 20
"""So many clients connect and leave before, so that what the first one makes the hub load is not charged."""

_PREFIXES_PER_REQUEST = 500
_LAYOUT = Layout("/idle/", 1, 16, 1)
"""The layout of messages that never come."""

_STALLED_QUEUES = 100
_STALLED_QUEUE_BYTES = 1 << 20
_OVERFULL = 4
"""So many times what the queue holds is published to each."""


class _Crowd:
    """A hub with idle clients, and nothing else. They do not answer pings: all is over before the first one."""

    def __init__(self, hub: RunningHub, url: str) -> None:
        self._hub = hub
        self._url = url
        self._lines: list[Line] = []
        self._prefixes = 0

    def populate(self, count: int) -> None:
        while len(self._lines) > count:
            self._lines.pop().close()
        while len(self._lines) < count:
            self._lines.append(dial(self._url, _LAYOUT, f"bench idle {len(self._lines)}"))

    def subscribe(self, prefixes: int) -> None:
        """Each of them subscribes to so many more prefixes: few topics of many parts, as hosts and services have."""
        for line in self._lines:
            for first in range(0, prefixes, _PREFIXES_PER_REQUEST):
                numbers = range(self._prefixes, self._prefixes + min(_PREFIXES_PER_REQUEST, prefixes - first))
                self._prefixes = numbers.stop
                line.subscribe([f"/idle/zeek/{number % 50:02}/10.{number >> 8}.{number & 255}/" for number in numbers])

    def memory_bytes(self) -> int:
        self._hub.wait_quiet()
        return self._hub.usage().memory_bytes


@contextmanager
def _crowd(scope: Scope, transport: Transport, *flags: str) -> Iterator[_Crowd]:
    schemes = ("tcp", "ws") if transport == "ws" else ("tcp",)
    hub = RunningHub.start(schemes, (*scope.base.hub_flags, *flags), scope.base.placement[0])
    crowd = _Crowd(hub, hub.url(transport))
    try:
        crowd.populate(_WARM_CONNECTIONS)
        crowd.populate(0)
        yield crowd
    finally:
        crowd.populate(0)
        hub.stop()


def connections(scope: Scope, transport: Transport, goal_kib: float) -> list[Figure]:
    count = scope.scaled(_CONNECTIONS, 10)
    kind = "WebSocket connection" if transport == "ws" else "TCP client"
    name = f"idle {kind} with one subscription, of {count:,}"

    def once() -> float:
        scope.tell(name)
        with _crowd(scope, transport) as crowd:
            before = crowd.memory_bytes()
            crowd.populate(count)
            crowd.subscribe(1)
            return (crowd.memory_bytes() - before) / count / 1024

    return [Figure(name, goal_kib, "KiB of memory each", [once() for _ in range(scope.repeat)])]


def subscriptions(scope: Scope, goal_bytes: float) -> list[Figure]:
    each = scope.scaled(_PREFIXES / _HOLDERS)
    name = f"subscription, of {each * _HOLDERS:,} different ones of {_HOLDERS} clients"

    def once() -> float:
        scope.tell(name)
        with _crowd(scope, "tcp", "--limits-prefixes-per-client", str(_PREFIXES)) as crowd:
            crowd.populate(_HOLDERS)
            before = crowd.memory_bytes()
            crowd.subscribe(each)
            return (crowd.memory_bytes() - before) / (each * _HOLDERS)

    return [Figure(name, goal_bytes, "bytes of memory each", [once() for _ in range(scope.repeat)])]


def stalled_queues(scope: Scope, goal_mib: float) -> list[Figure]:
    """Measure queues of 1 MiB that are full, each with messages that no other one has."""
    count = scope.scaled(_STALLED_QUEUES, 2)
    fitting = _STALLED_QUEUE_BYTES // _SIZE_BYTES
    plan = scope.plan(messages=count * fitting * _OVERFULL, size=_SIZE_BYTES, topics=count, warmup=count)
    wish = QueueWish(messages=1_000_000, bytes=_STALLED_QUEUE_BYTES)
    name = f"{count} stalled subscribers, {_STALLED_QUEUE_BYTES >> 20} MiB queues, no message in two of them"
    values, faults = [], []
    for _ in range(scope.repeat):
        with Stage(plan) as stage, stalled_readers(stage, count, wish, scope.tell(name), apart=True) as watch:
            stage.hub.wait_quiet()
            before = stage.hub.usage().memory_bytes
            run = stage.measure(watch=watch)
            values.append((run.hub_memory_bytes - before) / 1048576)
        if not run.flawless:
            faults.append("the subscriber that reads did not get everything")
    return [Figure(name, goal_mib, "MiB of memory together", values, faults=faults)]
