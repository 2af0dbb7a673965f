"""Families of metrics without labels, which most are: one figure, or one histogram."""

from __future__ import annotations

from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from hub.histogram import HistogramStatistics

__all__ = ["counter", "gauge", "histogram"]


def counter(name: str, text: str, value: float) -> Metric:
    """Return what only grows; `_total` is put behind its name."""
    return CounterMetricFamily(name, text, value=value)


def gauge(name: str, text: str, value: float) -> Metric:
    """Return what goes up and down."""
    return GaugeMetricFamily(name, text, value=value)


def histogram(name: str, text: str, statistics: HistogramStatistics) -> Metric:
    """Return how often something was how large: each bucket holds what is in the smaller ones, too."""
    bounds = [*map(floatToGoString, statistics.bounds), "+Inf"]
    buckets = list(zip(bounds, accumulate(statistics.counts), strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=statistics.total)
