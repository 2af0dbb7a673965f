"""Reports: table, JSON and page tell the same figures."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import msgspec
import pytest
from rich.console import Console

from peers.bench.measurement import Histogram, Latency, Measurement, Sample
from peers.bench.report import Environment, Report, page, stream_report
from peers.bench.stage import Plan

ENVIRONMENT = Environment(
    "2026-01-02T03:04:05+00:00", "0.1", "CPython 3.11", "uvloop 0.23", "compiled", "Linux 6", "<CPU> & more", 2, 0.0
)


def latency() -> Latency:
    histogram = Histogram()
    for value_us in range(1, 1001):
        histogram.record(value_us * 1000)
    return Latency.of(histogram)


def run_of(**fields: Any) -> Measurement:
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


def printed(report: Report) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    console.print(report.table())
    console.file.close()
    return console.export_text()


def test_a_table_has_a_unit_in_every_row() -> None:
    report = report_of(run_of())
    assert all(row.unit for row in report.rows)
    assert re.search(r"delivered +messages +123,456", printed(report))
    assert report.columns == ["figure"]


def test_several_runs_have_a_median() -> None:
    report = report_of(run_of(elapsed_s=1.0), run_of(elapsed_s=5.0), run_of(elapsed_s=2.0))
    assert report.columns == ["run 1", "run 2", "run 3", "median"]
    assert re.search(r"elapsed +s +1\.000 +5\.000 +2\.000 +2\.000", printed(report))


def test_latencies_are_shown_where_they_were_measured() -> None:
    report = report_of(run_of(latency=latency(), publisher_late_us=7.0), plan=Plan(rate=1000))
    text = printed(report)
    assert re.search(r"latency, worst +µs +1,000", text)
    assert re.search(r"publishers late, worst +µs +7", text)


def test_json_has_everything() -> None:
    report = report_of(run_of(latency=latency()), run_of(latency=latency()), plan=Plan(rate=1000, topics=7))
    document = json.loads(report.json())
    assert document["benchmark"] == "stream"
    assert document["version"] == 2
    assert document["flawless"] is True
    assert document["plan"]["topics"] == 7
    assert document["environment"]["cpu"] == "<CPU> & more"
    assert [run["delivered"] for run in document["runs"]] == [123_456, 123_456]
    assert document["median"]["delivered_per_s"] == 123_456
    assert sum(count for _, count in document["runs"][0]["latency"]["buckets"]) == 1000
    assert document["runs"][0]["samples"][1]["delivered"] == 123_456


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"misrouted": 1}, "under another topic"),
        ({"disconnected": 1}, "closed connections"),
        ({"lost": 5, "told": 4}, "is not what was lost"),
        ({"publisher_busy_percent": 95.0}, "near their limit"),
        ({"window_wait_percent": 80.0}, "waited for subscribers"),
    ],
)
def test_what_makes_figures_doubtful_is_said(fields: dict[str, Any], part: str) -> None:
    assert any(part in remark for remark in report_of(run_of(**fields)).remarks)
    assert not report_of(run_of()).remarks


def test_the_page_needs_nothing_else() -> None:
    runs, plan = [run_of(latency=latency()), run_of(latency=latency())], Plan(rate=1000)
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


def test_a_page_of_a_run_too_short_for_samples() -> None:
    run = run_of(samples=[])
    text = page(Plan(), report_of(run), [run])
    assert "<polyline" in text
    assert "nan" not in text
