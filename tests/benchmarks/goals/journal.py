"""Goals for the journal: what recording costs the live stream, how fast it is written, confirmed and read.

The hub and the load are bound to no CPU here: the journal's writer and its readers are meant to use what is left.
"""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
import time
from collections import deque
from itertools import chain

import msgspec

from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, FLAG_CONFIRM, KIND_MESSAGES, encode_frame
from peers.bench.line import Layout, dial
from peers.bench.measurement import Measurement
from peers.bench.processes import RunningHub
from peers.bench.stage import Plan, Stage
from peers.client import connect
from tests.benchmarks.goals.companions import companion
from tests.benchmarks.goals.figure import TOO_SLOW, Figure, Scope, faults, in_pairs

_SIZE_BYTES = 100
_LIVE_MESSAGES = 3_000_000
_WRITTEN_MESSAGES = 6_000_000
_READ_MESSAGES = 2_000_000
_VALUES = 500
_FLAGS = ("--journal=journal",)
_TOPIC = "/bench/journal"
_LOOK_S = 0.000_5
_LAYOUT = Layout(prefix="/bench/none", topics=1, size_bytes=_SIZE_BYTES, batch=1)
_LATE_FACTOR = 1.05
_STREAM_PER_S = 20_000
_SECONDS = 5
_QUANTILES = 100


def live(scope: Scope, goal_percent: float) -> list[Figure]:
    name = "1 → 1 while all is recorded"
    plan = scope.plan(messages=scope.scaled(_LIVE_MESSAGES), size=_SIZE_BYTES, pin=False)

    def measure(recording: bool) -> Measurement:  # noqa: FBT001 -- as all
        with Stage(dataclasses.replace(plan, hub_flags=(*plan.hub_flags, *_FLAGS * recording))) as stage:
            return stage.measure(watch=scope.tell(f"{name}{'' if recording else ': not yet'}"))

    runs = in_pairs(scope.repeat, measure)
    rates = [(without.delivered_per_s, beside.delivered_per_s) for without, beside in zip(*runs, strict=True)]
    remark = f"messages/s: {'; '.join(f'{without:,.0f} → {beside:,.0f}' for without, beside in rates)}"
    ratios = [100 * beside / without for without, beside in rates]
    flaws = faults(chain(*runs))
    return [Figure(name, goal_percent, "% of the rate without", ratios, at_least=True, faults=flaws, remark=remark)]


def written(scope: Scope, goal_per_s: float) -> list[Figure]:
    """Measure batches that come as fast as they are taken, until the last is committed."""
    plan, count = _filling(scope, _WRITTEN_MESSAGES)
    name = f"{count:,} messages of {_SIZE_BYTES} bytes, {_VALUES} in a frame, written to the journal"
    rates, flaws = [], []
    for _ in range(scope.repeat):
        with Stage(plan) as stage:
            run = stage.measure(watch=scope.tell(name))
            late_s = asyncio.run(_settle(stage.hub.url("tcp")))
        rates.append(run.published / (run.elapsed_s + late_s))
        flaws += faults([run])
    return [Figure(name, goal_per_s, "messages/s", rates, at_least=True, faults=flaws)]


def confirmed(scope: Scope, frames_per_s: int, values: int, percentile: int, goal_ms: float) -> list[Figure]:
    """Measure a publisher that wants to know the offset of each frame, with a journal that waits for the disk."""
    name = f"confirmation, sync = full, {frames_per_s * values:,} messages/s, {values} in a frame"
    waits, remarks, flaws = [], [], []
    for _ in range(scope.repeat):
        scope.tell(name)
        hub = RunningHub.start(("tcp",), (*scope.base.hub_flags, *_FLAGS, "--journal-sync=full"))
        try:
            began_s = time.perf_counter()
            frames = scope.scaled(frames_per_s * _SECONDS, 100)
            waits_ms = _confirm(hub.url("tcp"), frames, frames_per_s, values)
            late = (time.perf_counter() - began_s) * frames_per_s / frames
        finally:
            hub.stop()
        percentiles = statistics.quantiles(waits_ms, n=_QUANTILES)
        waits.append(percentiles[percentile - 1])
        remarks.append(f"{percentiles[49]:.1f} and {percentiles[98]:.1f}")
        if late > _LATE_FACTOR:
            flaws.append(f"{TOO_SLOW}: it took {late:.2f} times as long as it should")
    remark = f"p50 and p99, ms: {', '.join(remarks)}"
    return [Figure(name, goal_ms, f"ms, p{percentile}", waits, faults=flaws, remark=remark)]


def history(scope: Scope, goal_per_s: float) -> list[Figure]:
    """Measure clients that read what is recorded: as columns, and as a stream that begins with the oldest record."""
    plan, count = _filling(scope, _READ_MESSAGES)
    name = f"{count:,} messages of {_SIZE_BYTES} bytes read from the journal"
    columns, streams, busy = [], [], []
    with Stage(plan) as stage:
        stage.measure(watch=scope.tell(f"{name}: writing"))
        url = stage.hub.url("tcp")
        asyncio.run(_settle(url))
        for _ in range(scope.repeat):
            scope.tell(name)
            columns.append(asyncio.run(_read_columns(url)))
            used_s = time.process_time()
            streams.append(asyncio.run(_read_stream(url, count)))
            busy.append(f"{1e6 * (time.process_time() - used_s) / count:.2f}")
    remark = f"CPU of the reader, µs a message: {', '.join(busy)}"
    stream = f"{count:,} messages of {_SIZE_BYTES} bytes, a stream from the journal, one reader"
    return [
        Figure(name, goal_per_s, "messages/s", columns, at_least=True),
        Figure(stream, goal_per_s, "messages/s", streams, at_least=True, remark=remark),
    ]


def beside_history(scope: Scope, goal_times: float) -> list[Figure]:
    """Measure the latency of a stream while somebody reads the journal as fast as it goes."""
    name = f"live p99 at {_STREAM_PER_S:,} messages/s beside a reader of the journal at full speed"
    plan, count = _filling(scope, _READ_MESSAGES)
    stream = scope.plan(messages=scope.scaled(_STREAM_PER_S * _SECONDS, 100), rate=_STREAM_PER_S, size=_SIZE_BYTES)
    read: list[str] = []
    with Stage(plan) as filled:
        filled.measure(watch=scope.tell(f"{name}: writing"))
        hub = filled.hub
        asyncio.run(_settle(hub.url("tcp")))
        stream = dataclasses.replace(stream, urls=(hub.url("tcp"),), hub_pid=hub.pid, hub_flags=())
        with Stage(stream) as stage:

            def measure(reading: bool) -> Measurement:  # noqa: FBT001 -- as all
                watch = scope.tell(f"{name}{'' if reading else ': alone'}")
                with companion("history", hub.url("tcp"), reading) as done:
                    run = stage.measure(rate=stream.rate, watch=watch)
                read.extend(f"{passes * count / run.elapsed_s:,.0f}" for passes in done.values())
                return run

            runs = in_pairs(scope.repeat, measure)
    quiet, busy = ([run.latency.p99_us if run.latency is not None else 0.0 for run in some] for some in runs)
    ratios = [with_it / without for without, with_it in zip(quiet, busy, strict=True)]
    alone, beside = (", ".join(f"{one:,.0f}" for one in some) for some in (quiet, busy))
    flaws = faults(chain(*runs))
    remark = f"p99, µs: {alone} alone, {beside} beside; read, messages/s: {', '.join(read)}"
    return [Figure(name, goal_times, "times as long", ratios, faults=flaws, remark=remark)]


def _filling(scope: Scope, messages: int) -> tuple[Plan, int]:
    flags = (*scope.base.hub_flags, *_FLAGS)
    count = scope.scaled(messages, _VALUES)
    return scope.plan(messages=count, size=_SIZE_BYTES, batch=_VALUES, pin=False, hub_flags=flags), count


async def _settle(url: str) -> float:
    began_s = time.perf_counter()
    async with connect(url) as client:
        await client.publish_confirmed(_TOPIC, None)
    return time.perf_counter() - began_s


def _confirm(url: str, frames: int, frames_per_s: int, values: int) -> list[float]:
    """Publish frames at a steady rate; return how long the confirmation of each took, ms, as far as `_LOOK_S` tells."""
    value = msgspec.msgpack.encode(bytes(_SIZE_BYTES - 2))
    body = BATCH_COUNT.pack(values) + value * values
    frame = encode_frame(KIND_MESSAGES, body, key=_TOPIC.encode(), flags=FLAG_BATCH | FLAG_CONFIRM)
    line = dial(url, _LAYOUT, "bench publisher")
    waits_ms: list[float] = []
    sent_s: deque[float] = deque()
    began_s = time.perf_counter()
    sent = 0
    while len(waits_ms) < frames:
        due = min(frames, 1 + int((time.perf_counter() - began_s) * frames_per_s))
        for _ in range(due - sent):
            sent_s.append(time.perf_counter())
            line.socket.sendall(frame)
        sent = due
        recorded = sum(control.word == "recorded" for control in line.listen())
        now_s = time.perf_counter()
        waits_ms += [1000 * (now_s - sent_s.popleft()) for _ in range(recorded)]
        time.sleep(_LOOK_S)
    line.close()
    return waits_ms


async def _read_columns(url: str) -> float:
    began_s = time.perf_counter()
    async with connect(url) as client:
        messages = sum([block.count async for block in client.read().blocks()])
    return messages / (time.perf_counter() - began_s)


async def _read_stream(url: str, messages: int) -> float:
    began_s = time.perf_counter()
    left = messages
    async with connect(url) as client, client.subscribe("/", from_offset=0) as stream:
        while left > 0:
            left -= len(await stream.batch())
    return messages / (time.perf_counter() - began_s)
