"""`ask_pairs`: pairs of numbers are asked of two services, as many at a time as may be unanswered, and checked.

Each pair is a request of its own, `[first, second]`, and its reply a number. There are as many tasks as pairs may be
unanswered, and each of them asks its next pair when the one before is answered; which of them travel in one frame is
the client's business.

Owner of the state: the requester. Invariant: in the end, the pairs that were asked are the right, the wrong, the failed
and the lost ones. Cost of a pair: some µs, most of them the client's own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import getrandbits
from typing import Any, Protocol

from hub.errors import HubError
from peers.bench.histogram import Histogram

__all__ = ["OPERATIONS", "Ask", "Asked", "Asks", "ask_pairs"]

_TIMEOUT_S = 30.0
"""How long a request may take; then the hub answers in place of the service."""

_LATE_S = _TIMEOUT_S + 5.0
"""When nothing is answered for so long, what is not answered is lost."""

_MODULO = (1 << 64) - 1
_REASONS = 5
"""How many different reasons of failures are kept; the others are only counted."""

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda first, second: first + second & _MODULO,
    "multiply": lambda first, second: first * second & _MODULO,
}
"""What the services do with numbers below 2^64, modulo 2^64, by the last part of their topics."""


@dataclass(frozen=True)
class Ask:
    """The order to make a run; `Asked` answers it."""

    pairs: int
    """How many pairs are asked; 0 for any number."""
    seconds: float
    """For how long pairs are asked, 0 for any time; what was asked by then is waited for."""
    outstanding: int
    """How many pairs may be unanswered; with one, each is timed."""


@dataclass
class Asked:
    """What has become of the pairs of a run."""

    pairs: int = 0
    wrong: int = 0
    """Pairs whose result was another one than it must be."""
    failed: int = 0
    """Pairs that were answered by a status instead of a result."""
    lost: int = 0
    """Pairs that were not answered."""
    reasons: list[str] = field(default_factory=list)
    """Why pairs failed, each reason once."""
    elapsed_ns: int = 0
    """From before the first request to after the last check."""
    latency: Histogram = field(default_factory=Histogram)
    """How long each pair took, ns, if only one at a time was asked."""

    def fail(self, pairs: int, error: HubError) -> None:
        """Count pairs that have failed, and keep the reason."""
        self.failed += pairs
        if str(error) not in self.reasons and len(self.reasons) < _REASONS:
            self.reasons.append(str(error))


class Asks(Protocol):
    """What is needed of a `peers.client.Client`; tests have something that stands in for one."""

    async def request(self, topic: str, value: Any, *, timeout_s: float) -> Any:
        """Ask, and wait for the answer."""


async def ask_pairs(client: Asks, topic: str, order: Ask, late_s: float = _LATE_S) -> Asked:
    """Make a run.

    Args:
        client: A connection to the hub.
        topic: What the services' topics begin with.
        order: How many pairs, for how long.
        late_s: When nothing is answered for so long, the run is over.
    """
    asked = Asked()
    began_ns = time.perf_counter_ns()
    end_ns = began_ns + order.seconds * 1e9 if order.seconds else float("inf")
    most = order.pairs or float("inf")
    ways = [(f"{topic}/{name}", operation) for name, operation in OPERATIONS.items()]
    settled, clock = 0, time.perf_counter_ns

    async def ask_one_after_the_other() -> None:
        nonlocal settled
        while asked.pairs < most and (asked_ns := clock()) < end_ns:
            asked.pairs += 1
            drawn = getrandbits(129)
            (way, operation), first, second = ways[drawn >> 128], drawn >> 64 & _MODULO, drawn & _MODULO
            try:
                value = await client.request(way, [first, second], timeout_s=_TIMEOUT_S)
            except HubError as error:  # if the connection is lost, say, it goes on until the run is to end
                asked.fail(1, error)
            else:
                if order.outstanding == 1:
                    asked.latency.record(clock() - asked_ns)
                asked.wrong += value != operation(first, second)
            settled += 1

    flows = {asyncio.create_task(ask_one_after_the_other()) for _ in range(order.outstanding)}
    before = -1
    while flows and settled != before:
        before = settled
        done, flows = await asyncio.wait(flows, timeout=late_s)
        for flow in done:
            flow.result()  # which raises what must not be passed over
    for flow in flows:
        flow.cancel()
    asked.lost = asked.pairs - settled
    asked.elapsed_ns = clock() - began_ns
    return asked
