"""The load generator's process: it reads a job from standard input, and writes figures to standard output, both JSON.

```
< {"workload": "fan-out", "dialect": "nats", "ports": [4222, 0], "pid": 71, "duration_s": 1.5, "cpu": 1}
> {"figures": {"cpu_us": 0.07, ...}}          or  {"wrong": "..."}  or  {"failed": "..."}
```

`compare.py` starts it, one for each run. At full speed (`Flood`) one process publishes and receives, so that the lag is
bounded exactly. One by one (`pace`) each message is due at a time of its own and latency counts from when it was *due*.
"""

from __future__ import annotations

import gc
import json
import os
import select
import socket
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from peers.bench.worker import BenchError, Usage, forget_peak, raise_descriptor_limit, read_usage
from tests.benchmarks.channels import Channel, Dialect, Interest
from tests.benchmarks.dialects import (
    HubDialect,
    HubJsonDialect,
    HubWebSocketDialect,
    MqttDialect,
    NatsDialect,
    RedisDialect,
    RelayDialect,
    ZeromqDialect,
)
from tests.benchmarks.streams import (
    InterleavedReceiver,
    PlainReceiver,
    Receiver,
    Stream,
    Traffic,
    WebSocketReceiver,
    WrongBytesError,
)
from tests.benchmarks.workloads import WORKLOADS, Workload

_STEP_BYTES = 64 * 1024


class Publisher:
    """One connection that publishes.

    Args:
        connection: Not blocking.
        stream: Cut into chunks.
        window_messages: How far it may be ahead of the slowest of those that get its messages; at least one chunk.
    """

    __slots__ = ("_chunk", "_left", "_stream", "_window", "begun_messages", "connection", "writable")

    def __init__(self, connection: socket.socket, stream: Stream, window_messages: int) -> None:
        self.connection = connection
        self._stream = stream
        self._window = max(window_messages, stream.messages(len(stream.chunks[0])))
        self._chunk = 0
        self._left = memoryview(b"")
        self.begun_messages = 0
        self.writable = True

    @property
    def unfinished(self) -> bool:
        return bool(self._left)

    def may_begin(self, received_messages: int) -> bool:
        chunk = self._stream.chunks[self._chunk]
        return self.begun_messages + self._stream.messages(len(chunk)) - received_messages <= self._window

    def begin(self) -> None:
        self._left = self._stream.chunks[self._chunk]
        self._chunk = (self._chunk + 1) % len(self._stream.chunks)
        self.begun_messages += self._stream.messages(len(self._left))

    def send(self) -> None:
        try:
            self._left = self._left[self.connection.send(self._left) :]
        except BlockingIOError:
            self.writable = False
        else:
            self.writable = not self._left

    def discard_incoming(self) -> None:
        with suppress(BlockingIOError):
            if not self.connection.recv(_STEP_BYTES):
                raise ConnectionError("the broker closed a publisher's connection")


SILENCE_LIMIT_S = 10.0
"""When nothing has come for so long, what is missing is lost."""

_STRAY_S = 0.02
"""For so long after the last message, more than was published may come, which is an error."""


class Flow(NamedTuple):
    published: int
    delivered: int
    wall_s: float


class Flood:
    """Publishers and receivers at full speed.

    Args:
        publishers: Each has its window.
        receivers: Each gets the messages of all publishers, or an equal share of them.
        shares: 1, or so many receivers that each gets every so manieth message, in turn.
    """

    def __init__(self, publishers: Sequence[Publisher], receivers: Sequence[Receiver], shares: int = 1) -> None:
        self._publishers = publishers
        self._receivers = {receiver.socket.fileno(): receiver for receiver in receivers}
        self._by_descriptor = {publisher.connection.fileno(): publisher for publisher in publishers}
        self._shares = shares
        self._only = receivers[0] if len(receivers) == 1 else None
        self._poll = select.epoll()
        for descriptor in (*self._receivers, *self._by_descriptor):
            self._poll.register(descriptor, select.EPOLLIN)

    def run(self, duration_s: float) -> Flow:
        begun = sum(publisher.begun_messages for publisher in self._publishers)
        start_s = now_s = heard_s = time.perf_counter()
        while True:
            publishing = now_s - start_s < duration_s
            busy = self._publish(publishing=publishing)
            if not publishing and self._complete():
                break
            events = self._poll.poll(0 if busy else 1.0)
            now_s = time.perf_counter()
            if self._take(events) or busy:
                heard_s = now_s
            elif now_s - heard_s > SILENCE_LIMIT_S:
                raise WrongBytesError(f"silence for {SILENCE_LIMIT_S:.0f} s: {self._missing()}")
        wall_s = time.perf_counter() - start_s
        self._refuse_strays()
        published = sum(publisher.begun_messages for publisher in self._publishers) - begun
        return Flow(published, published * len(self._receivers) // self._shares, wall_s)

    def _publish(self, *, publishing: bool) -> bool:
        """Let every publisher write once, if it may; return whether one could write on at once."""
        busy = False
        for number, publisher in enumerate(self._publishers):
            if not publisher.unfinished:
                if not publishing or not publisher.may_begin(self._received(number)):
                    continue
                publisher.begin()
            elif not publisher.writable:
                continue
            publisher.send()
            if publisher.writable:
                busy = True
            else:
                self._poll.modify(publisher.connection, select.EPOLLIN | select.EPOLLOUT)
        return busy

    def _take(self, events: list[tuple[int, int]]) -> bool:
        receivers = self._receivers
        for descriptor, event in events:
            receiver = receivers.get(descriptor)
            if receiver is not None:
                receiver.receive()
                continue
            publisher = self._by_descriptor[descriptor]
            if event & select.EPOLLOUT:
                publisher.writable = True
                self._poll.modify(descriptor, select.EPOLLIN)
            if event & ~select.EPOLLOUT:
                publisher.discard_incoming()
        return bool(events)

    def _received(self, publisher: int) -> int:
        if self._only is not None:
            return self._only.messages(publisher)
        return min(receiver.messages(publisher) for receiver in self._receivers.values()) * self._shares

    def _complete(self) -> bool:
        return all(
            not publisher.unfinished and self._received(number) >= publisher.begun_messages
            for number, publisher in enumerate(self._publishers)
        )

    def _missing(self) -> str:
        for number, publisher in enumerate(self._publishers):
            for receiver in self._receivers.values():
                missing = publisher.begun_messages // self._shares - receiver.messages(number)
                if missing > 0:
                    return f"{missing:,} of {publisher.begun_messages:,} messages of a publisher have not come"
        return "a publisher cannot write"

    def _refuse_strays(self) -> None:
        received = self._totals()
        self._take(self._poll.poll(_STRAY_S))
        if self._totals() != received:
            raise WrongBytesError("more messages came than were published")

    def _totals(self) -> list[int]:
        publishers = range(len(self._publishers))
        return [receiver.messages(number) for receiver in self._receivers.values() for number in publishers]


SILENCE_LIMIT_NS = 10_000_000_000


class Pace(NamedTuple):
    delivered: int
    wall_s: float
    latencies_ns: list[int]
    """The times from when a message was due until it was read, sorted."""
    late_ns: list[int]
    """The times from when it was due until it was about to be sent, sorted: the generator's own part."""


def pace(
    connection: socket.socket,
    stream: Stream,
    receiver: Receiver,
    messages: int,
    interval_ns: int,
    *,
    bystanders: Mapping[int, socket.socket],
) -> Pace:
    poll = select.epoll()
    awaited = receiver.socket.fileno()
    others = {connection.fileno(): connection, **bystanders}
    for descriptor in (awaited, *others):
        poll.register(descriptor, select.EPOLLIN)
    clock = time.perf_counter_ns
    wait, send, receive = poll.poll, connection.send, receiver.receive
    chunks = stream.chunks
    period = len(chunks)
    first = receiver.messages(0)
    due_ns = array("q", bytes(8 * messages))
    late_ns = array("q", bytes(8 * messages))
    latencies_ns = array("q", bytes(8 * messages))
    sent = got = 0
    start_ns = heard_ns = clock()
    next_ns = start_ns + interval_ns
    try:
        while got < messages:
            now_ns = clock()
            if sent < messages and now_ns >= next_ns:
                chunk = chunks[(first + sent) % period]
                due_ns[sent] = next_ns
                late_ns[sent] = now_ns - next_ns
                if send(chunk) != len(chunk):
                    raise ConnectionError("the broker does not read: a single message could not be written")
                sent += 1
                next_ns += interval_ns
            for descriptor, _ in wait(0):
                if descriptor != awaited:
                    _discard(others[descriptor])
                    continue
                receive()
                now_ns = heard_ns = clock()
                come = receiver.messages(0) - first
                if come > sent:
                    raise WrongBytesError("more messages came than were published")
                while got < come:
                    latencies_ns[got] = now_ns - due_ns[got]
                    got += 1
            if now_ns - heard_ns > SILENCE_LIMIT_NS:
                raise WrongBytesError(f"silence: {sent - got:,} of {sent:,} messages have not come")
    finally:
        poll.close()
    wall_s = (clock() - start_ns) / 1e9
    return Pace(messages, wall_s, sorted(latencies_ns), sorted(late_ns))


def _discard(connection: socket.socket) -> None:
    with suppress(BlockingIOError):
        if connection.recv(65536):
            return
        raise ConnectionError("the broker closed a connection")


_AT_ONCE = 128

T = TypeVar("T")


def open_receivers(workload: Workload, dialect: Dialect) -> list[Receiver]:
    traffic = Traffic(workload, dialect)
    streams = [
        [traffic.delivered(publisher, share) for publisher in range(workload.publishers)]
        for share in range(workload.shares)
    ]

    def open_one(number: int) -> Receiver:
        share = number % workload.shares
        channel = dialect.connect("subscriber")
        dialect.subscribe(channel, traffic.interests(share))
        connection = channel.release(listening=True)
        if workload.publishers > 1:
            return InterleavedReceiver(connection, streams[share], dialect)
        if workload.websocket:
            return WebSocketReceiver(connection, streams[share][0], dialect)
        return PlainReceiver(connection, streams[share][0], dialect)

    return _open_all(workload, open_one, workload.subscribers)


def open_bystanders(workload: Workload, dialect: Dialect) -> dict[int, socket.socket]:
    def open_one(number: int) -> socket.socket:
        channel = dialect.connect("subscriber")
        dialect.subscribe(channel, [Interest(("idle", f"{number:05}"))])
        return channel.release(listening=True)

    return {one.fileno(): one for one in _open_all(workload, open_one, workload.bystanders)}


def open_channels(workload: Workload, dialect: Dialect) -> list[Channel]:
    return _open_all(workload, lambda _: dialect.connect("subscriber"), workload.subscribers)


def _open_all(workload: Workload, open_one: Callable[[int], T], count: int) -> list[T]:
    if not workload.websocket:
        return [open_one(number) for number in range(count)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(open_one, range(count)))


Figures = dict[str, float]
"""Figures by name, unit included: `cpu_us` is server CPU a delivered message; loads are in CPUs, `others_load` that of
all other processes of the machine: a run beside others is no good measurement."""

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_WARM_UP_S = 0.3
_SUBSCRIBERS_OF_PREFIXES = 100
"""Over so many connections subscriptions are spread whose memory is measured."""

_SETTLE_S = 0.3
"""A garbage collector may finish for so long before memory is read."""


class _Moment(NamedTuple):
    server: Usage
    own_ns: int
    machine_ns: int

    @classmethod
    def now(cls, pid: int) -> _Moment:
        usage = read_usage(pid)
        forget_peak(pid)
        return cls(usage, time.process_time_ns(), _machine_ns())


@dataclass(frozen=True, slots=True)
class Job:
    workload: Workload
    dialect: Dialect
    pid: int
    """The broker's process."""
    duration_s: float
    """How long is published, not counting the warm-up."""


def carry_out(job: Job) -> Figures:
    match job.workload.kind:
        case "flood":
            return _flood(job)
        case "paced":
            return _pace(job)
        case "memory":
            return _memory(job)


def _flood(job: Job) -> Figures:
    workload, dialect = job.workload, job.dialect
    traffic = Traffic(workload, dialect)
    sent = [traffic.published(publisher) for publisher in range(workload.publishers)]
    receivers = open_receivers(workload, dialect)
    window = traffic.window_messages(sent[0])
    publishers = [Publisher(dialect.connect("publisher").release(listening=False), stream, window) for stream in sent]
    flood = Flood(publishers, receivers, workload.shares)
    flood.run(_WARM_UP_S)
    before = _Moment.now(job.pid)
    flow = flood.run(job.duration_s)
    return _figures(before, _Moment.now(job.pid), flow.delivered, flow.wall_s)


def _pace(job: Job) -> Figures:
    workload, dialect = job.workload, job.dialect
    stream = Traffic(workload, dialect).published(0)
    (receiver,) = open_receivers(workload, dialect)
    bystanders = open_bystanders(workload, dialect)
    publisher = dialect.connect("publisher").release(listening=False)
    interval_ns = 1_000_000_000 // workload.rate
    pace(publisher, stream, receiver, int(workload.rate * _WARM_UP_S), interval_ns, bystanders=bystanders)
    before = _Moment.now(job.pid)
    paced = pace(publisher, stream, receiver, int(workload.rate * job.duration_s), interval_ns, bystanders=bystanders)
    figures = _figures(before, _Moment.now(job.pid), paced.delivered, paced.wall_s)
    figures["p50_us"] = _quantile_us(paced.latencies_ns, 0.5)
    figures["p99_us"] = _quantile_us(paced.latencies_ns, 0.99)
    figures["late_p99_us"] = _quantile_us(paced.late_ns, 0.99)
    return figures


def _figures(before: _Moment, after: _Moment, delivered: int, wall_s: float) -> Figures:
    cpu_ns = after.server.cpu_ns - before.server.cpu_ns
    own_ns = after.own_ns - before.own_ns
    others_ns = max(after.machine_ns - before.machine_ns - cpu_ns - own_ns, 0)
    return {
        "cpu_us": cpu_ns / delivered / 1e3,
        "messages_per_s": delivered / wall_s,
        "delivered": delivered,
        "server_load": cpu_ns / wall_s / 1e9,
        "generator_cpu_us": own_ns / delivered / 1e3,
        "generator_load": own_ns / wall_s / 1e9,
        "others_load": others_ns / wall_s / 1e9,
        "peak_bytes": after.server.peak_bytes,
        "wall_s": wall_s,
    }


def _memory(job: Job) -> Figures:
    workload, dialect = job.workload, job.dialect
    first = dialect.connect("subscriber")  # what the first one costs is not what each costs
    dialect.subscribe(first, [Interest(("idle", "first"))])
    before_bytes = _settled_bytes(job.pid)
    channels = open_channels(workload, dialect)
    connected_bytes = _settled_bytes(job.pid)
    figures: Figures = {"connection_bytes": (connected_bytes - before_bytes) / workload.subscribers}
    if workload.prefixes:
        each = workload.prefixes // _SUBSCRIBERS_OF_PREFIXES
        for place, channel in enumerate(channels[:_SUBSCRIBERS_OF_PREFIXES]):
            numbers = range(place * each, (place + 1) * each)
            dialect.subscribe(channel, [Interest(("sensor", f"{number:06}"), below=True) for number in numbers])
        subscribed_bytes = _settled_bytes(job.pid)
        figures["subscription_bytes"] = (subscribed_bytes - connected_bytes) / workload.prefixes
    figures["peak_bytes"] = read_usage(job.pid).peak_bytes
    return figures


def _machine_ns() -> int:
    """Return how long the machine's CPUs were not idle (user, nice, system, interrupts, stolen), in steps of a tick."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, interrupt, soft_interrupt, stolen = fields[:8]
    return (user + nice + system + interrupt + soft_interrupt + stolen) * _TICK_NS


def _settled_bytes(pid: int) -> int:
    time.sleep(_SETTLE_S)
    return read_usage(pid).memory_bytes


def _quantile_us(ordered_ns: list[int], part: float) -> float:
    return ordered_ns[min(int(len(ordered_ns) * part), len(ordered_ns) - 1)] / 1e3


def dialect(name: str, ports: list[int], workload: Workload) -> Dialect:
    port, second = ports
    through = second if workload.websocket else 0
    makers: dict[str, Callable[[], Dialect]] = {
        "hub": lambda: HubWebSocketDialect(port, second) if workload.websocket else HubDialect(port),
        "hub-batch": lambda: HubDialect(port, workload.size_bytes),
        "hub-json": lambda: HubJsonDialect(port, second),
        "nats": lambda: NatsDialect(port, through),
        "mosquitto": lambda: MqttDialect(port, through),
        "redis": lambda: RedisDialect(port),
        "relay": lambda: RelayDialect(port),
        "zeromq": lambda: ZeromqDialect(port, second),
    }
    return makers[name]()


def main() -> None:
    order: dict[str, Any] = json.load(sys.stdin)
    if order["cpu"] is not None:
        os.sched_setaffinity(0, {order["cpu"]})
    raise_descriptor_limit()
    workload = next(one for one in WORKLOADS if one.name == order["workload"])
    spoken = dialect(order["dialect"], order["ports"], workload)
    job = Job(workload, spoken, order["pid"], order["duration_s"])
    gc.disable()  # nothing here makes cycles; a collection would be in the latencies
    result: dict[str, Any]
    try:
        result = {"figures": carry_out(job)}
    except WrongBytesError as error:
        result = {"wrong": str(error)}
    except (BenchError, OSError) as error:
        result = {"failed": f"{type(error).__name__}: {error}"}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
