"""`Measurement`: the figures follow from what was counted."""

from __future__ import annotations

from typing import Any

import pytest

from peers.bench.histogram import Histogram
from peers.bench.measurement import Measurement, Window, measured
from peers.bench.publisher import Published
from peers.bench.report import medians
from peers.bench.subscriber import Reported
from peers.bench.tally import Counted
from peers.bench.usage import Usage

SECOND = 1_000_000_000


def run_of(cpu_ns: int = SECOND // 2, **counted: Any) -> Measurement:
    """Two subscribers that got 1,000 messages of 100 bytes in two seconds, but for what is said."""
    latency = Histogram()
    for _ in range(1000):
        latency.record(4000)
    account: dict[str, Any] = {"received": 1000, "reads": 100} | counted
    window = Window(
        5 * SECOND,
        7 * SECOND,
        Usage(SECOND, 10, 20, 7),
        Usage(SECOND + cpu_ns, 30, 40, 407),
    )
    published = [Published(3000, SECOND, SECOND // 10), Published(1000, 0, SECOND // 10)]
    reported = [Reported([Counted(**account)], latency, SECOND // 4)] * 2
    return measured(window, published, reported, 1000, 100)


def test_the_figures() -> None:
    """Rates, CPU time by message and delivery, shares of a core."""
    run = run_of()
    assert (run.published, run.expected, run.delivered) == (1000, 2000, 2000)
    assert run.elapsed_s == 2
    assert (run.published_per_s, run.delivered_per_s, run.delivered_mb_per_s) == (500, 1000, 0.1)
    assert (run.hub_cpu_s, run.hub_cpu_percent) == (0.5, 25)
    assert (run.us_per_message, run.us_per_delivery) == (500, 250)
    assert (run.hub_memory_bytes, run.hub_peak_bytes) == (30, 40)
    assert (run.messages_per_read, run.messages_per_write) == (10, 5)
    assert (run.publisher_busy_percent, run.subscriber_busy_percent) == (10, 25)
    assert (run.window_wait_percent, run.publisher_late_us) == (25, 3)
    assert run.latency is not None
    assert run.latency.messages == 2000
    assert run.latency.p50_us == run.latency.max_us == 4
    assert run.flawless


@pytest.mark.parametrize("fault", ["lost", "out_of_order", "misrouted", "told"])
def test_what_is_not_flawless(fault: str) -> None:
    """Anything lost, told, misrouted or out of order is a flaw."""
    assert not run_of(**{fault: 1}).flawless


def test_a_delivery_too_few_is_a_flaw() -> None:
    """Even if nothing says that it was lost."""
    assert not run_of(received=999).flawless


def test_medians_are_of_each_figure() -> None:
    """Also of each percentile of latency."""
    middle = medians([run_of(cpu_ns=SECOND), run_of(cpu_ns=3 * SECOND), run_of(cpu_ns=2 * SECOND)])
    assert middle["hub_cpu_s"] == 2
    assert middle["published"] == 1000
    assert middle["latency"]["p99_us"] == 4
