"""`Job`: one workload against one broker that runs already; `carry_out` sets it up, warms it, and measures.

Owner: a process of its own, bound to its own CPU (`generate.py`). The broker's CPU time is read at the moments between
which the counted messages were on their way: before the first is sent, after the last has come.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from generators.dialect import Dialect, Interest, Topic
from generators.flood import Flood
from generators.interleaved import InterleavedReceiver
from generators.paced import pace
from generators.publisher import Publisher
from generators.receiver import PlainReceiver, Receiver, WebSocketReceiver
from generators.stream import WRITE_BYTES, Stream, payload
from generators.usage import forget_peak, read_usage
from workloads import Workload

__all__ = ["Figures", "Job", "carry_out"]

Figures = dict[str, float]
"""Figures by name, unit included: `cpu_us` is server CPU a delivered message."""

_WINDOW_BYTES = 512 * 1024
_PERIOD_LEAST_UNITS = 32
_WARM_UP_S = 0.3
_SUBSCRIBERS_OF_PREFIXES = 100
"""Memory of subscriptions: over so many connections they are spread."""

_SETTLE_S = 0.3
"""Before memory is read: a garbage collector may finish."""


@dataclass(frozen=True, slots=True)
class Job:
    """One workload against one broker."""

    workload: Workload
    dialect: Dialect
    pid: int
    """Of the broker."""
    duration_s: float
    """Of publishing, warming up not included."""


def carry_out(job: Job) -> Figures:
    """Measure.

    Raises:
        WrongBytesError: Something was lost, repeated, exchanged or damaged.
        OSError: The broker refused or closed a connection.
    """
    match job.workload.kind:
        case "flood":
            return _flood(job)
        case "paced":
            return _pace(job)
        case "memory":
            return _memory(job)


def _flood(job: Job) -> Figures:
    workload, dialect = job.workload, job.dialect
    sent = [_published(workload, dialect, publisher) for publisher in range(workload.publishers)]
    receivers = _receivers(workload, dialect)
    window = _window_messages(workload, sent[0])
    publishers = [Publisher(dialect.connect("publisher").release(), stream, window) for stream in sent]
    flood = Flood(publishers, receivers, workload.shares)
    flood.run(_WARM_UP_S)
    forget_peak(job.pid)
    before, own_ns = read_usage(job.pid), time.process_time_ns()
    flow = flood.run(job.duration_s)
    own_ns = time.process_time_ns() - own_ns
    after = read_usage(job.pid)
    cpu_ns = after.cpu_ns - before.cpu_ns
    return {
        "cpu_us": cpu_ns / flow.delivered / 1e3,
        "messages_per_s": flow.delivered / flow.wall_s,
        "delivered": flow.delivered,
        "server_load": cpu_ns / flow.wall_s / 1e9,
        "generator_cpu_us": own_ns / flow.delivered / 1e3,
        "generator_load": own_ns / flow.wall_s / 1e9,
        "peak_bytes": after.peak_bytes,
        "wall_s": flow.wall_s,
    }


def _pace(job: Job) -> Figures:
    workload, dialect = job.workload, job.dialect
    stream = _published(workload, dialect, 0)
    (receiver,) = _receivers(workload, dialect)
    bystanders = {}
    for number in range(workload.bystanders):
        channel = dialect.connect("subscriber")
        dialect.subscribe(channel, [Interest(("idle", f"{number:05}"))])
        connection = channel.release()
        bystanders[connection.fileno()] = connection
    publisher = dialect.connect("publisher").release()
    interval_ns = 1_000_000_000 // workload.rate
    pace(publisher, stream, receiver, int(workload.rate * _WARM_UP_S), interval_ns, bystanders)
    forget_peak(job.pid)
    before = read_usage(job.pid)
    paced = pace(publisher, stream, receiver, int(workload.rate * job.duration_s), interval_ns, bystanders)
    after = read_usage(job.pid)
    cpu_ns = after.cpu_ns - before.cpu_ns
    return {
        "cpu_us": cpu_ns / paced.delivered / 1e3,
        "messages_per_s": paced.delivered / paced.wall_s,
        "delivered": paced.delivered,
        "server_load": cpu_ns / paced.wall_s / 1e9,
        "p50_us": _quantile_us(paced.latencies_ns, 0.5),
        "p99_us": _quantile_us(paced.latencies_ns, 0.99),
        "late_p99_us": _quantile_us(paced.late_ns, 0.99),
        "peak_bytes": after.peak_bytes,
        "wall_s": paced.wall_s,
    }


def _memory(job: Job) -> Figures:
    workload, dialect = job.workload, job.dialect
    first = dialect.connect("subscriber")  # what the first one costs is not what each costs
    dialect.subscribe(first, [Interest(("idle", "first"))])
    before_bytes = _settled_bytes(job.pid)
    channels = [dialect.connect("subscriber") for _ in range(workload.subscribers)]
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


def _settled_bytes(pid: int) -> int:
    time.sleep(_SETTLE_S)
    return read_usage(pid).memory_bytes


def _quantile_us(ordered_ns: list[int], part: float) -> float:
    return ordered_ns[min(int(len(ordered_ns) * part), len(ordered_ns) - 1)] / 1e3


# What is sent, what must come.


def _topic(workload: Workload, number: int) -> Topic:
    """The topic of message `number`: one after the other, and neighbours do not have a prefix in common."""
    if not workload.prefixes:
        return ("bench", "stream")
    return ("bench", f"{number % workload.prefixes:04}", f"{number // workload.prefixes % workload.topics:04}")


def _period_units(workload: Workload, dialect: Dialect, unit_bytes: int) -> int:
    window_units = max(workload.window_messages // dialect.unit_messages, _WINDOW_BYTES // unit_bytes)
    multiple = max(workload.topics, workload.shares)
    return -(-max(2 * window_units, _PERIOD_LEAST_UNITS) // multiple) * multiple


def _payloads(workload: Workload, dialect: Dialect, publisher: int, unit: int) -> list[bytes]:
    numbers = range(unit * dialect.unit_messages, (unit + 1) * dialect.unit_messages)
    return [payload(number, publisher, workload.size_bytes) for number in numbers]


def _published(workload: Workload, dialect: Dialect, publisher: int) -> Stream:
    """What a publisher sends, cut into writes."""

    def unit(number: int) -> bytes:
        topic = _topic(workload, number % workload.topics)
        return dialect.publication(topic, _payloads(workload, dialect, publisher, number))

    first = unit(0)
    units = [unit(number) for number in range(_period_units(workload, dialect, len(first)))]
    offset = first.index(_payloads(workload, dialect, publisher, 0)[0])
    stream = Stream(units, dialect.unit_messages, offset)
    most = 1 if workload.rate else workload.chunk_messages
    stream.cut(workload.shares, len(first) * most if most else WRITE_BYTES)
    return stream


def _delivered(workload: Workload, dialect: Dialect, publisher: int, share: int) -> Stream:
    """What a subscriber gets of it."""
    period = _period_units(workload, dialect, len(_published_unit(workload, dialect)))
    units = []
    for number in range(share, period, workload.shares):
        topic = _topic(workload, number % workload.topics)
        interest = Interest(topic[:2], below=bool(workload.prefixes))
        place = number % workload.prefixes // workload.shares if workload.prefixes else 0
        units.append(dialect.delivery(topic, _payloads(workload, dialect, publisher, number), interest, place))
    offset = units[0].index(_payloads(workload, dialect, publisher, share)[0])
    return Stream(units, dialect.unit_messages, offset)


def _published_unit(workload: Workload, dialect: Dialect) -> bytes:
    return dialect.publication(_topic(workload, 0), _payloads(workload, dialect, 0, 0))


def _window_messages(workload: Workload, stream: Stream) -> int:
    return workload.window_messages or stream.messages(_WINDOW_BYTES)


def _receivers(workload: Workload, dialect: Dialect) -> list[Receiver]:
    """Connect and subscribe all subscribers."""
    shared = [[_delivered(workload, dialect, number, share) for number in range(workload.publishers)]
              for share in range(workload.shares)]
    receivers: list[Receiver] = []
    for number in range(workload.subscribers):
        share = number % workload.shares
        channel = dialect.connect("subscriber")
        dialect.subscribe(channel, _interests(workload, share))
        connection = channel.release()
        if workload.publishers > 1:
            receivers.append(InterleavedReceiver(connection, shared[share], dialect))
        elif workload.websocket:
            receivers.append(WebSocketReceiver(connection, shared[share][0], dialect))
        else:
            receivers.append(PlainReceiver(connection, shared[share][0], dialect))
    return receivers


def _interests(workload: Workload, share: int) -> list[Interest]:
    if not workload.prefixes:
        return [Interest(_topic(workload, 0))]
    numbers = range(share, workload.prefixes, workload.shares)
    return [Interest(("bench", f"{number:04}"), below=True) for number in numbers]
