"""`Job`: one workload against one broker that runs already; `carry_out` sets it up, warms it, and measures.

Owner: a process of its own, bound to its own CPU (`generate.py`). The broker's CPU time is read at the moments between
which the counted messages were on their way: before the first is sent, after the last has come.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from workloads import Workload

from generators.crowd import open_bystanders, open_channels, open_receivers
from generators.dialect import Dialect, Interest
from generators.flood import Flood
from generators.paced import pace
from generators.publisher import Publisher
from generators.traffic import Traffic
from peers.bench.usage import Usage, forget_peak, read_usage

__all__ = ["Figures", "Job", "carry_out"]

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
    """What has been used up to now."""

    server: Usage
    own_ns: int
    machine_ns: int

    @classmethod
    def now(cls, pid: int) -> _Moment:
        """Look, and let the server's peak begin anew."""
        usage = read_usage(pid)
        forget_peak(pid)
        return cls(usage, time.process_time_ns(), _machine_ns())


@dataclass(frozen=True, slots=True)
class Job:
    """One workload against one broker."""

    workload: Workload
    dialect: Dialect
    pid: int
    """The broker's process."""
    duration_s: float
    """How long is published, not counting the warm-up."""


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
