"""What requests cost the core while very many are pending: `python -m tests.benchmarks.requests_pending [pending]`.

No sockets: a core, requesters and one service whose outlets throw away what they are told. First so many requests are
asked, each in a frame of its own, in equal shares by as many requesters as it takes; then, while they stay pending,
some are answered, timed out, or lost with their requester; last the service goes and all the rest is answered. Times
are CPU times.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable

from hub.batch import Batch
from hub.core import Core
from hub.delivery import Role
from hub.frame import BATCH_COUNT, FLAG_BATCH
from hub.handler import Handler
from hub.limits import CoreLimits, RequestLimits
from hub.overflow import QueueLimits
from hub.request_frame import Item, Reply, Request

PER_REQUESTER = 50_000
SAMPLE = 100_000
TOPIC = b"/service/add"
VALUE = b"\x93\x01\x02\x03"
BATCH = 1_000


class Nowhere:
    """An outlet that forgets."""

    def send(self, batches: list[Batch]) -> None:
        """Forget messages."""

    def send_gap(self, lost_messages: int) -> None:
        """Forget a gap."""

    def post(self, items: list[Item]) -> None:
        """Forget requests and replies."""

    def close(self, code: int, text: str) -> None:
        """Forget the end."""


class Stage:
    """A core with one service and requesters."""

    def __init__(self, pending: int) -> None:
        self.woken = False
        self.core = Core(self._wake, CoreLimits(requests=RequestLimits(pending=1 << 30, pending_total=1 << 30)))
        self.requests = self.core.requests
        self.service = self.join()
        for _ in self.requests.serving(self.service, ["/service/"]):
            pass
        self.requesters = [self.join() for _ in range(max(1, pending // PER_REQUESTER) + 1)]
        self.last = self.requesters.pop()

    def _wake(self) -> None:
        self.woken = True

    def join(self) -> Handler:
        """Attach one more handler, and return it."""
        outlet = Nowhere()
        handler = Handler(outlet, role=Role.CLIENT, limits=QueueLimits(), poster=outlet)
        self.core.attach(handler)
        return handler

    def ask(self, requester: Handler, numbers: range, timeout_ms: int) -> None:
        """Ask so many requests, each in a frame of its own, a hundred to a read."""
        ask = self.requests.ask
        for number in numbers:
            ask(requester, Request(TOPIC, number, timeout_ms, VALUE), 0)
            if not number % 100:
                self.core.flush()
        self.core.flush()

    def answer(self, numbers: range) -> None:
        """Answer so many requests, each in a frame of its own, a hundred to a read."""
        answer = self.requests.answer
        for number in numbers:
            answer(self.service, Reply(number, 0, VALUE))
            if not number % 100:
                self.core.flush()
        self.core.flush()

    def settle(self) -> float:
        """Go on until nothing is left to do; return the longest turn, ms."""
        longest = 0.0
        self.woken = True
        while self.woken:
            self.woken = False
            start = time.process_time()
            self.core.flush()
            longest = max(longest, time.process_time() - start)
        return longest * 1000


def timed(what: str, count: int, act: Callable[[], object]) -> None:
    """Do it and print a row of the table."""
    start = time.process_time()
    said = act()
    spent = time.process_time() - start
    longest = f"{said:.0f} ms" if isinstance(said, float) else ""
    print(f"| {what} | {count:,} | {spent / count * 1e6:.2f} | {longest} |", flush=True)  # noqa: T201


def expire(stage: Stage, now_ms: int) -> float:
    """Time out what is due; return the longest turn, ms."""
    longest = 0.0
    while (due_ms := stage.requests.next_due_ms) is not None and due_ms <= now_ms:
        start = time.process_time()
        stage.requests.expire(now_ms)
        stage.core.flush()
        longest = max(longest, time.process_time() - start)
    return longest * 1000


def leave(stage: Stage, handler: Handler) -> float:
    """Let a handler go; return the longest turn, ms."""
    start = time.process_time()
    stage.core.detach(handler, "gone")
    first = (time.process_time() - start) * 1000
    return max(first, stage.settle())


def batches(stage: Stage, count: int, issued: int) -> None:
    """Ask and answer in frames of a thousand."""
    values = BATCH_COUNT.pack(BATCH) + VALUE * BATCH
    for number in range(0, count, BATCH):
        stage.requests.ask(stage.last, Request(TOPIC, number, 60_000, values, FLAG_BATCH), 0)
        stage.core.flush()
        stage.requests.answer(stage.service, Reply(issued + number, 0, values, FLAG_BATCH))
        stage.core.flush()


def main() -> None:
    """Print the table."""
    pending = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    gc.freeze()
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stage = Stage(pending)
    share = pending // len(stage.requesters)

    def fill() -> None:
        for requester in stage.requesters:
            stage.ask(requester, range(share), 600_000)

    print("| | requests | µs CPU each | longest turn, CPU |\n|---|---|---|---|")  # noqa: T201
    sample = min(SAMPLE, share)
    timed("ask, none pending before", share * len(stage.requesters), fill)
    after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    issued = share * len(stage.requesters)
    timed("ask, all pending", sample, lambda: stage.ask(stage.last, range(sample), 60_000))
    timed("answer", sample, lambda: stage.answer(range(issued, issued + sample)))
    issued += sample
    timed("ask and answer, in batches of 1,000", SAMPLE, lambda: batches(stage, SAMPLE, issued))
    stage.ask(stage.last, range(sample), 1_000)
    timed("time out", sample, lambda: expire(stage, 2_000))
    first = stage.requesters[0]
    timed("forget a requester", share, lambda: leave(stage, first))
    left = stage.requests.statistics().pending
    timed("lose the service", left, lambda: leave(stage, stage.service))
    start = time.process_time()
    gc.collect()
    collected = (time.process_time() - start) * 1000
    print(f"\nmemory: {(after_kib - before_kib) * 1024 / pending:.0f} bytes a pending request")  # noqa: T201
    print(f"collection afterwards: {collected:.0f} ms; pending: {stage.requests.statistics().pending}")  # noqa: T201


if __name__ == "__main__":
    main()
