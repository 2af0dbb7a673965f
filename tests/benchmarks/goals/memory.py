"""Goals for memory: resident bytes of the hub, before and after so many connections, prefixes or full queues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from peers.bench.line import Line, dial
from peers.bench.messages import Layout
from peers.bench.running_hub import RunningHub
from peers.bench.stage import Stage, Transport
from peers.wire.hello import QueueWish
from tests.benchmarks.goals.figure import Figure, Scope
from tests.benchmarks.goals.stalled import stalled_readers

_CONNECTIONS = 2000
_PREFIXES = 100_000
_SUBSCRIBERS = 20
_WARM_CONNECTIONS = 20
"""So many clients connect and leave before, so that what the first one makes the hub load is not charged."""

_PREFIXES_PER_REQUEST = 500
_LAYOUT = Layout("/idle/", 1, 16, 1)
"""The layout of messages that never come."""

_STALLED = 100
_STALLED_QUEUE_BYTES = 1 << 20
_OVERFULL = 4
"""So many times what the queue holds is published to each."""

_SIZE_BYTES = 100


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
    hub = RunningHub.start(schemes, (*scope.base.hub_flags, *flags), scope.base.placement.hub)
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
    values = []
    for _ in range(scope.repeat):
        scope.tell(name)
        with _crowd(scope, transport) as crowd:
            before = crowd.memory_bytes()
            crowd.populate(count)
            crowd.subscribe(1)
            values.append((crowd.memory_bytes() - before) / count / 1024)
    return [Figure(name, goal_kib, "KiB of memory each", values)]


def subscriptions(scope: Scope, goal_bytes: float) -> list[Figure]:
    each = scope.scaled(_PREFIXES / _SUBSCRIBERS)
    name = f"subscription, of {each * _SUBSCRIBERS:,} different ones of {_SUBSCRIBERS} clients"
    values = []
    for _ in range(scope.repeat):
        scope.tell(name)
        with _crowd(scope, "tcp", "--limits-prefixes-per-client", str(_PREFIXES)) as crowd:
            crowd.populate(_SUBSCRIBERS)
            before = crowd.memory_bytes()
            crowd.subscribe(each)
            values.append((crowd.memory_bytes() - before) / (each * _SUBSCRIBERS))
    return [Figure(name, goal_bytes, "bytes of memory each", values)]


def stalled_queues(scope: Scope, goal_mib: float) -> list[Figure]:
    """Measure queues of 1 MiB that are full, each with messages that no other one has."""
    count = scope.scaled(_STALLED, 2)
    fitting = _STALLED_QUEUE_BYTES // _SIZE_BYTES
    plan = scope.plan(
        messages=count * fitting * _OVERFULL,
        size=_SIZE_BYTES,
        topics=count,
        wish=QueueWish(messages=65_536),
        warmup=count,
    )
    wish = QueueWish(messages=1_000_000, bytes=_STALLED_QUEUE_BYTES)
    name = f"{count} stalled subscribers, {_STALLED_QUEUE_BYTES >> 20} MiB queues, no message in two of them"
    values, faults = [], []
    for _ in range(scope.repeat):
        with Stage(plan) as stage, stalled_readers(stage, count, wish, apart=True) as readers:
            stage.hub.wait_quiet()
            before = stage.hub.usage().memory_bytes
            run = stage.measure(watch=readers.watched(scope.tell(name)))
            values.append((run.hub_memory_bytes - before) / 1048576)
            accounts = readers.accounts()
        if any(not one.told or one.told != one.lost or one.out_of_order for one in accounts):
            faults.append("a queue was not full, or what it lost was not told")
        if not run.flawless:
            faults.append("the subscriber that reads did not get everything")
    return [Figure(name, goal_mib, "MiB of memory together", values, faults=faults)]
