"""The goals of the project for its hub, as far as they can be measured from outside, by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

from hub.overflow import Overflow
from peers.bench.errors import BenchError
from tests.benchmarks.goals.figure import Figure
from tests.benchmarks.goals.journal import beside_history, confirmed, confirmed_frames, history, live, written
from tests.benchmarks.goals.memory import connections, stalled_queues, subscriptions
from tests.benchmarks.goals.scope import Scope
from tests.benchmarks.goals.stalled import stalled
from tests.benchmarks.goals.streams import batches, churn, fan_out, idle, streams

__all__ = ["GOALS", "run_goals"]

GOALS: dict[str, Callable[[Scope], list[Figure]]] = {
    "one-topic": partial(streams, topics=1, goal_us=0.4),
    "topics-16": partial(streams, topics=16, goal_us=0.8),
    "topics-10000": partial(streams, topics=10_000, goal_us=1.2),
    "batches-16": partial(batches, values=16, goal_us=0.05),
    "batches-100": partial(batches, values=100, goal_us=0.05),
    "batches-600": partial(batches, values=600, goal_us=0.05),
    "idle": partial(idle, goal_percent=2),
    "websocket": partial(fan_out, burst=1, goal_us=6),
    "websocket-coalesced": partial(fan_out, burst=16, goal_us=1),
    "memory-websocket": partial(connections, transport="ws", goal_kib=12),
    "memory-tcp": partial(connections, transport="tcp", goal_kib=8),
    "memory-subscription": partial(subscriptions, goal_bytes=450),
    "memory-stalled": partial(stalled_queues, goal_mib=130),
    "churn-1000": partial(churn, pairs_per_s=1000, goal_percent=5),
    "churn-2000": partial(churn, pairs_per_s=2000, goal_percent=5),
    "stalled-drop-oldest": partial(stalled, overflow=Overflow.DROP_OLDEST, goal_percent=95),
    "stalled-drop-newest": partial(stalled, overflow=Overflow.DROP_NEWEST, goal_percent=95),
    "stalled-disconnect": partial(stalled, overflow=Overflow.DISCONNECT, goal_percent=95),
    "journal-live": partial(live, goal_percent=60),
    "journal-written": partial(written, goal_per_s=600_000),
    "journal-confirmed": partial(confirmed, goal_ms=25),
    "journal-confirmed-frames": partial(confirmed_frames, goal_ms=25),
    "journal-read": partial(history, goal_per_s=1_000_000),
    "journal-beside": partial(beside_history, goal_times=2),
}
"""Each measures one or more figures. 64 KiB, what a client library sends at once, hold about 600 values of 100 bytes.
A churn of 2,000/s can be read as 2,000 requests, or as 2,000 subscriptions and as many ends of them: both are here."""


def run_goals(scope: Scope, only: Iterable[str] = ()) -> list[Figure]:
    """Measure the goals.

    Args:
        scope: How.
        only: Their names; empty for all.

    Returns:
        Their figures; one that could not be measured says why.

    Raises:
        BenchError: There is no such goal.
    """
    names = list(only) or list(GOALS)
    for name in names:
        if name not in GOALS:
            raise BenchError(f"--only: no figure {name!r}; there are {', '.join(GOALS)}")
    figures: list[Figure] = []
    for name in names:
        try:
            figures += GOALS[name](scope)
        except BenchError as error:  # the others are worth having all the same
            figures.append(Figure(name, math.nan, "", [], faults=[f"not measured: {error}"]))
    return figures
