"""`Stage`: the hub, the publishers and the subscribers of one benchmark, set up and put away.

```
with Stage(plan) as stage:         start the hub (or take a running one), connect everybody, warm up
    stage.measure(1_000_000)       send, wait until everything arrived or is known to be lost, work out the figures
```

In one run the stage notes the hub's CPU time, gives the publishers their orders, looks at the board until every
subscriber has accounted for every message (received, or told that it was lost), notes the CPU time again, then asks for
details. If nothing moves any more for `QUIET_S` after the last message was sent, what has not come is lost.

Owner of the state: the command. Cost: a look at the board every 20 ms while it waits.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import NoneType, TracebackType
from typing import NamedTuple, Self

import msgspec

from hub.batch import BATCH_OVERHEAD_BYTES
from hub.overflow import QueueLimits
from peers.bench.measurement import Histogram, Latency, Measurement, Sample
from peers.bench.plan import Plan
from peers.bench.publisher import Publish, Published, Publisher, publish
from peers.bench.running_hub import RunningHub
from peers.bench.subscriber import Report, Reported, Subscribers, subscribe
from peers.bench.worker import Board, Usage, Worker, raise_descriptor_limit
from peers.wire.hello import QueueWish

QUIET_S = 2.0
"""A hub that has a message delivers it within this, or never."""

_START_S = 120.0
"""Thousands of connections take a while."""
_POLL_S = 0.02
_SAMPLE_S = 0.1
_LEAD_NS = 20_000_000
"""From the order to the first message, so that all publishers begin together."""

Watch = Callable[[int, int], object]
"""Called now and then with how many deliveries are accounted for, and how many there will be."""

Told = Callable[[str], Watch]
"""Called before each measurement with what it is; returns whoever watches it."""


class Stage:
    """One benchmark, set up.

    Args:
        plan: What is asked for.

    Attributes:
        plan: What was asked for.
        layout: What its messages look like.
        hub: The hub that is measured, from the beginning of the `with` statement.
    """

    hub: RunningHub

    def __init__(self, plan: Plan) -> None:
        self.plan = plan.check()
        self.layout = plan.layout(secrets.token_hex(4))
        self._stack = ExitStack()
        """It has everything that was started, and ends it."""
        self._board = Board(plan.publishers, plan.subscribers)
        self._publishers: list[Worker] = []
        self._subscribers: list[Worker] = []
        self._window = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:  # which ends what was started, if this fails
            self._set_up(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def sent(self) -> list[int]:
        """How many messages each publisher has sent so far."""
        return list(self._board.sent)

    # Setting up.

    def _set_up(self, stack: ExitStack) -> None:
        plan, placement = self.plan, self.plan.placement
        self.hub = plan.find_hub(("tcp",) if plan.transport == "tcp" else ("tcp", "ws"), placement.hub)
        stack.callback(self.hub.stop)
        if placement.load:
            stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
            os.sched_setaffinity(0, placement.load)
        raise_descriptor_limit()
        url, publishers_url = self.hub.url(plan.transport), self.hub.url("tcp")

        def start(name: str, work: Callable[..., None], setup: object) -> Worker:
            worker = Worker(name, work, setup, placement.load)
            stack.callback(worker.stop)
            return worker

        each, more = divmod(plan.subscribers, plan.processes)
        for index in range(plan.processes):
            first, count = index * each + min(index, more), each + (index < more)
            subscribers = Subscribers(url, self.layout, self._board, first, count, plan.wish)
            self._subscribers.append(start("subscriber", subscribe, subscribers))
        granted = [worker.take(QueueWish, _START_S) for worker in self._subscribers]
        self._window = self._fitting(granted[0]) if plan.window else 0
        for number in range(plan.publishers):
            setup = Publisher(publishers_url, self.layout, self._board, number)
            self._publishers.append(start("publisher", publish, setup))
        for worker in self._publishers:
            worker.take(NoneType, _START_S)
        if plan.warmup_messages:
            self.measure(plan.warmup_messages)

    def _fitting(self, granted: QueueWish) -> int:
        """Return how many messages of each publisher surely fit into the queue of a subscriber."""
        default, layout = QueueLimits(), self.layout
        each_bytes = (layout.frame_bytes + BATCH_OVERHEAD_BYTES) / layout.batch
        fitting = min(granted.messages or default.messages, int((granted.bytes or default.bytes) / each_bytes))
        return max(1, fitting // self.plan.publishers)

    # Measuring.

    def measure(
        self, messages: int | None = None, rate: float = 0, burst: int = 1, watch: Watch | None = None
    ) -> Measurement:
        """Send messages and account for them.

        Args:
            messages: How many all publishers send together; None is what the plan says.
            rate: Messages a second; 0 is full speed.
            burst: Messages that are due at the same time.
            watch: Told how far it is.

        Raises:
            BenchError: The hub or a worker failed.
        """
        plan, board = self.plan, self._board
        frames = -(-(plan.messages if messages is None else messages) // (plan.publishers * plan.batch))
        already = sum(self.sent)
        total = frames * plan.batch * plan.publishers
        self._report(latency=bool(rate))
        self.hub.forget_peak()
        before = self.hub.usage()
        self._order_publishers(frames, rate, max(1, burst // plan.batch))
        samples = self._watch(already, total, before.cpu_ns, watch)
        after = self.hub.usage()
        published = [worker.take(Published) for worker in self._publishers]
        reported = self._report(latency=False)
        first_ns, last_ns = min(board.first_ns), max(*board.last_ns, *board.first_ns)
        result = measured(Window(first_ns, last_ns, before, after), published, reported, total, plan.size)
        started_s = first_ns / 1e9
        return msgspec.structs.replace(
            result, samples=[msgspec.structs.replace(one, at_s=max(0.0, one.at_s - started_s)) for one in samples]
        )

    def _order_publishers(self, frames: int, rate: float, burst_frames: int) -> None:
        start_ns = time.monotonic_ns() + _LEAD_NS
        count = self.plan.publishers
        # Bursts of several publishers take turns instead of coming all at once.
        turn_ns = int(burst_frames * self.plan.batch / rate * 1e9) if rate else 0
        for number, worker in enumerate(self._publishers):
            worker.order(Publish(frames, rate / count, burst_frames, self._window, start_ns + number * turn_ns))

    def _watch(self, already: int, messages: int, cpu_ns: int, watch: Watch | None) -> list[Sample]:
        """Look at the board until all is accounted for, or nothing moves any more; return the run in steps."""
        board, subscribers = self._board, self.plan.subscribers
        samples: list[Sample] = []
        moved_s = sampled_s = time.monotonic()
        seen = (-1, -1)
        while True:
            sent = sum(board.sent) - already
            delivered = sum(board.accounted) - already * subscribers
            now_s = time.monotonic()
            done = sent >= messages and min(board.accounted) >= already + messages
            if (sent, delivered) != seen or sent < messages:
                seen, moved_s = (sent, delivered), now_s
            if done or now_s - sampled_s >= _SAMPLE_S:
                sampled_s = now_s
                samples.append(Sample(now_s, sent, delivered, (self.hub.usage().cpu_ns - cpu_ns) / 1e9))
                if watch is not None:
                    watch(delivered, messages * subscribers)
            if done or now_s - moved_s > QUIET_S:
                return samples
            for worker in (*self._publishers, *self._subscribers):
                worker.wait(0)
            time.sleep(_POLL_S)

    def _report(self, *, latency: bool) -> list[Reported]:
        order = Report(self.sent, latency)
        for worker in self._subscribers:
            worker.order(order)
        return [worker.take(Reported) for worker in self._subscribers]


class Window(NamedTuple):
    """The time that is measured, ns of the monotonic clock, and the hub before and after."""

    first_ns: int
    last_ns: int
    before: Usage
    after: Usage


def measured(
    window: Window, published: list[Published], reported: list[Reported], messages: int, size_bytes: int
) -> Measurement:
    """Work out the figures.

    Args:
        window: When the run was, and the hub before and after it.
        published: Answers of the publishers.
        reported: Answers of the subscribers' processes.
        messages: How many all publishers have sent.
        size_bytes: Size of a value.
    """
    counted = [one for answer in reported for one in answer.counted]
    before, after = window.before, window.after
    elapsed_s = max(window.last_ns - window.first_ns, 1) / 1e9
    delivered = sum(one.received for one in counted)
    cpu_s = (after.cpu_ns - before.cpu_ns) / 1e9
    writes = after.writes - before.writes
    latency = Histogram()
    for answer in reported:
        latency.add(answer.latency)
    return Measurement(
        published=messages,
        expected=messages * len(counted),
        delivered=delivered,
        lost=sum(one.lost for one in counted),
        told=sum(one.told for one in counted),
        out_of_order=sum(one.out_of_order for one in counted),
        misrouted=sum(one.misrouted for one in counted),
        disconnected=sum(1 for one in counted if one.closed),
        elapsed_s=elapsed_s,
        published_per_s=messages / elapsed_s,
        delivered_per_s=delivered / elapsed_s,
        delivered_mb_per_s=delivered * size_bytes / elapsed_s / 1e6,
        hub_cpu_s=cpu_s,
        hub_cpu_percent=100 * cpu_s / elapsed_s,
        us_per_message=cpu_s * 1e6 / messages,
        us_per_delivery=cpu_s * 1e6 / delivered if delivered else 0.0,
        hub_memory_bytes=after.memory_bytes,
        hub_peak_bytes=after.peak_bytes,
        messages_per_read=delivered / max(1, sum(one.reads for one in counted)),
        messages_per_write=delivered / writes if writes > len(counted) else 0.0,
        publisher_busy_percent=sum(one.cpu_ns for one in published) / elapsed_s / 1e7,
        subscriber_busy_percent=sum(one.cpu_ns for one in reported) / elapsed_s / 1e7,
        window_wait_percent=sum(one.waited_ns for one in published) / len(published) / elapsed_s / 1e7,
        publisher_late_us=max(one.latest_ns for one in published) / 1000,
        latency=Latency.of(latency) if latency.total else None,
    )
