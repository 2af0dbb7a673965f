"""Metrics of the spans that a collector is told of.

Owner: nobody: a scrape reads what `peers.daemon.telemetry` counts. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from peers.node.metrics.family import gauge
from peers.node.span_statistics import SpanStatistics

__all__ = ["span_metrics"]


def span_metrics(spans: SpanStatistics) -> Iterator[Metric]:
    """Yield how many spans wait, and what has become of the others."""
    yield gauge("hub_spans_waiting", "Spans that wait for the collector.", spans.waiting)
    yield gauge("hub_spans_limit", "How many may wait.", spans.limit)
    outcomes = CounterMetricFamily("hub_spans", "Spans, by what has become of them.", labels=["outcome"])
    outcomes.add_metric(["exported"], spans.exported)
    outcomes.add_metric(["failed"], spans.failed)
    outcomes.add_metric(["overflowed"], spans.overflowed)
    outcomes.add_metric(["skipped"], spans.skipped)
    yield outcomes
