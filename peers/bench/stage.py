"""`Stage`: the hub, the publishers, the subscribers and the bystanders of one benchmark, set up and put away.

```
with Stage(plan) as stage:         start the hub (or take a running one), connect everybody, warm up
    stage.measure(1_000_000)       send, wait until everything arrived or is known to be lost, work out the figures
    stage.populate(1000, 20)       change who stands beside the traffic; then measure again
```

One run: note the hub's CPU time, give the publishers their orders, look at the board until every subscriber has
accounted for every message (received, or told that it was lost), note the CPU time again, then ask for details. If
nothing moves any more for `QUIET_S` after the last message was sent, what has not come is lost.

Owner of the state: the command.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from hub.batch import BATCH_OVERHEAD_BYTES
from hub.overflow import QueueLimits
from peers.bench.board import Board
from peers.bench.errors import BenchError
from peers.bench.measurement import Measurement, Sample, Stalled, Window, measured
from peers.bench.orders import (
    Answer,
    BystanderSetup,
    Done,
    Populate,
    Publish,
    Published,
    PublisherSetup,
    Ready,
    Report,
    Reported,
    Resume,
    SubscriberSetup,
)
from peers.bench.plan import Plan
from peers.bench.running_hub import RunningHub
from peers.bench.tally import Counted
from peers.bench.worker import Worker

__all__ = ["QUIET_S", "Stage", "Told", "Watch"]

QUIET_S = 2.0
"""A hub that has a message delivers it within this, or never."""

_START_S = 120.0
"""Thousands of connections take a while."""
_ANSWER_S = 60.0
_POLL_S = 0.02
_SAMPLE_S = 0.1
_LEAD_NS = 20_000_000
"""From the order to the first message, so that all publishers begin together."""

Watch = Callable[[int, int], object]
"""Called now and then with how many deliveries are accounted for, and how many there will be."""

Told = Callable[[str], Watch]
"""Called before each measurement with what it is; returns whoever watches it."""

A = TypeVar("A", bound=Answer)
S = TypeVar("S", PublisherSetup, SubscriberSetup, BystanderSetup)


class Stage:
    """One benchmark, set up."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan.check()
        self.layout = plan.layout(secrets.token_hex(4))
        self.hub: RunningHub
        self._workers: list[Worker] = []
        self._publishers: list[Worker] = []
        self._subscribers: list[Worker] = []
        self._stalled: list[Worker] = []
        self._bystander: Worker | None = None
        self._board: Board
        self._descriptor = -1
        self._window = 0
        self._affinity = os.sched_getaffinity(0)

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything that was started."""
        for worker in self._workers:
            worker.stop()
        self._workers = []
        if hasattr(self, "hub"):
            self.hub.stop()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        os.sched_setaffinity(0, self._affinity)

    # Setting up.

    def _set_up(self) -> None:
        plan = self.plan
        placement = plan.placement
        if plan.urls:
            self.hub = RunningHub.adopt(list(plan.urls), plan.hub_pid)
        else:
            schemes = ("tcp",) if plan.transport == "tcp" else ("tcp", "ws")
            self.hub = RunningHub.start(schemes, plan.hub_flags, placement.hub)
        if placement.load:
            os.sched_setaffinity(0, placement.load)
        self._descriptor = Board.make(plan.publishers, plan.subscribers)
        self._board = Board(self._descriptor, plan.publishers, plan.subscribers)
        self._start_subscribers()
        for number in range(plan.publishers):
            setup = self._setup(PublisherSetup, self.hub.url("tcp"), number=number)
            self._publishers.append(self._start("publisher", setup))
        for worker in self._publishers:
            self._expect(worker, Ready, _START_S)
        if plan.idle_subscribers or plan.idle_peers:
            self.populate(plan.idle_subscribers, plan.idle_peers)
        if plan.warmup_messages:
            self.measure(plan.warmup_messages)

    def _start_subscribers(self) -> None:
        plan = self.plan
        url = self.hub.url(plan.transport)
        each, more = divmod(plan.subscribers, plan.processes)
        first = 0
        for index in range(plan.processes):
            count = each + (index < more)
            setup = self._setup(SubscriberSetup, url, first=first, count=count, wish=plan.wish)
            self._subscribers.append(self._start("subscriber", setup))
            first += count
        if plan.stalled:
            setup = self._setup(
                SubscriberSetup,
                url,
                first=0,
                count=plan.stalled,
                wish=plan.wish if plan.stalled_wish is None else plan.stalled_wish,
                stalled=True,
                own_topics=plan.stalled_apart,
            )
            self._stalled.append(self._start("subscriber", setup))
        granted = [self._expect(worker, Ready, _START_S) for worker in self._subscribers]
        for worker in self._stalled:
            self._expect(worker, Ready, _START_S)
        self._window = self._fitting(granted[0]) if plan.window else 0

    def _fitting(self, granted: Ready) -> int:
        """Most messages that surely fit into the queue of a subscriber, for each publisher."""
        default = QueueLimits()
        layout = self.layout
        messages = granted.queue_messages or default.messages
        each_bytes = (layout.frame_bytes + BATCH_OVERHEAD_BYTES) / layout.batch
        fitting = min(messages, int((granted.queue_bytes or default.bytes) / each_bytes))
        return max(1, fitting // self.plan.publishers)

    def _setup(self, kind: type[S], url: str, **fields: Any) -> S:
        return kind(
            url=url,
            layout=self.layout,
            board=self._descriptor,
            publishers=self.plan.publishers,
            subscribers=self.plan.subscribers,
            cpus=self.plan.placement.load,
            **fields,
        )

    def _start(self, module: str, setup: PublisherSetup | SubscriberSetup | BystanderSetup) -> Worker:
        worker = Worker(module, setup, (self._descriptor,))
        self._workers.append(worker)
        return worker

    def _expect(self, worker: Worker, kind: type[A], timeout_s: float = _ANSWER_S) -> A:
        answer = worker.take(timeout_s)
        if not isinstance(answer, kind):
            raise BenchError(f"a {worker.name} answered {answer}")
        return answer

    # Bystanders.

    def populate(self, subscribers: int, links: int) -> None:
        """Have so many idle subscribers and links, and wait until the hub has got over it."""
        if self._bystander is None:
            self._bystander = self._start("bystander", self._setup(BystanderSetup, self.hub.url("tcp")))
            self._expect(self._bystander, Ready, _START_S)
        self._bystander.order(Populate(subscribers, links, self.hub.url(self.plan.transport)))
        self._expect(self._bystander, Done, _START_S)
        self.hub.wait_quiet()

    # Measuring.

    def measure(
        self, messages: int | None = None, rate: float = 0, burst: int = 1, watch: Watch | None = None
    ) -> Measurement:
        """Send messages and account for them.

        Args:
            messages: Of all publishers together; None is what the plan says.
            rate: Messages a second; 0 is full speed.
            burst: Messages that are due at the same time.
            watch: Told how far it is.

        Raises:
            BenchError: The hub or a worker failed.
        """
        plan, board = self.plan, self._board
        frames = -(-(plan.messages if messages is None else messages) // (plan.publishers * plan.batch))
        already = list(board.sent)
        self._report(latency=bool(rate))
        self.hub.forget_peak()
        before = self.hub.usage()
        self._order_publishers(frames, rate, max(1, burst // plan.batch))
        goals = [sent + frames * plan.batch for sent in already]
        samples = self._watch(goals, sum(already), before.cpu_ns, watch)
        after = self.hub.usage()
        published = [self._expect(worker, Published) for worker in self._publishers]
        reported = self._report(latency=False)
        first_ns, last_ns = min(board.first_ns), max(*board.last_ns, *board.first_ns)
        total = frames * plan.batch * plan.publishers
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

    def _watch(self, goals: list[int], already: int, cpu_ns: int, watch: Watch | None) -> list[Sample]:
        """Look at the board until all is accounted for, or nothing moves any more; return the run in steps."""
        board = self._board
        total = sum(goals)
        deliveries = (total - already) * board.subscribers
        samples: list[Sample] = []
        moved_s = sampled_s = time.monotonic()
        seen = -1
        while True:
            sent, delivered = board.published, board.delivered
            now_s = time.monotonic()
            done = sent >= total and min(board.accounted) >= total
            if sent + delivered != seen or sent < total:
                seen, moved_s = sent + delivered, now_s
            if done or now_s - sampled_s >= _SAMPLE_S:
                sampled_s = now_s
                progress = delivered - already * board.subscribers
                cpu_s = (self.hub.usage().cpu_ns - cpu_ns) / 1e9
                samples.append(Sample(now_s, sent - already, progress, cpu_s))
                if watch is not None:
                    watch(progress, deliveries)
            if done or now_s - moved_s > QUIET_S:
                return samples
            for worker in self._workers:
                worker.check()
            time.sleep(_POLL_S)

    def _report(self, *, latency: bool) -> list[Reported]:
        order = Report(list(self._board.sent), latency)
        for worker in self._subscribers:
            worker.order(order)
        return [self._expect(worker, Reported) for worker in self._subscribers]

    # Those that did not read.

    def resume_stalled(self) -> list[Counted]:
        """Let stalled subscribers read on until nothing more comes; return what each got since it connected."""
        counted = []
        for worker in self._stalled:
            worker.order(Resume(QUIET_S / 2))
            self._expect(worker, Done)
            worker.order(Report(list(self._board.sent), latency=False))
            counted += self._expect(worker, Reported).counted
        return counted

    def stalled(self) -> Stalled | None:
        """Sum up what became of stalled subscribers, None if there are none."""
        if not self._stalled:
            return None
        counted = self.resume_stalled()
        reasons = [one.closed for one in counted if one.closed]
        return Stalled(
            subscribers=len(counted),
            received=sum(one.received for one in counted),
            lost=sum(one.lost for one in counted),
            told=sum(one.told for one in counted),
            closed=len(reasons),
            reason=reasons[0] if reasons else "",
        )
