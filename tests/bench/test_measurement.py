"""Histograms, the figures of a run, and reports: table, JSON and page tell the same."""

from __future__ import annotations

import html
import json
import math
import os
import re
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.bench.line import Counted
from peers.bench.measurement import Histogram, Latency, Measurement, Sample
from peers.bench.processes import Usage, read_usage
from peers.bench.report import Environment, Report, page, stream_report
from peers.bench.stage import Plan, Published, Reported, Window, measured

values = st.integers(0, 1 << 50)


def filled(numbers: list[int]) -> Histogram:
    histogram = Histogram()
    for number in numbers:
        histogram.record(number)
    return histogram


@given(values)
def test_a_value_lies_in_its_bucket(value: int) -> None:
    ((top, count),) = filled([value]).buckets()
    assert count == 1
    assert value <= top <= value * (1 + 1 / 128)
    assert filled([value, top]).buckets() == [(top, 2)]
    assert len(filled([value, top + 1]).buckets()) == 2


@given(st.lists(values, min_size=1), st.sampled_from([0, 1, 50, 90, 99, 99.9, 99.99, 100]))
def test_percentiles_agree_with_a_sorted_list(numbers: list[int], percent: float) -> None:
    """A percentile is that of the sorted values, or up to 0.8 % above, and never above the largest."""
    rank = max(1, math.ceil(round(percent * len(numbers) / 100, 9)))
    true = sorted(numbers)[rank - 1]
    found = filled(numbers).percentile(percent)
    assert true <= found <= min(true * (1 + 1 / 128), max(numbers))


def test_nothing_and_less_than_nothing() -> None:
    assert filled([-5]).buckets() == [(0, 1)]
    assert (Histogram().percentile(50), Histogram().mean, Histogram().buckets()) == (0, 0, [])


SECOND = 1_000_000_000


def run_of(cpu_ns: int = SECOND // 2, **counted: Any) -> Measurement:
    """Two subscribers that got 1,000 messages of 100 bytes in two seconds, but for what is said."""
    latency = Histogram()
    for _ in range(1000):
        latency.record(4000)
    account: dict[str, Any] = {"received": 1000, "reads": 100} | counted
    window = Window(5 * SECOND, 7 * SECOND, Usage(SECOND, 10, 20, 7), Usage(SECOND + cpu_ns, 30, 40, 407))
    published = [Published(3000, SECOND, SECOND // 10), Published(1000, 0, SECOND // 10)]
    reported = [Reported([Counted(**account)], latency, SECOND // 4)] * 2
    return measured(window, published, reported, 1000, 100, [])


def test_the_figures() -> None:
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


@pytest.mark.parametrize("fault", [{"lost": 1}, {"out_of_order": 1}, {"misrouted": 1}, {"told": 1}, {"received": 999}])
def test_what_is_not_flawless(fault: dict[str, int]) -> None:
    assert not run_of(**fault).flawless


def test_work_is_charged_and_waiting_is_not() -> None:
    before, began_ns = read_usage(os.getpid()), time.process_time_ns()
    while time.process_time_ns() - began_ns < 100_000_000:
        pass
    used_ns = read_usage(os.getpid()).cpu_ns - before.cpu_ns
    assert 80_000_000 < used_ns < 10 * (time.process_time_ns() - began_ns)


ENVIRONMENT = Environment(
    "2026-01-02T03:04:05+00:00", "0.1", "CPython 3.11", "uvloop 0.23", "compiled", "Linux 6", "<CPU> & more", 2, 0.0
)


def latency() -> Latency:
    histogram = Histogram()
    for value_us in range(1, 1001):
        histogram.record(value_us * 1000)
    return Latency.of(histogram)


def shown_run(**fields: Any) -> Measurement:
    numbers = {
        name: 0.0
        for name in Measurement.__struct_fields__
        if name not in {"latency", "samples", "published", "expected", "delivered"}
    }
    samples = [Sample(0.5, 60_000, 55_000), Sample(1.0, 123_456, 123_456)]
    whole = {"published": 123_456, "expected": 123_456, "delivered": 123_456, "delivered_per_s": 123_456.0}
    run: Measurement = msgspec.convert(numbers | whole | {"samples": samples} | fields, Measurement, strict=False)
    return run


def report_of(*runs: Measurement, plan: Plan | None = None) -> Report:
    return stream_report(plan or Plan(), ENVIRONMENT, runs)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"misrouted": 1}, "under another topic"),
        ({"disconnected": 1}, "closed connections"),
        ({"lost": 5, "told": 4}, "reports of lost messages are wrong"),
        ({"publisher_busy_percent": 95.0}, "near their limit"),
        ({"window_wait_percent": 80.0}, "waited for subscribers"),
    ],
)
def test_what_makes_figures_doubtful_is_said(fields: dict[str, Any], part: str) -> None:
    assert any(part in remark for remark in report_of(shown_run(**fields)).remarks)
    assert not report_of(shown_run()).remarks


def test_the_page_needs_nothing_else() -> None:
    runs, plan = [shown_run(latency=latency()), shown_run(latency=latency())], Plan(rate=1000)
    report = report_of(*runs, plan=plan)
    text = page(plan, report, runs)
    assert "123,456" in text
    assert "&lt;CPU&gt; &amp; more" in text
    assert text.count("<svg") == text.count("</svg>") == 2
    assert text.count("<polyline") == 4
    assert not re.search(r"<script|<link|<img|@import|url\(|src=|href=|http", text)
    shown = re.search(r"<pre>(.*?)</pre>", text, re.DOTALL)
    assert shown is not None
    assert json.loads(html.unescape(shown[1])) == json.loads(report.json())
